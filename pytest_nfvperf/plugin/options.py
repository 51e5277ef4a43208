"""The plugin's command-line options, as pytest takes them and as frozen data.

Imports nothing heavy: pytest loads this in every run of every project of the environment.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_nfvperf.model.measure.asked_load import SoakLoad
from pytest_nfvperf.session.options import Options, is_pack

PROFILE_NAMES = ("smoke", "quick", "gate", "full", "soak")


def add_options(parser: pytest.Parser) -> None:
    """Add the ``--nfv-*`` options."""
    group = parser.getgroup("nfvperf", "datapath acceptance (pytest_nfvperf)")
    group.addoption(
        "--nfv-testbed",
        action="append",
        default=[],
        metavar="FILE",
        help="testbed file (default: the embedded testbed); with -n one for each worker",
    )
    group.addoption(
        "--nfv-profile",
        choices=PROFILE_NAMES,
        default="quick",
        help="how thoroughly to measure (default: %(default)s)",
    )
    group.addoption(
        "--nfv-sla",
        action="append",
        default=[],
        metavar="FILE",
        help="SLA file(s) to judge by instead of the sla.yaml beside each suite; published:S1 for published figures",
    )
    group.addoption("--nfv-ovs", metavar="PREFIX", help="root of the Open vSwitch installation to test")
    group.addoption("--nfv-results", default="reports", metavar="DIR", help="where results go (default: %(default)s)")
    group.addoption("--nfv-keep", action="store_true", help="keep the private OVS's directory and logs after the run")
    group.addoption(
        "--nfv-record",
        metavar="DIR",
        help="record the conversation with the generator in this directory, for engine 'replay' of a testbed file",
    )
    group.addoption("--nfv-plan", action="store_true", help="list trials and an estimate of the time; send nothing")
    group.addoption(
        "--nfv-report",
        choices=("html", "none"),
        default="html",
        help="render the evidence as a page at the end (default: %(default)s; later: nfvperf report)",
    )
    group.addoption(
        "--nfv-soak-duration",
        metavar="TIME",
        help="length of soaks, such as '90 s', '15 min', '12 h' (default: the profile's 60 s, 15 min, 12 h)",
    )
    group.addoption(
        "--nfv-soak-load",
        metavar="LOAD",
        help="load of soaks: '4 Mpps' per direction or '80 %%' of the NDR (default: 4 Mpps, where that is lossless)",
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
    record = config.getoption("--nfv-record")
    return Options(
        testbeds=tuple(base / path for path in config.getoption("--nfv-testbed")),
        profile=config.getoption("--nfv-profile"),
        slas=tuple(base / given for given in config.getoption("--nfv-sla") if not is_pack(given)),
        packs=tuple(given for given in config.getoption("--nfv-sla") if is_pack(given)),
        ovs=config.getoption("--nfv-ovs"),
        results=base / config.getoption("--nfv-results"),
        keep=config.getoption("--nfv-keep"),
        plan=config.getoption("--nfv-plan"),
        inconclusive=config.getoption("--nfv-inconclusive"),
        report=config.getoption("--nfv-report") == "html",
        soak_duration_s=_duration_s(config.getoption("--nfv-soak-duration")),
        soak_load=_load(config.getoption("--nfv-soak-load")),
        record=base / record if record else None,
    )


def _duration_s(text: str | None) -> float | None:
    if text is None:
        return None
    from pytest_nfvperf.config.units import TIME, UnitError, quantity  # noqa: PLC0415 - 8 ms, only when needed

    try:
        seconds = quantity(text, replace(TIME, example="15 min"), "the length of a soak")
    except UnitError as error:
        raise pytest.UsageError(f"--nfv-soak-duration: {error}") from error
    if seconds < 1:
        raise pytest.UsageError(f"--nfv-soak-duration: '{text}' is too short: write at least '1 s'")
    return seconds


def _load(text: str | None) -> SoakLoad:
    if text is None:
        return SoakLoad()
    from pytest_nfvperf.config.units import FRAME_RATE, RATIO, UnitError, quantity  # noqa: PLC0415 - as above

    share = text.rstrip().endswith("%")
    try:
        value = quantity(text, RATIO if share else FRAME_RATE, "the load of a soak")
    except UnitError as error:
        raise pytest.UsageError(f"--nfv-soak-load: {error}; or write '80 %' of the NDR") from error
    if value <= 0:
        raise pytest.UsageError(f"--nfv-soak-load: '{text}' is no load: write e.g. '4 Mpps' or '80 %'")
    return SoakLoad(ndr_share=value) if share else SoakLoad(fps=value)
