"""TCP through chains of bridges between two namespaces (S2): throughput, what it costs at both ends, and the guard.

In OVS's userspace datapaths ("netdev", "dpdk") the namespaces' and the chain's veth ends are af_packet ports, which
vswitchd reads and writes by system calls. The kernel datapath ("system"), which S2 measured in 2014, and Linux
bridges ("linux-bridge") pass frames inside the kernel. So figures of different datapaths say different things about
veth, and each result is labelled with its datapath.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import pytest

from pytest_nfvperf import Dut, SlaCheck, Study, Subject, bridge_chain, chosen, compares
from pytest_nfvperf.parts import Offloads

CHAINS = range(1, 10)
STREAMS = (1, 2, 4, 8, 16)
OFFLOADS = {
    True: Offloads(tso=True, gso=True, tx_checksum=True),
    False: Offloads(tso=False, gso=False, tx_checksum=False),
}
"""TSO, and with it the others that S2 switched: without its checksum no segment can be left to the driver."""

OF_OVS = list(product(("netdev", "system"), ("patch", "veth"), STREAMS, (True, False)))
OF_LINUX = list(product(("linux-bridge",), ("veth",), STREAMS, (True, False)))
"""Linux bridges have no patch ports."""

IP = {"ipv4": 4, "ipv6": 6}

QUICK = {
    ("netdev", "patch", 1, False),
    ("netdev", "veth", 1, False),
    ("system", "patch", 1, True),
}


@pytest.mark.nfv(topology="chain")
@chosen("datapath, link, streams, tso", [*OF_OVS, *OF_LINUX], quick=QUICK)
@compares("bridges", CHAINS, quick=(1, 9))
def test_tcp_chain(
    bridges: Sequence[int], datapath: str, link: str, streams: int, tso: bool, study: Study, sla: SlaCheck
) -> None:
    """Goodput of TCP streams through chains of bridges, and the CPUs of sender, receiver and datapath.

    Steps: in interleaved rounds build each chain anew between two namespaces; set the offloads; send TCP one way.
    Verify: the SLA where it has a rule; else measured and reported, as ratios to one bridge.
    """
    dut = Dut(datapath, userspace_tso=tso and datapath == "netdev")
    chains = [
        Subject(str(number), bridge_chain(number, link=link, ends="namespace", offloads=OFFLOADS[tso]), dut)
        for number in bridges
    ]
    sla.check_each(study.tcp_throughput("bridges", chains, streams))


@pytest.mark.nfv_not_quick
@pytest.mark.nfv(topology="chain")
@pytest.mark.parametrize("link", ["patch", "veth"])
@compares("ip", IP, quick=IP)
def test_tcp_ipv6(ip: Sequence[str], link: str, study: Study, sla: SlaCheck) -> None:
    """Goodput of TCP over IPv6 through two bridges, beside that over IPv4: what longer headers and neighbours cost.

    Steps: in interleaved rounds build the chain anew between two namespaces with addresses of each sort; send TCP.
    Verify: the SLA where it has a rule; else measured and reported, as a ratio to IPv4.
    """
    chains = [Subject(name, bridge_chain(2, link=link, ends="namespace", ip=IP[name]), Dut("netdev")) for name in ip]
    sla.check_each(study.tcp_throughput("ip", chains))
