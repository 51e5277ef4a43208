"""A node with pods, as OVN-Kubernetes lays one out (scenario S5): br-ex to the outside, br-int for the pods."""

from __future__ import annotations

import ipaddress

from pytest_nfvperf.model.arguments import INTEGER, MTU, TEXT, checked, one
from pytest_nfvperf.model.errors import ArgumentError
from pytest_nfvperf.model.topology.compose import Part, compose
from pytest_nfvperf.model.topology.nodes import AS_IT_IS, DEFAULT_MTU, NicKind, Offloads, PortKind, nic_kind
from pytest_nfvperf.model.topology.parts import endpoint, namespace, patch
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.traffic.trial import Direction

BR_EX, BR_INT = "br-ex", "br-int"
OUTSIDE, HOST, MANAGEMENT = "outside", "host", "mgmt"
_NETWORKS = {4: "198.18.%d.%d/16", 6: "2001:2::%d:%d/64"}
"""Addresses by block and place. Of the ranges kept for benchmarks: 198.18.0.0/15 (RFC 2544, appendix C.2.2), and
2001:2::/48 (RFC 5180, section 8)."""
_BESIDE, _FIRST_OF_PODS = 0, 1
_PODS_A_BLOCK = 250
MOST_PODS = 5000
_OFFLOADS_OF_OVS = frozenset({NicKind.INTERNAL, NicKind.TAP, NicKind.VDUSE})


@checked(pods=INTEGER, kind=TEXT, offloads=one(Offloads, "Offloads, such as Offloads(tso=False)"), mtu=MTU, ip=INTEGER)
def pod_node(
    pods: int = 2, *, kind: str = "veth", offloads: Offloads = AS_IT_IS, mtu: int = DEFAULT_MTU, ip: int = 4
) -> Topology:
    """A node with pods pod1, pod2, ... on br-int, and what is beside them.

    br-ex has the physical port, behind which the namespace ``outside`` stands, an internal port (the namespace
    ``host``) and a patch to br-int. br-int has that, a management port (``mgmt``), and a port a pod. Both learn MAC
    addresses. All namespaces are on 198.18.0.0/16, pod1 has 198.18.1.1; or on 2001:2::/64, pod1 has 2001:2::1:1.

    Args:
        pods: how many.
        kind: of their interfaces: "veth", "internal", "tap", "af_xdp", "vduse", or a third party's. "vhost-user": the
            pods bring DPDK; their far ends are the generator's, and the first two send to each other.
        offloads: of ``outside``'s interface, and of the pods' where they are veth ends.
        mtu: bytes without Ethernet header and FCS, of all interfaces.
        ip: version of all addresses, 4 or 6.

    Raises:
        ValueError: no pod, or too many, or an unknown version of IP.
        ConfigError: an unknown kind.
    """
    if not 1 <= pods <= MOST_PODS:
        raise ArgumentError(f"a node with {pods} pods is not possible: give 1 to {MOST_PODS}")
    outside, host, management = (benchmark_address(ip, _BESIDE, place) for place in (1, 2, 3))
    return compose(
        f"node-{pods}-{kind}{name_of(ip)}",
        BR_EX,
        BR_INT,
        namespace(OUTSIDE, BR_EX, outside, offloads=offloads, mtu=mtu),
        namespace(HOST, BR_EX, host, kind="internal", mtu=mtu),
        patch(BR_EX, BR_INT),
        namespace(MANAGEMENT, BR_INT, management, kind="internal", mtu=mtu),
        *(_pod(number, kind, offloads, mtu, ip) for number in range(1, pods + 1)),
        *(_both_ways("pod1", "pod2") if kind == PortKind.VHOST_USER and pods > 1 else ()),
    )


def _both_ways(one: str, other: str) -> tuple[Direction, Direction]:
    return Direction(one, other), Direction(other, one)


def benchmark_address(ip: int, block: int, place: int) -> str:
    """With prefix length. Written as decimal numbers in either version, so that they are read as the IPv4 ones are.

    Raises:
        ValueError: there is no such version of IP.
    """
    if ip not in _NETWORKS:
        raise ArgumentError(f"there is no IP version {ip}: write 4 or 6")
    return str(ipaddress.ip_interface(_NETWORKS[ip] % (block, place)))


def name_of(ip: int) -> str:
    """What a topology's name ends with."""
    return "" if ip == 4 else f"-ipv{ip}"


def _pod(number: int, kind: str, offloads: Offloads, mtu: int, ip: int) -> Part:
    name = f"pod{number}"
    if kind == PortKind.VHOST_USER:
        return endpoint(name, BR_INT, kind=kind, mtu=mtu)
    block, place = divmod(number - 1, _PODS_A_BLOCK)
    address = benchmark_address(ip, _FIRST_OF_PODS + block, place + 1)
    return namespace(name, BR_INT, address, kind=kind, offloads=offloads_of(kind, offloads), mtu=mtu)


def offloads_of(kind: str, offloads: Offloads) -> Offloads:
    """What can be set on an interface of a kind: OVS itself says what its own leave to it."""
    return AS_IT_IS if nic_kind(kind) in _OFFLOADS_OF_OVS else offloads
