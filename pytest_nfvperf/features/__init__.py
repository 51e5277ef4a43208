"""The table of features: what each offers to the core.

The core imports no feature. It declares a Point where features can add parts; the Point finds them in PARTS and imports
them on demand. This module imports nothing of the package, so all layers may import it.
"""

from __future__ import annotations

from importlib import import_module
from typing import Generic, TypeVar

T = TypeVar("T")

PARTS: dict[tuple[str, str], str] = {
    ("baseline", ".json"): "pytest_nfvperf.features.history.command:baseline_of",
    ("checks", "trex"): "pytest_nfvperf.features.trex.side:trex_checks",
    ("checks", "ovn"): "pytest_nfvperf.features.ovn.bgp_agent:ovn_checks",
    ("cleaner", "versions"): "pytest_nfvperf.features.versions.origins:remove_orphaned_workshops",
    ("command", "ovs"): "pytest_nfvperf.features.versions.origins:OVS_COMMAND",
    ("command", "bisect"): "pytest_nfvperf.features.bisect.command:BISECT",
    ("command", "judge"): "pytest_nfvperf.features.bisect.command:JUDGE",
    ("command", "history"): "pytest_nfvperf.features.history.command:HISTORY",
    ("command", "site"): "pytest_nfvperf.features.history.site:SITE",
    ("command", "lab"): "pytest_nfvperf.features.virtual_lab:LAB",
    ("command", "export"): "pytest_nfvperf.features.export:EXPORT",
    ("engine", "packet-socket"): "pytest_nfvperf.features.virtual_time.counting_generators:PacketSocketSide",
    ("engine", "trex"): "pytest_nfvperf.features.trex.side:TrexSide",
    ("node hosts", "ssh"): "pytest_nfvperf.features.remote_nodes.node:RemoteNodes",
    ("profiler", "perf"): "pytest_nfvperf.features.profile.perf:PerfProfiler",
    ("profiles", "--nfv-profile-cpu"): "pytest_nfvperf.features.profile.perf:Profiles",
    ("remover", "announced"): "pytest_nfvperf.features.routing.lab_speakers:withdraw_announcement",
    ("results", "--alluredir"): "pytest_nfvperf.features.allure.sink:AllureResults",
    ("runner", "--nfv-virtual-time"): "pytest_nfvperf.features.virtual_time.guest_run:run_pytest_in_guest",
    ("traffic", "trex"): "pytest_nfvperf.features.trex.profiles:traffic_of_profile",
    ("testbed", "--nfv-virtual-time"): "pytest_nfvperf.features.virtual_time.counting_generators:VIRTUAL_TESTBED",
    ("versions", "--nfv-ovs"): "pytest_nfvperf.features.versions.registry:resolve_versions",
}
"""By the point and the key that the core asks by: the module, and the name in it."""


class Point(Generic[T]):
    """What the core asks features for; ``T`` is what each of them has for it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def names(self) -> tuple[str, ...]:
        """The keys of all parts, in the order of the table."""
        return tuple(key for point, key in PARTS if point == self.name)

    def part(self, key: str) -> T:
        """Import one; KeyError where no feature has it."""
        module, _, name = PARTS[self.name, key].partition(":")
        found: T = getattr(import_module(module), name)
        return found

    def all(self) -> dict[str, T]:
        """Import all."""
        return {key: self.part(key) for key in self.names()}
