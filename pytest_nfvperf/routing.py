"""BGP and OVN: plans, speakers, and what the fixtures of ``fixtures.routing`` and ``fixtures.ovn`` give."""

from typing import TYPE_CHECKING

from pytest_nfvperf.model.lazy import lazily

if TYPE_CHECKING:
    from pytest_nfvperf.adapters.routing.bgp_path_daemons import Steps
    from pytest_nfvperf.adapters.routing.session_sampler import SessionSampler
    from pytest_nfvperf.model.routing.bgp import BfdTimers, BgpTimers
    from pytest_nfvperf.model.routing.logical_network import LogicalPort, LogicalSwitch
    from pytest_nfvperf.model.scenarios.bgp_path import VM, BgpPathPlan
    from pytest_nfvperf.ports.bgp_speaker import BgpSpeaker
    from pytest_nfvperf.runs.convergence import Convergence, ConvergenceReading, Event
    from pytest_nfvperf.session.bgp_paths import BgpPathDeployer, LiveBgpPath, open_speakers
    from pytest_nfvperf.session.ovn_topologies import OvnAgentDeployer, OvnDeployer

__all__ = [
    "VM",
    "BfdTimers",
    "BgpPathDeployer",
    "BgpPathPlan",
    "BgpSpeaker",
    "BgpTimers",
    "Convergence",
    "ConvergenceReading",
    "Event",
    "LiveBgpPath",
    "LogicalPort",
    "LogicalSwitch",
    "OvnAgentDeployer",
    "OvnDeployer",
    "SessionSampler",
    "Steps",
    "open_speakers",
]

_PLACES = {
    "BfdTimers": "model.routing.bgp",
    "BgpPathDeployer": "session.bgp_paths",
    "BgpPathPlan": "model.scenarios.bgp_path",
    "BgpSpeaker": "ports.bgp_speaker",
    "BgpTimers": "model.routing.bgp",
    "Convergence": "runs.convergence",
    "ConvergenceReading": "runs.convergence",
    "Event": "runs.convergence",
    "LiveBgpPath": "session.bgp_paths",
    "LogicalPort": "model.routing.logical_network",
    "LogicalSwitch": "model.routing.logical_network",
    "OvnAgentDeployer": "session.ovn_topologies",
    "OvnDeployer": "session.ovn_topologies",
    "SessionSampler": "adapters.routing.session_sampler",
    "Steps": "adapters.routing.bgp_path_daemons",
    "VM": "model.scenarios.bgp_path",
    "open_speakers": "session.bgp_paths",
}

if not TYPE_CHECKING:  # a type checker must see wrong names
    __getattr__ = lazily(__name__, "pytest_nfvperf", _PLACES)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
