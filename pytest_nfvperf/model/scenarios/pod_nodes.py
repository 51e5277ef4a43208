"""A pod on each of two nodes, as OVN-Kubernetes joins them (scenario S5): br-int, a tunnel, br-ex, the underlay."""

from __future__ import annotations

from pytest_nfvperf.model.arguments import INTEGER, MTU, TEXT, checked, one
from pytest_nfvperf.model.errors import ArgumentError
from pytest_nfvperf.model.scenarios.overlay_path import NO_OVERLAY, NODES, OVERLAYS
from pytest_nfvperf.model.scenarios.pods import benchmark_address, name_of, offloads_of
from pytest_nfvperf.model.topology.compose import Part, compose, node
from pytest_nfvperf.model.topology.links import Crossing, TunnelKind, encapsulation_bytes
from pytest_nfvperf.model.topology.nodes import AS_IT_IS, DEFAULT_MTU, Offloads
from pytest_nfvperf.model.topology.parts import namespace, patch, tunnel, underlay
from pytest_nfvperf.model.topology.topology import Topology

_UNDERLAY = ("198.19.0.1", "198.19.0.2")
_KEY = 42


@checked(overlay=TEXT, kind=TEXT, offloads=one(Offloads, "Offloads, such as Offloads(tso=False)"), mtu=MTU, ip=INTEGER)
def pod_nodes(
    overlay: str = "geneve",
    *,
    kind: str = "veth",
    offloads: Offloads = AS_IT_IS,
    mtu: int = DEFAULT_MTU,
    ip: int = 4,
) -> Topology:
    """pod1 on node1 and pod2 on node2: by br-int, the overlay, br-ex and the underlay; they have 198.18.1.1 and .2.

    br-int forwards by flows, from its pod to what leads to the other node and back, as OVN's do. A bridge that learns
    would flood a frame for an unknown address into both, tunnel and underlay, and get it back from there. br-ex learns.

    Args:
        overlay: "geneve", "vxlan", "gre", or "none" for a patch port, by which frames cross the underlay as they are.
        kind: of the pods' interfaces; see ``pod_node``.
        offloads: of the pods' where they are veth ends.
        mtu: of the pods, bytes without Ethernet header and FCS; the underlay carries that and the encapsulation.
        ip: version of the pods' addresses, 4 or 6: 2001:2::1:1 and 2001:2::1:2. The underlay has IPv4 either way.

    Raises:
        ValueError: an unknown overlay, or version of IP.
        ConfigError: an unknown kind.
    """
    if overlay not in OVERLAYS:
        raise ArgumentError(f"{overlay!r} is no overlay: write one of {', '.join(OVERLAYS)}")
    outer = mtu if overlay == NO_OVERLAY else mtu + encapsulation_bytes(TunnelKind(overlay), _UNDERLAY[0])
    nodes = [
        node(
            name,
            namespace(
                f"pod{number}",
                f"br-int{number}",
                benchmark_address(ip, 1, number),
                kind=kind,
                offloads=offloads_of(kind, offloads),
                mtu=mtu,
            ),
            *_joint(number, overlay, outer),
            f"br-ex{number}",
        )
        for number, name in enumerate(NODES, 1)
    ]
    return compose(
        f"pods-{overlay}-{kind}{name_of(ip)}", *nodes, underlay("br-ex1", "br-ex2", ports=("up1", "up2"), mtu=outer)
    )


def _joint(number: int, overlay: str, outer: int) -> tuple[Part, ...]:
    """What leads from a node's pod to the other node, both ways."""
    where, pod, out = f"br-int{number}", f"pod{number}-eth0", f"out{number}"
    flows = (Crossing(where, pod, out), Crossing(where, out, pod))
    if overlay == NO_OVERLAY:
        return (patch(where, f"br-ex{number}", ports=(out, f"in{number}")), *flows)
    local, remote = _UNDERLAY if number == 1 else _UNDERLAY[::-1]
    return (tunnel(where, local=local, remote=remote, kind=overlay, key=_KEY, port=out, underlay_mtu=outer), *flows)
