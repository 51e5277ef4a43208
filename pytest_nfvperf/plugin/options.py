"""The plugin's command-line options, as pytest takes them and as frozen data.

Imports nothing heavy: pytest loads this in every run of every project of the environment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_nfvperf.model.arguments import expand_named_path, is_there, path_from
from pytest_nfvperf.model.measure.soak import SoakLoad
from pytest_nfvperf.session.options import GivenTestbed, Options, is_pack

if TYPE_CHECKING:
    from pytest_nfvperf.model.measure.compare import ComparisonSettings

CHOICES = {
    "profile": ("quick", ("smoke", "quick", "gate", "full", "soak")),
    "report": ("html", ("html", "none")),
    "inconclusive": ("fail", ("fail", "warn")),
}
"""Default and values of each option that is a choice. The parser does not check them: it would end the run before any
hook, and without evidence."""
TIME_LIMIT = "nfv_time_limit"
"""The ini option for the time limit."""
SUITE_ORDER = "nfv_suite_order"
"""The ini option for the order of suites."""
TESTBEDS = "nfv_testbed"
"""The ini option for testbeds."""
_LEAST_LIMIT_S = 10
_MOST_DIGITS = 9
"""A longer number of repeats is a typing error."""


def _text(metavar: str, text: str, default: str | None = None) -> dict[str, Any]:
    return {"metavar": metavar, "default": default, "help": text}


def _several(metavar: str, text: str) -> dict[str, Any]:
    return {"action": "append", "default": [], "metavar": metavar, "help": text}


def _one_of(name: str, text: str) -> dict[str, Any]:
    default, values = CHOICES[name]
    return _text("{" + ",".join(values) + "}", text, default)


def _flag(text: str) -> dict[str, Any]:
    return {"action": "store_true", "help": text}


def _number(text: str) -> dict[str, Any]:
    return {"type": int, "metavar": "N", "help": text}


_OPTIONS = {
    "testbed": _several(
        "[LABEL=]FILE",
        "testbed file (default: the embedded testbed). pytest-xdist (-n) distributes the tests over several. "
        "Testbeds with the same label are interchangeable, and every test runs once for each label",
    ),
    "wait": _text(
        "TIME",
        "how long to wait for a testbed, or for CPUs, that another run uses; '0 s': do not wait (default: 30 min)",
    ),
    "profile": _one_of(
        "profile",
        "measuring profile: how long and how often to measure. It is not a traffic profile, as TRex has them: "
        "give these to --nfv-traffic (default: %(default)s)",
    ),
    "time-limit": _text(
        "TIME",
        "end the run after this time, such as '10 min': repeats and waits use only what other tests do not need, and "
        "tests that have not begun by then are named, and nothing is accepted (default: none; smoke 10 min)",
    ),
    "sla": _several(
        "FILE",
        "SLA file to judge by, instead of the sla.yaml in each suite's folder. published:S1 names published figures",
    ),
    "ovs": _several(
        "[NAME=]WHERE",
        "Open vSwitch to test: a prefix, a root, 'installed', or a name of `nfvperf ovs list`. NAME=WHERE adds "
        "one for tests that request it by Dut(version=NAME)",
    ),
    "compare": _several(
        "[NAME=]WHERE",
        "Open vSwitch to compare with the others that this option names. The first is the baseline (`nfvperf "
        "compare` uses this option)",
    ),
    "compare-set": _several(
        "[SIDE:]other_config:KEY=VALUE", "a setting of one side of the comparison, or of all sides"
    ),
    "compare-margin": _text(
        "SHARE",
        "two sides are the same if the interval of their ratio lies within this distance of 1 (default: '2 %%')",
    ),
    "compare-blocks": _number(
        "end a comparison at its first interim look after N blocks, even without a result; with --nfv-virtual-time "
        "count each side exactly N times, without a second build of the baseline"
    ),
    "traffic": _text(
        "FILE",
        "send what this file says in place of the tests' own traffic: a traffic file (YAML), a capture, or an STL "
        "profile of TRex",
    ),
    "results": _text("DIR", "directory for results (default: %(default)s)", "reports"),
    "resume": _text(
        "RUN",
        "resume a run that was killed or interrupted, in its directory, such as reports/latest. Tests that "
        "ended there on the same rig are not measured again",
    ),
    "keep": _flag("keep the directory and the logs of the private OVS after the run"),
    "record": _text(
        "DIR",
        "record the conversation with the generator in this directory. Engine 'replay' of a testbed file plays it",
    ),
    "profile-cpu": _flag("draw flame graphs of streams and of poll-mode threads, which show where the CPU cycles go"),
    "virtual-time": _flag(
        "count instructions in a guest instead of measuring time: the cost of a packet is the same on any machine"
    ),
    "plan": _flag("list the trials and the estimated time. Nothing is sent"),
    "report": _one_of(
        "report",
        "write the evidence as a page at the end of the run. `nfvperf report` does it later (default: %(default)s)",
    ),
    "soak-duration": _text(
        "TIME", "duration of soaks, such as '90 s', '15 min', '12 h' (default: the profile's 20 s, 15 min, 12 h)"
    ),
    "soak-load": _text(
        "LOAD",
        "load of soaks: '4 Mpps' per direction, or '80 %%' of the NDR (default: 4 Mpps, quick 2, if lossless)",
    ),
    "repeat": _text(
        "N",
        "search NDR, PDR and throughput N times, and judge the interval of their median (default: %(default)s)",
        "1",
    ),
    "baseline": _text(
        "DIR", "results of an earlier run, or its file in a history, for limits such as '>= 97 %% of baseline'"
    ),
    "fail-below": _text("SHARE", "fail tests whose rates fall below '97 %% of last' (run), of DIR, or of the baseline"),
    "inconclusive": _one_of(
        "inconclusive",
        "what an INCONCLUSIVE verdict does: fail its test, or only warn (default: %(default)s)",
    ),
}
"""In the order of --help: each option's attributes for argparse."""


INI_KEYS = {
    SUITE_ORDER: "folders and files of suites that run first, in this order",
    TIME_LIMIT: "time limit of a run, as for `--nfv-time-limit`, which replaces it: `nfv_time_limit = 10 min`",
    TESTBEDS: "testbed files, as for `--nfv-testbed`, which replaces them. Their paths are relative to the ini file",
}
"""Keys of pytest's ini file, each a list of words, with their help."""


def add_options(parser: pytest.Parser) -> None:
    group = parser.getgroup("nfvperf", "datapath acceptance (pytest_nfvperf)")
    for name, attributes in _OPTIONS.items():
        group.addoption(f"--nfv-{name}", **attributes)


def refuse_misspelt_options(parser: pytest.Parser, args: Sequence[str]) -> None:
    """Raise a UsageError with the nearest option for a ``--nfv-`` option that nobody has added."""
    groups = [*parser._groups, parser._anonymous]
    known = {name for group in groups for option in group.options for name in option.names()}
    for written in (argument.partition("=")[0] for argument in args):
        if written.startswith("--nfv-") and written not in known:
            from pytest_nfvperf.model.display import did_you_mean  # noqa: PLC0415 - only for a mistake

            hint = did_you_mean(written, [name for name in known if name.startswith("--nfv-")])
            raise pytest.UsageError(f"there is no option {written}{hint or '.'} All are in docs/reference/options.md")


def read_options(config: pytest.Config) -> tuple[Options, pytest.UsageError | None]:
    """The options of this run, and the first mistake in them.

    If there is a mistake, options that may be wrong have their defaults, and the others still say where evidence goes.
    """
    try:
        _refuse_missing_labels(config)
        choices = {name: _choice(name, config.getoption(f"--nfv-{name}")) for name in CHOICES}
        duration_s = _seconds(config, "soak-duration", "15 min", "the length of a soak")
        if duration_s is not None and duration_s < 1:
            text = config.getoption("--nfv-soak-duration")
            raise pytest.UsageError(f"--nfv-soak-duration: '{text}' is too short: write at least '1 s'")
        parsed: dict[str, Any] = {
            "soak_duration_s": duration_s,
            "soak_load": _load(config.getoption("--nfv-soak-load")),
            "repeat": _repeat(config.getoption("--nfv-repeat")),
            "compare": _comparing(config),
            "compare_blocks": _blocks(config),
        }
        parsed["time_limit_s"] = _time_limit(config)
        parsed |= _fail_below(config)
        if (wait_s := _seconds(config, "wait", "30 min", "how long to wait")) is not None:
            parsed["wait_s"] = wait_s
        parsed["resume"] = _resumed(config, choices["profile"])
    except pytest.UsageError as mistake:
        return _options(config, {name: default for name, (default, _) in CHOICES.items()}), mistake
    return replace(_options(config, choices), **parsed), None


def _options(config: pytest.Config, choices: Mapping[str, str]) -> Options:
    """The options that need no parsing. Paths are relative to the directory where pytest was called.

    Those of testbeds in the ini file are relative to that file.
    """
    base = config.invocation_params.dir
    record, baseline = config.getoption("--nfv-record"), config.getoption("--nfv-baseline")
    traffic = config.getoption("--nfv-traffic")
    folder, testbeds = _given_testbeds(config)
    return Options(
        testbeds=tuple(_testbed(folder, given) for given in testbeds),
        profile=choices["profile"],
        slas=tuple(path_from(base, given) for given in config.getoption("--nfv-sla") if not is_pack(given)),
        packs=tuple(given for given in config.getoption("--nfv-sla") if is_pack(given)),
        ovs=tuple(expand_named_path(base, given) for given in config.getoption("--nfv-ovs")),
        results=path_from(base, config.getoption("--nfv-results")),
        keep=config.getoption("--nfv-keep"),
        profile_cpu=config.getoption("--nfv-profile-cpu"),
        plan=config.getoption("--nfv-plan"),
        inconclusive=choices["inconclusive"],
        report=choices["report"] == "html",
        record=path_from(base, record) if record else None,
        baseline=path_from(base, baseline) if baseline else None,
        virtual_time=config.getoption("--nfv-virtual-time"),
        traffic=path_from(base, traffic) if traffic else None,
        setup_only=bool(config.getoption("setuponly", False)),
        root=config.rootpath,
    )


def _choice(name: str, given: str) -> str:
    _, values = CHOICES[name]
    if given in values:
        return given
    if name == "profile" and ("/" in given or given.lower().endswith((".py", ".yaml", ".yml"))):
        raise pytest.UsageError(
            f"--nfv-profile: {given} looks like a traffic profile, and this is how long and how often to measure "
            f"({', '.join(values)}). To send what a file says: --nfv-traffic {given}"
        )
    from pytest_nfvperf.model.display import did_you_mean, listed  # noqa: PLC0415 - only for a mistake

    hint = did_you_mean(given, values)
    raise pytest.UsageError(f"--nfv-{name}: invalid choice: '{given}'{hint} (choose from {listed(values)})")


def _given_testbeds(config: pytest.Config) -> tuple[Path, Sequence[str]]:
    """Testbeds as the user wrote them, and the directory that their paths are relative to.

    The command line replaces the ini file. A guest has a testbed of its own, and needs none of the ini file's.
    """
    given = config.getoption("--nfv-testbed")
    if given or config.getoption("--nfv-virtual-time"):
        return config.invocation_params.dir, given
    folder = config.inipath.parent if config.inipath is not None else config.invocation_params.dir
    return folder, config.getini(TESTBEDS)


def _testbed(base: Path, given: str) -> GivenTestbed:
    label, equals, named = given.partition("=")
    if equals and label and "/" not in label and not is_there(base, given):
        return GivenTestbed(path_from(base, named), label)
    return GivenTestbed(path_from(base, given))


def _refuse_missing_labels(config: pytest.Config) -> None:
    base, given = _given_testbeds(config)
    without = [one for one in given if not _testbed(base, one).label]
    if without and len(without) < len(given):
        written = "--nfv-testbed" if config.getoption("--nfv-testbed") else TESTBEDS
        raise pytest.UsageError(
            f"{written}: '{without[0]}' has no label, and others have: write LABEL={without[0]}, the same label "
            "for testbeds that are alike"
        )


def _time_limit(config: pytest.Config) -> float | None:
    """The limit of the command line, or else of the ini file, s; None for the profile's."""
    in_file = " ".join(config.getini(TIME_LIMIT))
    limit_s = _seconds(config, "time-limit", "10 min", "the time limit of a run", in_file)
    if limit_s is not None and limit_s < _LEAST_LIMIT_S:
        raise pytest.UsageError(f"--nfv-time-limit: no test ends within {limit_s:g} s: write at least '10 s'")
    return limit_s


def _seconds(config: pytest.Config, name: str, example: str, what: str, otherwise: str = "") -> float | None:
    """The value of an option, or else ``otherwise``, in seconds; None where neither is given."""
    text: str | None = config.getoption(f"--nfv-{name}") or otherwise or None
    if text is None:
        return None
    from pytest_nfvperf.config.units import TIME, UnitError, quantity  # noqa: PLC0415 - 8 ms, only when measuring

    try:
        return quantity(text, replace(TIME, example=example), what)
    except UnitError as error:
        raise pytest.UsageError(f"--nfv-{name}: {error}") from error


def _repeat(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > _MOST_DIGITS or int(text) < 1:
        raise pytest.UsageError(f"--nfv-repeat: '{text:.60}' is no number of repeats: write a whole number from 1")
    return int(text)


def _fail_below(config: pytest.Config) -> dict[str, Any]:
    """The fields of --nfv-fail-below. A run that it names is the baseline."""
    text, named, base = *map(config.getoption, ("--nfv-fail-below", "--nfv-baseline")), config.invocation_params.dir
    if text is None:
        return {}
    from pytest_nfvperf.config.sla_file import BASELINE, LAST, parse_gate  # noqa: PLC0415 - only for who gives it

    try:
        share, of = parse_gate(text)
        if config.getoption("--nfv-compare"):
            raise ValueError("a comparison judges its sides, and no figures: leave one out")
        if not (of == LAST or (of == BASELINE and named) or is_there(base, of)):
            raise ValueError(f"'{of}' is no run: write '{LAST}', the results of an earlier run, or --nfv-baseline DIR")
        if named and of not in {BASELINE, LAST}:
            raise ValueError(f"the baseline is {named}: write '{100 * share:g} % of {BASELINE}'")
    except ValueError as error:
        raise pytest.UsageError(f"--nfv-fail-below: {error}") from error
    return {"fail_below": (share, of)} | ({} if of in {BASELINE, LAST} else {"baseline": path_from(base, of)})


def _comparing(config: pytest.Config) -> ComparisonSettings | None:
    given, settings = config.getoption("--nfv-compare"), config.getoption("--nfv-compare-set")
    if not given:
        if settings:
            raise pytest.UsageError("--nfv-compare-set is a setting of a side: name the sides by --nfv-compare")
        return None
    from pytest_nfvperf.config.units import read_margin  # noqa: PLC0415 - only for who compares
    from pytest_nfvperf.model.errors import ConfigError  # noqa: PLC0415
    from pytest_nfvperf.model.measure.compare import ComparisonSettings, parse_sides  # noqa: PLC0415

    try:
        sides = [expand_named_path(config.invocation_params.dir, one) for one in given]
        margin = read_margin(config.getoption("--nfv-compare-margin"))
        return ComparisonSettings(parse_sides(sides, settings), margin)
    except ConfigError as error:
        raise pytest.UsageError(str(error)) from error


def _blocks(config: pytest.Config) -> int | None:
    count: int | None = config.getoption("--nfv-compare-blocks")
    if count is not None and not config.getoption("--nfv-compare"):
        raise pytest.UsageError("--nfv-compare-blocks is of a comparison: name the sides by --nfv-compare")
    if count is not None and count < 1:
        raise pytest.UsageError(f"--nfv-compare-blocks: {count} is no number of blocks: write a whole number from 1")
    return count


def _resumed(config: pytest.Config, profile: str) -> Path | None:
    given = config.getoption("--nfv-resume")
    if not given:
        return None
    from pytest_nfvperf.plugin.resume import read_earlier  # noqa: PLC0415 - only for who resumes

    run_dir = path_from(config.invocation_params.dir, given).resolve()
    read_earlier(config, run_dir, profile)
    return run_dir


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
