"""The plugin's command-line options, as pytest takes them and as frozen data.

Imports nothing heavy: pytest loads this in every run of every project of the environment.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

PROFILE_NAMES = ("quick", "gate", "full", "soak")


@dataclass(frozen=True, slots=True)
class Options:
    """What the user asked for.

    Attributes:
        testbeds: testbed files; empty for the embedded testbed. With xdist worker gwN takes the N-th.
        profile: quick, gate, full or soak.
        slas: SLA files that replace the ``sla.yaml`` beside each suite.
        ovs: prefix of the OVS to test, None for the testbed's or the installed one.
        results: directory under which each run gets one of its own.
        keep: leave the run directory (logs, sockets, database) when the run ends.
        plan: list trials and the estimated time, send nothing.
        inconclusive: "fail" or "warn".
        report: render the HTML page at the end.
    """

    testbeds: tuple[Path, ...]
    profile: str
    slas: tuple[Path, ...]
    ovs: str | None
    results: Path
    keep: bool
    plan: bool
    inconclusive: str
    report: bool


def add_options(parser: pytest.Parser) -> None:
    """Add the ``--nfv-*`` options."""
    group = parser.getgroup("nfvperf", "datapath acceptance (pytest_nfvperf)")
    group.addoption(
        "--nfv-testbed",
        action="append",
        default=[],
        metavar="FILE",
        help="testbed file; without one the embedded testbed is used. Give one a worker with -n.",
    )
    group.addoption(
        "--nfv-profile",
        choices=PROFILE_NAMES,
        default="quick",
        help="how thoroughly is measured (default: %(default)s)",
    )
    group.addoption(
        "--nfv-sla",
        action="append",
        default=[],
        metavar="FILE",
        help="SLA file(s) to judge by instead of the sla.yaml beside each suite",
    )
    group.addoption("--nfv-ovs", metavar="PREFIX", help="root of the Open vSwitch installation to test")
    group.addoption("--nfv-results", default="reports", metavar="DIR", help="where results go (default: %(default)s)")
    group.addoption("--nfv-keep", action="store_true", help="leave the private OVS's directory and logs when done")
    group.addoption("--nfv-plan", action="store_true", help="list trials and an estimate of the time; send nothing")
    group.addoption(
        "--nfv-report",
        choices=("html", "none"),
        default="html",
        help="render the evidence as a page at the end (default: %(default)s; later: nfvperf report)",
    )
    group.addoption(
        "--nfv-inconclusive",
        choices=("fail", "warn"),
        default="fail",
        help="what an INCONCLUSIVE verdict does to its test (default: %(default)s)",
    )


def read_options(config: pytest.Config) -> Options:
    """The options of this run. Paths are relative to where pytest was called."""
    base = config.invocation_params.dir
    return Options(
        testbeds=tuple(base / path for path in config.getoption("--nfv-testbed")),
        profile=config.getoption("--nfv-profile"),
        slas=tuple(base / path for path in config.getoption("--nfv-sla")),
        ovs=config.getoption("--nfv-ovs"),
        results=base / config.getoption("--nfv-results"),
        keep=config.getoption("--nfv-keep"),
        plan=config.getoption("--nfv-plan"),
        inconclusive=config.getoption("--nfv-inconclusive"),
        report=config.getoption("--nfv-report") == "html",
    )
