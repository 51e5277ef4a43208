"""BGP and OVN: plans, speakers, and what the fixtures of ``fixtures.routing`` and ``fixtures.ovn`` give."""

from typing import TYPE_CHECKING

from pytest_nfvperf.model.lazy import lazily

if TYPE_CHECKING:
    from pytest_nfvperf.adapters.routing.speakers.session_sampler import SessionSampler
    from pytest_nfvperf.model.routing.bgp import (
        BfdStatus,
        BfdTimers,
        BgpTimers,
        SessionState,
        SessionStatus,
        SpeakerConfig,
        SpeakerInfo,
    )
    from pytest_nfvperf.model.routing.logical_network import LogicalPort, LogicalSwitch
    from pytest_nfvperf.model.scenarios.bgp_path import VM, BgpPathPlan
    from pytest_nfvperf.model.scenarios.ovn_path import OvnPathPlan
    from pytest_nfvperf.model.testbed.testbed import LabSpeaker
    from pytest_nfvperf.ports.bgp_daemons import BgpDaemons, BgpParts, Link, Links, RouteFollower, Steps
    from pytest_nfvperf.ports.bgp_speaker import BgpSpeaker
    from pytest_nfvperf.ports.ovn_daemons import AgentPath, LogicalNetwork, OvnDaemons
    from pytest_nfvperf.runs.convergence import Convergence, ConvergenceReading, Event
    from pytest_nfvperf.session.bgp_paths import BgpPathDeployer, LiveBgpPath, open_speakers
    from pytest_nfvperf.session.ovn_topologies import OvnAgentDeployer, OvnDeployer

__all__ = [
    "VM",
    "AgentPath",
    "BfdStatus",
    "BfdTimers",
    "BgpDaemons",
    "BgpParts",
    "BgpPathDeployer",
    "BgpPathPlan",
    "BgpSpeaker",
    "BgpTimers",
    "Convergence",
    "ConvergenceReading",
    "Event",
    "LabSpeaker",
    "Link",
    "Links",
    "LiveBgpPath",
    "LogicalNetwork",
    "LogicalPort",
    "LogicalSwitch",
    "OvnAgentDeployer",
    "OvnDaemons",
    "OvnDeployer",
    "OvnPathPlan",
    "RouteFollower",
    "SessionSampler",
    "SessionState",
    "SessionStatus",
    "SpeakerConfig",
    "SpeakerInfo",
    "Steps",
    "open_speakers",
]

_PLACES = {
    "AgentPath": "ports.ovn_daemons",
    "BfdStatus": "model.routing.bgp",
    "BfdTimers": "model.routing.bgp",
    "BgpDaemons": "ports.bgp_daemons",
    "BgpParts": "ports.bgp_daemons",
    "BgpPathDeployer": "session.bgp_paths",
    "BgpPathPlan": "model.scenarios.bgp_path",
    "BgpSpeaker": "ports.bgp_speaker",
    "BgpTimers": "model.routing.bgp",
    "Convergence": "runs.convergence",
    "ConvergenceReading": "runs.convergence",
    "Event": "runs.convergence",
    "LabSpeaker": "model.testbed.testbed",
    "Link": "ports.bgp_daemons",
    "Links": "ports.bgp_daemons",
    "LiveBgpPath": "session.bgp_paths",
    "LogicalNetwork": "ports.ovn_daemons",
    "LogicalPort": "model.routing.logical_network",
    "LogicalSwitch": "model.routing.logical_network",
    "OvnAgentDeployer": "session.ovn_topologies",
    "OvnDaemons": "ports.ovn_daemons",
    "OvnDeployer": "session.ovn_topologies",
    "OvnPathPlan": "model.scenarios.ovn_path",
    "RouteFollower": "ports.bgp_daemons",
    "SessionSampler": "adapters.routing.speakers.session_sampler",
    "SessionState": "model.routing.bgp",
    "SessionStatus": "model.routing.bgp",
    "SpeakerConfig": "model.routing.bgp",
    "SpeakerInfo": "model.routing.bgp",
    "Steps": "ports.bgp_daemons",
    "VM": "model.scenarios.bgp_path",
    "open_speakers": "session.bgp_paths",
}

if not TYPE_CHECKING:  # a type checker must see wrong names
    __getattr__ = lazily(__name__, "pytest_nfvperf", _PLACES)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
