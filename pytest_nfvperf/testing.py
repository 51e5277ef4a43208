"""For tests of suites: a simulated testbed and generator in virtual time, without hardware and rights."""

from typing import TYPE_CHECKING

from pytest_nfvperf.model.lazy import lazily

if TYPE_CHECKING:
    from pytest_nfvperf.adapters.generators.fake.generator import FakeGenerator
    from pytest_nfvperf.backends.simulated import SimulatedBackend
    from pytest_nfvperf.runs.clocks import VirtualClock

__all__ = [
    "FakeGenerator",
    "SimulatedBackend",
    "VirtualClock",
]

_PLACES = {
    "FakeGenerator": "adapters.generators.fake.generator",
    "SimulatedBackend": "backends.simulated",
    "VirtualClock": "runs.clocks",
}

if not TYPE_CHECKING:  # a type checker must see wrong names
    __getattr__ = lazily(__name__, "pytest_nfvperf", _PLACES)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
