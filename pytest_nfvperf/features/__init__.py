"""What there is beside the core: features, what each has for the core, and which other features it may import.

The core imports no feature. Where it has room for parts of features it declares a Point, which looks them up in PARTS,
and imports them when they are asked for. This module imports nothing of the package: all layers may import it.
"""

from __future__ import annotations

from importlib import import_module
from typing import Generic, TypeVar

T = TypeVar("T")

FEATURES: dict[str, tuple[str, ...]] = {
    "allure": (),
    "bisect": ("versions",),
    "export": (),
    "far": (),
    "history": (),
    "labgrid": (),
    "ovn": ("routing",),
    "profile": ("versions", "virtual_time"),
    "routing": (),
    "trex": (),
    "versions": (),
    "virtual_time": (),
}
"""The features, each with those that it may import."""

PARTS: dict[tuple[str, str], str] = {
    ("baseline", ".json"): "pytest_nfvperf.session.history:baseline_of",
    ("checks", "trex"): "pytest_nfvperf.adapters.doctor.trex_needs:trex_checks",
    ("checks", "ovn"): "pytest_nfvperf.adapters.doctor.ovn_needs:ovn_checks",
    ("cleaner", "versions"): "pytest_nfvperf.adapters.versions.workshops:clean",
    ("command", "ovs"): "pytest_nfvperf.cli.ovs:OVS",
    ("command", "bisect"): "pytest_nfvperf.cli.bisect:BISECT",
    ("command", "judge"): "pytest_nfvperf.cli.judge:JUDGE",
    ("command", "profile"): "pytest_nfvperf.cli.profile:PROFILE",
    ("command", "history"): "pytest_nfvperf.cli.history:HISTORY",
    ("command", "export"): "pytest_nfvperf.cli.export:EXPORT",
    ("engine", "packet-socket"): "pytest_nfvperf.backends.packet_socket_side:PACKET_SOCKETS",
    ("engine", "trex"): "pytest_nfvperf.backends.trex_side:TREX",
    ("node hosts", "ssh"): "pytest_nfvperf.backends.far_nodes:FAR_NODES",
    ("places", "labgrid"): "pytest_nfvperf.adapters.labgrid.place:PlaceLease",
    ("profiler", "perf"): "pytest_nfvperf.adapters.profiling.perf:PerfProfiler",
    ("profiles", "--nfv-profile-cpu"): "pytest_nfvperf.session.profiling:profiles",
    ("remover", "announced"): "pytest_nfvperf.adapters.routing.lab.lab_undo:take_back",
    ("results", "--alluredir"): "pytest_nfvperf.plugin.allure_option:ALLURE",
    ("runner", "--nfv-virtual-time"): "pytest_nfvperf.plugin.virtual_time:run_inside",
    ("testbed", "--nfv-virtual-time"): "pytest_nfvperf.backends.packet_socket_side:VIRTUAL_TESTBED",
    ("versions", "--nfv-ovs"): "pytest_nfvperf.adapters.versions.resolving:found_versions",
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
