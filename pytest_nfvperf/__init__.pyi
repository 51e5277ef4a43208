from . import extend as extend
from . import events as events
from . import parts as parts
from . import results as results
from . import testing as testing

# Traffic and streams
from .model.traffic.traffic import Traffic as Traffic
from .model.traffic.mix import TrafficMix as TrafficMix
from .model.traffic.conversation import Conversation as Conversation
from .model.traffic.packet_program import Vary as Vary
from .model.traffic.traffic import Imix as Imix
from .model.traffic.traffic import IMIXES as IMIXES
from .model.traffic.traffic import RFC2544_FRAME_SIZES as RFC2544_FRAME_SIZES
from .model.traffic.traffic import Vxlan as Vxlan
from .model.measure.streams import StreamSpec as StreamSpec

# Topologies and the DUT
from .model.topology.compose import compose as compose
from .model.topology.topology import Topology as Topology
from .model.topology.compose import phy2phy as phy2phy
from .model.topology.compose import pvp as pvp
from .model.topology.compose import pvvp as pvvp
from .model.topology.compose import bridge_chain as bridge_chain
from .model.topology.workloads import vm_chain as vm_chain
from .model.topology.workloads import vm_receiving as vm_receiving
from .model.topology.workloads import vm_to_vm as vm_to_vm
from .model.topology.workloads import mirror_output as mirror_output
from .model.testbed.testbed import Dut as Dut
from .model.testbed.ovs_settings import Tuning as Tuning
from .measure.rig import LiveTopology as LiveTopology

# Parametrizing
from .plugin.labels import sweep as sweep
from .plugin.labels import chosen as chosen
from .plugin.labels import compares as compares

# Measuring and judging
from .session.run import NfvSession as NfvSession
from .model.measure.profile import Profile as Profile
from .session.deployment import Deployer as Deployer
from .measure.search import Search as Search
from .measure.study import Study as Study
from .measure.measurements import Subject as Subject
from .measure.measurements import LoadCost as LoadCost
from .measure.soak import Soaker as Soaker
from .measure.outage import Outages as Outages
from .measure.events import Event as Event
from .measure.flood import Floods as Floods
from .measure.streams import StreamRunner as StreamRunner
from .measure.mirror_cost import CopyTrials as CopyTrials
from .measure.mirror_cost import MirrorLoad as MirrorLoad
from .adapters.generators.frames import check_frames as check_frames
from .session.slas import SlaCheck as SlaCheck
from .session.deployment import Nics as Nics

# Routing
from .features.routing.model import BgpPathPlan as BgpPathPlan
from .features.routing.model import BgpTimers as BgpTimers
from .features.routing.model import BfdTimers as BfdTimers
from .features.routing.model import VM as VM
from .features.routing.paths import BgpPathDeployer as BgpPathDeployer
from .features.routing.paths import LiveBgpPath as LiveBgpPath
from .features.routing.convergence import Convergence as Convergence
from .features.ovn.model import LogicalSwitch as LogicalSwitch
from .features.ovn.model import LogicalPort as LogicalPort

# Errors
from .model.errors import ConfigError as ConfigError
from .model.errors import TestbedError as TestbedError
from .model.errors import DutFailure as DutFailure
from .model.errors import DeadlineError as DeadlineError
from .model.errors import InconclusiveError as InconclusiveError
from .model.errors import UnavailableError as UnavailableError

__version__: str
