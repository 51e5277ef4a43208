# A backend
from .backends.base import Backend as Backend
from .measure.rig import RigParts as RigParts
from .model.testbed.testbed import Testbed as Testbed

# A datapath
from .backends.foreign_datapaths import DatapathMaker as DatapathMaker
from .backends.foreign_datapaths import Workshop as Workshop
from .ports.datapath import Datapath as Datapath
from .model.testbed.testbed import DatapathInfo as DatapathInfo
from .ports.datapath import DatapathVersions as DatapathVersions
from .ports.datapath import BuiltTopology as BuiltTopology
from .ports.datapath import Collector as Collector
from .model.measure.ledger import CounterSnapshot as CounterSnapshot

# A generator
from .ports.generator import Generator as Generator
from .ports.generator import Ceilings as Ceilings
from .model.testbed.testbed import GeneratorInfo as GeneratorInfo
from .ports.generator import GeneratorPort as GeneratorPort
from .model.traffic.trial import Direction as Direction
from .model.traffic.trial import TrialSpec as TrialSpec
from .model.disturbance.trial import TrialResult as TrialResult
from .model.traffic.trial import DirectionCounts as DirectionCounts
from .model.traffic.trial import Arrivals as Arrivals
from .model.traffic.histogram import Histogram as Histogram
from .model.traffic.trial import RigHealth as RigHealth

# A figure of a study, a receiver of copies, an interface
from .measure.measurements import Measurement as Measurement
from .model.measure.outcome import Reading as Reading
from .ports.generator import Capture as Capture
from .ports.generator import Captured as Captured
from .adapters.ovs.nics import NIC_MAKERS as NIC_MAKERS

# Routing daemons
from .features.routing.ports import BgpSpeaker as BgpSpeaker
from .features.routing.ports import BgpPath as BgpPath
from .features.routing.model import SpeakerConfig as SpeakerConfig
from .features.routing.model import SpeakerInfo as SpeakerInfo
from .features.routing.model import SessionState as SessionState
from .features.routing.model import SessionStatus as SessionStatus
from .features.routing.model import BfdStatus as BfdStatus
