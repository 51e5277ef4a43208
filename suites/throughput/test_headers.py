"""Throughput of frames that need more parsing than plain IPv4: IPv6, tags, labels, tunnels.

What a tunnel carries a switch does not look at: only the outer ports tell its flows apart.
"""

from __future__ import annotations

from scapy.contrib.geneve import GENEVE
from scapy.contrib.gtp import GTP_U_Header
from scapy.contrib.mpls import MPLS
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrHopByHop
from scapy.layers.l2 import Dot1AD, Dot1Q, Ether

from pytest_nfvperf import LiveTopology, Search, SlaCheck, Traffic, Vary, Vxlan, sweep

FLOWS = 1000
KINDS = {
    "ipv6": Traffic(frame_size=128, flows=FLOWS).over_ipv6(),
    "vxlan": Traffic(frame_size=128, flows=FLOWS, vxlan=Vxlan()),
    "vxlan-ipv6": Traffic(frame_size=256, flows=FLOWS, vxlan=Vxlan()).over_ipv6(),
    "tcp": Traffic(frame_size=128, packet=Ether() / IP() / TCP(dport=80), vary=[Vary("IP.src", FLOWS)]),
    "qinq": Traffic(
        frame_size=128,
        packet=Ether() / Dot1AD(vlan=10) / Dot1Q(vlan=20) / IP() / TCP(dport=80),
        vary=[Vary("IP.src", FLOWS)],
    ),
    "mpls": Traffic(
        frame_size=128,
        packet=Ether() / MPLS(label=16, s=0) / MPLS(label=17) / IP() / UDP(),
        vary=[Vary("IP.src", FLOWS)],
    ),
    "ipv6-extensions": Traffic(
        frame_size=128,
        packet=Ether() / IPv6() / IPv6ExtHdrHopByHop() / IPv6ExtHdrDestOpt() / UDP(),
        vary=[Vary("IPv6.src", FLOWS)],
    ),
    "gtpu": Traffic(
        frame_size=128,
        packet=Ether() / IP() / UDP(chksum=0) / GTP_U_Header(teid=1) / IP() / UDP(chksum=0),
        vary=[Vary("GTP_U_Header.teid", FLOWS), Vary("UDP.sport", FLOWS, first=49152)],
        together=False,
    ),
    "geneve": Traffic(
        frame_size=128,
        packet=Ether() / IP() / UDP(chksum=0) / GENEVE(vni=7) / Ether() / IP() / UDP(chksum=0),
        vary=[Vary("IP[2].src", FLOWS), Vary("UDP.sport", FLOWS, first=49152)],
        together=False,
    ),
}


@sweep("headers", list(KINDS), quick={"qinq", "gtpu"})
def test_ndr_pdr_headers(headers: str, phy2phy: LiveTopology, search: Search, sla: SlaCheck) -> None:
    """NDR and PDR of a thousand flows of other frames than plain IPv4; sizes are those of the outer frame.

    Steps: build port - bridge - port; learn; warm up; search with MLRsearch; confirm.
    Verify: the SLA for these headers.
    """
    sla.check(search.ndr_pdr(phy2phy, KINDS[headers]))
