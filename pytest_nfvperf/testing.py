"""For tests of suites: a testbed in virtual time, without hardware and rights. For tests of datapaths: a contract."""

from typing import TYPE_CHECKING

from pytest_nfvperf.model.lazy import lazily

if TYPE_CHECKING:
    from pytest_nfvperf.adapters.generators.fake.generator import FakeGenerator
    from pytest_nfvperf.backends.foreign_datapaths import running_datapath
    from pytest_nfvperf.backends.simulated import SimulatedBackend
    from pytest_nfvperf.plugin.datapath_contract import DatapathContract
    from pytest_nfvperf.runs.clocks import VirtualClock

__all__ = [
    "DatapathContract",
    "FakeGenerator",
    "SimulatedBackend",
    "VirtualClock",
    "running_datapath",
]

_PLACES = {
    "DatapathContract": "plugin.datapath_contract",
    "FakeGenerator": "adapters.generators.fake.generator",
    "SimulatedBackend": "backends.simulated",
    "VirtualClock": "runs.clocks",
    "running_datapath": "backends.foreign_datapaths",
}

if not TYPE_CHECKING:  # a type checker must see wrong names
    __getattr__ = lazily(__name__, "pytest_nfvperf", _PLACES)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
