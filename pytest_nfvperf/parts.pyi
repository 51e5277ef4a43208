# Bridges and what is joined to them
from .model.topology.parts import bridge as bridge
from .model.topology.parts import endpoint as endpoint
from .model.topology.parts import bond as bond
from .model.topology.parts import monitor as monitor
from .model.topology.parts import mirror as mirror
from .model.topology.parts import vnf as vnf
from .model.topology.parts import one_armed as one_armed
from .model.topology.parts import patch as patch
from .model.topology.parts import veth as veth
from .model.topology.parts import tunnel as tunnel
from .model.topology.bridges import rules as rules
from .model.topology.limiters import meter as meter
from .model.topology.limiters import policer as policer
from .model.topology.limiters import egress_policer as egress_policer
from .model.topology.limiters import trtcm as trtcm
from .model.topology.limiters import linux_shaper as linux_shaper
from .model.topology.connections import connections as connections
from .model.topology.connections import load_balancer as load_balancer
from .model.topology.connections import snat as snat
from .model.topology.connections import dnat as dnat
from .model.topology.parts import path as path
from .model.topology.ports import Port as Port
from .model.topology.ports import Vlan as Vlan

# Namespaces
from .model.topology.parts import namespace as namespace
from .model.topology.parts import namespaces as namespaces
from .model.topology.parts import nic as nic
from .model.topology.parts import behind as behind
from .model.topology.parts import router as router
from .model.topology.ports import Offloads as Offloads

# Nodes
from .model.topology.compose import node as node
from .model.topology.parts import underlay as underlay
from .model.topology.workloads import pod_node as pod_node
from .model.topology.workloads import pod_nodes as pod_nodes
