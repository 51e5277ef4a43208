"""Parts of a topology, for ``compose``; the types of what they return; what makers of interfaces and datapaths need."""

from typing import TYPE_CHECKING

from pytest_nfvperf.model.lazy import lazily
from pytest_nfvperf.model.scenarios.pod_nodes import pod_nodes
from pytest_nfvperf.model.scenarios.pods import pod_node
from pytest_nfvperf.model.topology.bridge_rules import BridgeRules, rules
from pytest_nfvperf.model.topology.compose import node
from pytest_nfvperf.model.topology.compute_nodes import Node
from pytest_nfvperf.model.topology.links import Crossing, Patch, Tunnel, Underlay, VethLink
from pytest_nfvperf.model.topology.mirrors import Mirror
from pytest_nfvperf.model.topology.nodes import Behind, Namespace, Nic, Offloads, Port, Vlan, VnfKind, VnfMode
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

if TYPE_CHECKING:
    from pytest_nfvperf.adapters.net.ends import End, Moved, Pair
    from pytest_nfvperf.adapters.ovs.topology.nic_makers import NIC_MAKERS, Making, NicMaker
    from pytest_nfvperf.adapters.ovs.topology.ovs_port import OvsPort
    from pytest_nfvperf.ports.datapath_maker import DatapathMaker, RunningProcess, Workshop

__all__ = [
    "NIC_MAKERS",
    "Behind",
    "BridgeRules",
    "Crossing",
    "DatapathMaker",
    "Direction",
    "End",
    "Making",
    "Mirror",
    "Moved",
    "Namespace",
    "Nic",
    "NicMaker",
    "Node",
    "Offloads",
    "OvsPort",
    "Pair",
    "Patch",
    "Path",
    "Port",
    "RunningProcess",
    "Tunnel",
    "Underlay",
    "VethLink",
    "Vlan",
    "VnfKind",
    "VnfMode",
    "Workshop",
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
    "pod_node",
    "pod_nodes",
    "router",
    "rules",
    "tunnel",
    "underlay",
    "veth",
    "vnf",
]

_PLACES = {
    "NIC_MAKERS": "adapters.ovs.topology.nic_makers",
    "DatapathMaker": "ports.datapath_maker",
    "End": "adapters.net.ends",
    "Making": "adapters.ovs.topology.nic_makers",
    "Moved": "adapters.net.ends",
    "NicMaker": "adapters.ovs.topology.nic_makers",
    "OvsPort": "adapters.ovs.topology.ovs_port",
    "Pair": "adapters.net.ends",
    "RunningProcess": "ports.datapath_maker",
    "Workshop": "ports.datapath_maker",
}

if not TYPE_CHECKING:  # a type checker must see wrong names
    __getattr__ = lazily(__name__, "pytest_nfvperf", _PLACES)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
