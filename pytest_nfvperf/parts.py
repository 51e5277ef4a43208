"""Parts of a topology, for ``compose``; and the types of what they return."""

from pytest_nfvperf.model.topology.compose import node
from pytest_nfvperf.model.topology.compute_nodes import Node
from pytest_nfvperf.model.topology.links import Crossing, Patch, Tunnel, Underlay, VethLink
from pytest_nfvperf.model.topology.mirrors import Mirror
from pytest_nfvperf.model.topology.nodes import Behind, Namespace, Nic, Offloads, Port, VnfKind, VnfMode
from pytest_nfvperf.model.topology.parts import (
    Path,
    behind,
    bridge,
    endpoint,
    mirror,
    monitor,
    namespace,
    namespaces,
    nic,
    one_armed,
    patch,
    path,
    router,
    tunnel,
    underlay,
    veth,
    vnf,
)
from pytest_nfvperf.model.traffic.trial import Direction

__all__ = [
    "Behind",
    "Crossing",
    "Direction",
    "Mirror",
    "Namespace",
    "Nic",
    "Node",
    "Offloads",
    "Patch",
    "Path",
    "Port",
    "Tunnel",
    "Underlay",
    "VethLink",
    "VnfKind",
    "VnfMode",
    "behind",
    "bridge",
    "endpoint",
    "mirror",
    "monitor",
    "namespace",
    "namespaces",
    "nic",
    "node",
    "one_armed",
    "patch",
    "path",
    "router",
    "tunnel",
    "underlay",
    "veth",
    "vnf",
]
