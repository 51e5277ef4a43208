# A testbed in virtual time, and the contract of datapaths
from .backends.simulated import SimulatedBackend as SimulatedBackend
from .adapters.generators.fake import FakeGenerator as FakeGenerator
from .plugin.datapath_contract import DatapathContract as DatapathContract
