"""The plugin's command-line options, as pytest takes them and as frozen data.

Imports nothing heavy: pytest loads this in every run of every project of the environment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_nfvperf.model.arguments import is_there, named_place, path_from
from pytest_nfvperf.model.measure.soak import SoakLoad
from pytest_nfvperf.session.options import GivenTestbed, Options, is_pack

if TYPE_CHECKING:
    from pytest_nfvperf.model.measure.compare import Comparing

CHOICES = {
    "profile": ("quick", ("smoke", "quick", "gate", "full", "soak")),
    "report": ("html", ("html", "none")),
    "inconclusive": ("fail", ("fail", "warn")),
}
"""Default and values of each option that is a choice. The parser does not check them: it would end the run before any
hook, and without evidence."""


_MOST_DIGITS = 9
"""Of a count that somebody means."""

SUITE_ORDER = "nfv_suite_order"
"""The ini option for the order of suites."""


def add_options(parser: pytest.Parser) -> None:
    """Add the ``--nfv-*`` options."""
    group = parser.getgroup("nfvperf", "datapath acceptance (pytest_nfvperf)")
    group.addoption(
        "--nfv-testbed",
        action="append",
        default=[],
        metavar="[LABEL=]FILE",
        help="testbed file (default: the embedded testbed); more than one for -n, which deals the tests over them. "
        "Testbeds of one label are alike, and every test runs once for each label. DIRECTORY?TAGS: a place of labgrid",
    )
    group.addoption(
        "--nfv-wait",
        default=None,
        metavar="TIME",
        help="wait so long for a testbed, or for CPUs, that another run uses; '0 s' for not at all (default: 30 min)",
    )
    _add_choice(group, "profile", "how thoroughly to measure")
    group.addoption(
        "--nfv-sla",
        action="append",
        default=[],
        metavar="FILE",
        help="SLA file(s) to judge by instead of the sla.yaml beside each suite; published:S1 for published figures",
    )
    _add_ovs(group)
    _add_compare(group)
    _add_results(group)
    group.addoption("--nfv-profile-cpu", action="store_true", help="flame graphs of streams: where the CPU cycles go")
    group.addoption(
        "--nfv-virtual-time",
        action="store_true",
        help="count instructions in a guest instead of measuring by the clock: a packet's cost repeats on any machine",
    )
    group.addoption("--nfv-plan", action="store_true", help="list trials and an estimate of the time; send nothing")
    _add_choice(group, "report", "render the evidence as a page at the end; later: nfvperf report")
    _add_soak(group)
    group.addoption(
        "--nfv-repeat",
        default="1",
        metavar="N",
        help="search NDR, PDR and throughput N times and judge the interval of their median (default: %(default)s)",
    )
    group.addoption(
        "--nfv-baseline",
        metavar="DIR",
        help="results of an earlier run, or its file in a history, for limits such as '>= 97 %% of baseline'",
    )
    _add_choice(group, "inconclusive", "what an INCONCLUSIVE verdict does to its test")


def _add_results(group: pytest.OptionGroup) -> None:
    group.addoption("--nfv-results", default="reports", metavar="DIR", help="where results go (default: %(default)s)")
    group.addoption(
        "--nfv-resume",
        metavar="RUN",
        help="go on with a run that was killed: its directory, such as reports/latest. What ended there on the same "
        "rig is not measured again",
    )
    group.addoption("--nfv-keep", action="store_true", help="keep the private OVS's directory and logs after the run")
    group.addoption(
        "--nfv-record",
        metavar="DIR",
        help="record the conversation with the generator in this directory, for engine 'replay' of a testbed file",
    )


def _add_soak(group: pytest.OptionGroup) -> None:
    group.addoption(
        "--nfv-soak-duration",
        metavar="TIME",
        help="length of soaks, such as '90 s', '15 min', '12 h' (default: the profile's 30 s, 15 min, 12 h)",
    )
    group.addoption(
        "--nfv-soak-load",
        metavar="LOAD",
        help="load of soaks: '4 Mpps' per direction or '80 %%' of the NDR (default: 4 Mpps, quick 2, if lossless)",
    )


def _add_ovs(group: pytest.OptionGroup) -> None:
    group.addoption(
        "--nfv-ovs",
        action="append",
        default=[],
        metavar="[NAME=]WHERE",
        help="Open vSwitch to test: a prefix, a root, 'installed', or a name of `nfvperf ovs list`; with NAME= "
        "one more, for tests that ask for it by Dut(version=NAME)",
    )


def _add_compare(group: pytest.OptionGroup) -> None:
    group.addoption(
        "--nfv-compare",
        action="append",
        default=[],
        metavar="[NAME=]WHERE",
        help="compare this Open vSwitch with the others so given, the baseline first (`nfvperf compare` does this)",
    )
    group.addoption(
        "--nfv-compare-set",
        action="append",
        default=[],
        metavar="[SIDE:]other_config:KEY=VALUE",
        help="a setting of one side of the comparison, or of all",
    )
    group.addoption(
        "--nfv-compare-margin",
        metavar="SHARE",
        help="sides are the same where the interval of their ratio lies within this of 1 (default: '2 %%')",
    )
    group.addoption(
        "--nfv-compare-rounds",
        type=int,
        metavar="N",
        help="count instructions of each side so many times, no more, and without a second build of the baseline",
    )
    group.addoption(
        "--nfv-compare-blocks",
        type=int,
        metavar="N",
        help="end a comparison at the first look at so many blocks, though nothing can be told yet",
    )


def _add_choice(group: pytest.OptionGroup, name: str, what: str) -> None:
    default, values = CHOICES[name]
    metavar = "{" + ",".join(values) + "}"
    group.addoption(f"--nfv-{name}", default=default, metavar=metavar, help=f"{what} (default: %(default)s)")


def read_options(config: pytest.Config) -> tuple[Options, pytest.UsageError | None]:
    """The options of this run, and the first mistake in them.

    With a mistake the defaults stand for what could be wrong, so that the options still say where evidence goes.
    """
    try:
        _refuse_missing_labels(config.invocation_params.dir, config.getoption("--nfv-testbed"))
        choices = {name: _choice(name, config.getoption(f"--nfv-{name}")) for name in CHOICES}
        duration_s = _duration_s(config.getoption("--nfv-soak-duration"))
        load = _load(config.getoption("--nfv-soak-load"))
        repeat = _repeat(config.getoption("--nfv-repeat"))
        wait_s = _wait_s(config.getoption("--nfv-wait"))
        compare, rounds, blocks = _comparing(config), _compare_rounds(config), _compare_blocks(config)
        resume = _resumed(config, choices["profile"])
    except pytest.UsageError as mistake:
        return _options(config, {name: default for name, (default, _) in CHOICES.items()}), mistake
    options = replace(_options(config, choices), soak_duration_s=duration_s, soak_load=load, repeat=repeat)
    options = replace(options, compare=compare, compare_rounds=rounds, compare_blocks=blocks, resume=resume)
    return options if wait_s is None else replace(options, wait_s=wait_s), None


def _options(config: pytest.Config, choices: Mapping[str, str]) -> Options:
    """Without those about soaks. Paths are relative to where pytest was called."""
    base = config.invocation_params.dir
    record, baseline = config.getoption("--nfv-record"), config.getoption("--nfv-baseline")
    return Options(
        testbeds=tuple(_testbed(base, given) for given in config.getoption("--nfv-testbed")),
        profile=choices["profile"],
        slas=tuple(path_from(base, given) for given in config.getoption("--nfv-sla") if not is_pack(given)),
        packs=tuple(given for given in config.getoption("--nfv-sla") if is_pack(given)),
        ovs=tuple(named_place(base, given) for given in config.getoption("--nfv-ovs")),
        results=path_from(base, config.getoption("--nfv-results")),
        keep=config.getoption("--nfv-keep"),
        profile_cpu=config.getoption("--nfv-profile-cpu"),
        plan=config.getoption("--nfv-plan"),
        inconclusive=choices["inconclusive"],
        report=choices["report"] == "html",
        record=path_from(base, record) if record else None,
        baseline=path_from(base, baseline) if baseline else None,
        virtual_time=config.getoption("--nfv-virtual-time"),
        root=config.rootpath,
    )


def _choice(name: str, given: str) -> str:
    _, values = CHOICES[name]
    if given in values:
        return given
    from pytest_nfvperf.model.display import did_you_mean, listed  # noqa: PLC0415 - only for a mistake

    hint = did_you_mean(given, values)
    raise pytest.UsageError(f"--nfv-{name}: invalid choice: '{given}'{hint} (choose from {listed(values)})")


def _testbed(base: Path, given: str) -> GivenTestbed:
    if is_there(base, given):
        return GivenTestbed(path_from(base, given))
    path, _, tags = given.partition("?")
    label, equals, named = path.partition("=")
    if equals and label and "/" not in label and not is_there(base, path):
        return GivenTestbed(path_from(base, named), label, tags)
    return GivenTestbed(path_from(base, path), tags=tags)


def _refuse_missing_labels(base: Path, given: Sequence[str]) -> None:
    without = [one for one in given if not _testbed(base, one).label]
    if without and len(without) < len(given):
        raise pytest.UsageError(
            f"--nfv-testbed: '{without[0]}' has no label, and others have: write LABEL={without[0]}, the same label "
            "for testbeds that are alike"
        )


def _wait_s(text: str | None) -> float | None:
    if text is None:
        return None
    from pytest_nfvperf.config.units import TIME, UnitError, quantity  # noqa: PLC0415 - 8 ms, only when measuring

    try:
        return quantity(text, replace(TIME, example="30 min"), "how long to wait")
    except UnitError as error:
        raise pytest.UsageError(f"--nfv-wait: {error}") from error


def _repeat(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > _MOST_DIGITS or int(text) < 1:
        raise pytest.UsageError(f"--nfv-repeat: '{text:.60}' is no number of repeats: write a whole number from 1")
    return int(text)


def _comparing(config: pytest.Config) -> Comparing | None:
    """The sides; None where none is given."""
    given, settings = config.getoption("--nfv-compare"), config.getoption("--nfv-compare-set")
    if not given:
        if settings:
            raise pytest.UsageError("--nfv-compare-set is a setting of a side: name the sides by --nfv-compare")
        return None
    from pytest_nfvperf.config.comparing import read_comparing  # noqa: PLC0415 - only for who compares
    from pytest_nfvperf.model.errors import ConfigError  # noqa: PLC0415

    try:
        sides = [named_place(config.invocation_params.dir, one) for one in given]
        return read_comparing(sides, settings, config.getoption("--nfv-compare-margin"))
    except ConfigError as error:
        raise pytest.UsageError(str(error)) from error


def _compare_rounds(config: pytest.Config) -> int | None:
    """How often sides are counted; None: until their difference is told."""
    virtual = config.getoption("--nfv-compare") and config.getoption("--nfv-virtual-time")
    return _count(
        config, "rounds", where=bool(virtual), otherwise="is of a comparison by instructions: add --nfv-virtual-time"
    )


def _compare_blocks(config: pytest.Config) -> int | None:
    """At how many blocks comparisons end; None: when they tell something, or their budget ends."""
    by_the_clock = config.getoption("--nfv-compare") and not config.getoption("--nfv-virtual-time")
    otherwise = "is of a comparison by the clock: add --nfv-compare, and leave --nfv-virtual-time out"
    return _count(config, "blocks", where=bool(by_the_clock), otherwise=otherwise)


def _count(config: pytest.Config, of: str, *, where: bool, otherwise: str) -> int | None:
    """``--nfv-compare-rounds`` or ``-blocks``: from 1, and only in runs where it means something."""
    option = f"--nfv-compare-{of}"
    count: int | None = config.getoption(option)
    if count is None:
        return None
    if not where:
        raise pytest.UsageError(f"{option} {otherwise}")
    if count < 1:
        raise pytest.UsageError(f"{option}: {count} is no number of {of}: write a whole number from 1")
    return count


def _resumed(config: pytest.Config, profile: str) -> Path | None:
    """The directory of the run to go on with, which is read."""
    given = config.getoption("--nfv-resume")
    if not given:
        return None
    from pytest_nfvperf.plugin.resuming import read_earlier  # noqa: PLC0415 - only for who resumes

    run_dir = path_from(config.invocation_params.dir, given).resolve()
    read_earlier(config, run_dir, profile)
    return run_dir


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
