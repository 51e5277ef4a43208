"""A node with pods, as OVN-Kubernetes lays one out (scenario S5): br-ex to the outside, br-int for the pods."""

from __future__ import annotations

from pytest_nfvperf.model.topology.compose import Part, compose
from pytest_nfvperf.model.topology.nodes import AS_IT_IS, DEFAULT_MTU, NicKind, Offloads, PortKind, nic_kind
from pytest_nfvperf.model.topology.parts import endpoint, namespace, patch
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.traffic.trial import Direction

BR_EX, BR_INT = "br-ex", "br-int"
OUTSIDE, HOST, MANAGEMENT = "outside", "host", "mgmt"
_NETWORK = "198.18"
"""Of the range that RFC 2544 (appendix C.2.2) keeps for benchmarks; 198.18.0.0/16."""
_PODS_A_BLOCK = 250
MOST_PODS = 5000
_OFFLOADS_OF_OVS = frozenset({NicKind.INTERNAL, NicKind.TAP, NicKind.VDUSE})


def pod_node(pods: int = 2, *, kind: str = "veth", offloads: Offloads = AS_IT_IS, mtu: int = DEFAULT_MTU) -> Topology:
    """A node with pods pod1, pod2, ... on br-int, and what is beside them.

    br-ex has the physical port, behind which the namespace ``outside`` stands, an internal port (the namespace
    ``host``) and a patch to br-int. br-int has that, a management port (``mgmt``), and a port a pod. Both learn MAC
    addresses. All namespaces are on 198.18.0.0/16; pod1 has 198.18.1.1.

    Args:
        pods: how many.
        kind: of their interfaces: "veth", "internal", "tap", "af_xdp", "vduse", or a third party's. "vhost-user": the
            pods bring DPDK; their far ends are the generator's, and the first two send to each other.
        offloads: of ``outside``'s interface, and of the pods' where they are veth ends.
        mtu: bytes without Ethernet header and FCS, of all interfaces.

    Raises:
        ValueError: no pod, or too many.
        ConfigError: an unknown kind.
    """
    if not 1 <= pods <= MOST_PODS:
        raise ValueError(f"a node with {pods} pods is not possible: give 1 to {MOST_PODS}")
    return compose(
        f"node-{pods}-{kind}",
        BR_EX,
        BR_INT,
        namespace(OUTSIDE, BR_EX, f"{_NETWORK}.0.1/16", offloads=offloads, mtu=mtu),
        namespace(HOST, BR_EX, f"{_NETWORK}.0.2/16", kind="internal", mtu=mtu),
        patch(BR_EX, BR_INT),
        namespace(MANAGEMENT, BR_INT, f"{_NETWORK}.0.3/16", kind="internal", mtu=mtu),
        *(_pod(number, kind, offloads, mtu) for number in range(1, pods + 1)),
        *(_both_ways("pod1", "pod2") if kind == PortKind.VHOST_USER and pods > 1 else ()),
    )


def _both_ways(one: str, other: str) -> tuple[Direction, Direction]:
    return Direction(one, other), Direction(other, one)


def _pod(number: int, kind: str, offloads: Offloads, mtu: int) -> Part:
    name = f"pod{number}"
    if kind == PortKind.VHOST_USER:
        return endpoint(name, BR_INT, kind=kind, mtu=mtu)
    block, place = divmod(number - 1, _PODS_A_BLOCK)
    address = f"{_NETWORK}.{block + 1}.{place + 1}/16"
    return namespace(name, BR_INT, address, kind=kind, offloads=offloads_of(kind, offloads), mtu=mtu)


def offloads_of(kind: str, offloads: Offloads) -> Offloads:
    """What can be set on an interface of a kind: OVS itself says what its own leave to it."""
    return AS_IT_IS if nic_kind(kind) in _OFFLOADS_OF_OVS else offloads
