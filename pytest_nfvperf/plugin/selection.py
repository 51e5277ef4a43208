"""Selects and orders the tests, and refuses what cannot be measured or judged, before anything starts.

The ini option ``nfv_suite_order`` of a project names the folders and files that run first. All others run after them,
as pytest collected them. The order within a file stays.

Tests that need what the testbed lacks are not selected. Each need is asked once, and nothing is started for it.

A run with a time limit measures first what an SLA judges: if the time is not enough, figures that nobody judges are
missing. No test begins after the limit, and repeats take nothing that the tests to come need.

Three things are refused: rules that select no test, plugins that make measuring impossible (docs/reference/
other-plugins.md lists them), and rules that this run can never judge. Tests are arbitrary Python, so such a rule is
refused only if all tests that it selects measure by our fixture ``search``. Some rules are refused only if a fixture
names the topology, too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from pytest_nfvperf.config.sla_file import TESTBED_LABELS, sla_warnings, unknown_labels
from pytest_nfvperf.model.display import did_you_mean, how_many, listed
from pytest_nfvperf.model.errors import ConfigError, NfvperfError, TestbedError, UnavailableError
from pytest_nfvperf.model.measure.profile import QUICK, SMOKE, Profile, plan_search_s
from pytest_nfvperf.model.sla.judge import requirement_text
from pytest_nfvperf.model.sla.rules import Foreseen, Limit, Rule, Sla, why_never
from pytest_nfvperf.model.testbed.lab_cables import cabled_ends, has_cabled_nodes, is_lab
from pytest_nfvperf.model.testbed.testbed import Dut, Testbed
from pytest_nfvperf.plugin.labels import (
    NEEDS_MARKER,
    NOT_QUICK,
    QUICK_ONLY,
    SMOKE_ONLY,
    SMOKE_TEST,
    TOPOLOGY_FIXTURES,
    VIRTUAL_TIME,
    is_measuring,
    set_labels,
    subject_labels,
)
from pytest_nfvperf.plugin.options import SUITE_ORDER
from pytest_nfvperf.plugin.output import say
from pytest_nfvperf.plugin.run_state import LACKING_KEY, STATE_KEY, is_worker
from pytest_nfvperf.session.deployment import NO_CAPTURE_INTERFACE, cabled_ports, why_no_nics
from pytest_nfvperf.session.options import Options
from pytest_nfvperf.session.run import NfvSession
from pytest_nfvperf.session.slas import SUITE_SLA, refuse_empty, shown_location

NOT_ROOT = (
    "nfvperf needs root for namespaces, hugepages and its own Open vSwitch: run this with sudo, "
    "or use --nfv-plan to see what would be measured"
)
_LEFT_OUT = {QUICK.name: (NOT_QUICK, SMOKE_ONLY), SMOKE.name: (NOT_QUICK,)}
"""Markers of the tests that a profile leaves out. All other profiles leave out what only these two have."""
_NOT_COLLECTING = {"lf": "--last-failed", "ignore": "--ignore", "ignore_glob": "--ignore-glob"}
_NARROWING = {"keyword": "-k", "markexpr": "-m", **_NOT_COLLECTING, "deselect": "--deselect"}
"""Options of pytest by which a user picks some of the tests; by the others they are collected, and then left out."""
_START_NOTHING = ("collectonly", "setupplan", "showfixtures", "show_fixtures_per_test")
_ONE_AT_A_TIME = "One testbed measures one test at a time, in the thread that started it"
_SOCKETS = "OVS, the kernel and routing daemons are asked over sockets"
_PARAMETERS_OF_SEARCHES = frozenset({"search", "sla", "profile", "nfv_labels", *TOPOLOGY_FIXTURES})
"""The only fixtures of a test that just searches, on a known topology."""
_ANYTHING = frozenset({"study", "soak", "streams", "copies", "convergence", "nfv_session", "request"})
"""Fixtures of tests whose measurements cannot be foreseen."""
_KERNEL_DATAPATHS = frozenset({"system", "linux-bridge"})
_MEASURED = frozenset({"frame_size", "flows", "direction", "headers", "tuning", "datapath", "topology"})
"""Labels that the measurement sets, whatever labels the test has."""
_OF_TRAFFIC = frozenset({"frame_size", "flows", "direction", "headers", "classes", "raised", "judged"})
_MEASURES = frozenset({"search", "study", "soak", "streams", "copies", "convergence"})
_OF_RUNS = TESTBED_LABELS | {"profile"}
"""Labels of the whole run. A rule about another testbed or profile does not apply, and is no mistake."""
NOT_BEGUN_KEY = pytest.StashKey[bool]()
_FUNCTIONAL_S, _AROUND_SOAK_S = 2.0, 15.0
_OF_BUDGET = 1 / 3
"""A comparison that is clear at once takes this part of its budget."""


def sort_suites(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put files with measuring tests into the project's order, unless the user names several paths."""
    order = config.getini(SUITE_ORDER)
    if not order or len(config.args) > 1:
        return

    def rank(item: pytest.Item) -> int:
        path = f"{item.path.as_posix()}/"
        return next((number for number, name in enumerate(order) if f"/{name.strip('/')}/" in path), len(order))

    measuring = {item.path for item in items if is_measuring(item)}
    indices = [index for index, item in enumerate(items) if item.path in measuring]
    for index, item in zip(indices, sorted((items[index] for index in indices), key=rank), strict=True):
        items[index] = item


def put_other_sides_first(items: list[pytest.Item], session: NfvSession) -> None:
    """Measure the other side of a relation first, even where another plugin (pytest-randomly) ordered the tests."""
    from pytest_nfvperf.model.sla.rules import other_sides_first  # noqa: PLC0415 - every pytest run imports this
    from pytest_nfvperf.plugin.worker import selected_test  # noqa: PLC0415 - as above

    indices = [index for index, item in enumerate(items) if is_measuring(item)]
    own = session.backend.labels()
    tests = [selected_test(items[index], session, own) for index in indices]
    if not any(limit.relative_to for test in tests for rule in test.rules for _, limit in rule.require):
        return
    ordered = [items[indices[number]] for number in other_sides_first(tests)]
    for index, item in zip(indices, ordered, strict=True):
        items[index] = item


def deselect_by_profile(config: pytest.Config, items: list[pytest.Item], options: Options) -> None:
    """Drop tests that the profile or the kind of time leaves out, and report them as pytest does for -k."""
    left_out = _LEFT_OUT.get(options.profile, (QUICK_ONLY, SMOKE_ONLY))
    remaining = of_this_time([item for item in items if not any(map(item.get_closest_marker, left_out))], options)
    if options.profile == SMOKE.name:
        remaining = one_of_each_suite(remaining)
    dropped = [item for item in items if item not in set(remaining)]
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = remaining


def of_this_time(items: Sequence[pytest.Item], options: Options) -> list[pytest.Item]:
    """Drop tests that count instructions from a run by the clock, and tests by the clock from a run in virtual time.

    If only such tests are selected they stay, and say why they are skipped. A comparison in virtual time counts the
    instructions of any test.
    """
    if options.virtual_time and options.compare is not None:
        return list(items)
    remaining = [
        item
        for item in items
        if not is_measuring(item) or bool(item.get_closest_marker(VIRTUAL_TIME)) is options.virtual_time
    ]
    return remaining if any(map(is_measuring, remaining)) else list(items)


def one_of_each_suite(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Keep one measuring test of each folder, the marked one or else the first, and all that do not measure."""
    chosen: dict[Path, pytest.Item] = {}
    for item in filter(is_measuring, items):
        first = chosen.setdefault(item.path.parent, item)
        if item.get_closest_marker(SMOKE_TEST) and not first.get_closest_marker(SMOKE_TEST):
            chosen[item.path.parent] = item
    return [item for item in items if not is_measuring(item) or chosen[item.path.parent] is item]


def check_root(config: pytest.Config, session: NfvSession) -> None:
    if starts(config, session.options) and session.backend.needs_root and os.geteuid() != 0:
        raise pytest.UsageError(NOT_ROOT)


def starts(config: pytest.Config, options: Options) -> bool:
    return not (options.plan or any(config.getoption(option, False) for option in _START_NOTHING))


def check_before_run(config: pytest.Config, selected: Sequence[pytest.Item], session: NfvSession) -> None:
    """Find a user's mistakes, and what the machine lacks, before anything is started.

    ``selected``: all tests that measure and that the profile keeps. A worker of pytest-xdist does not look: other
    machines may have what its own lacks, and its tests say what is missing.

    Raises:
        pytest.UsageError, ConfigError: a file that cannot be used, an SLA rule that can never be judged.
        TestbedError: the machine lacks what the testbed names: a NIC, OVS.
    """
    refuse_two_topologies(selected)
    if is_worker(config):
        return
    try:
        refuse_unjudgeable(selected, session, whole=not narrowed_by(config))
        if not session.options.plan:
            _ = session.baseline  # refuse an unreadable one before anything is measured
    except (ConfigError, TestbedError) as error:
        raise pytest.UsageError(str(error)) from error
    if starts(config, session.options):
        session.backend.check()


def check_slas(
    config: pytest.Config, collected: Sequence[pytest.Item], selected: Collection[pytest.Item], session: NfvSession
) -> None:
    """Refuse rules that match no collected test: a rule that judges nothing would look like a pass.

    Say what an SLA can hardly mean, and which rules are about what the user, the profile or the testbed left out. Note
    in the session which rules the selected tests must be judged by.

    Raises:
        ConfigError: file and key of such a rule; a file where it judges nothing.
    """
    if is_worker(config) and len(session.options.labels) > 1:
        return  # a rule may be about the testbed of another worker
    own, profile = session.backend.labels(), session.profile.name
    tests = [_Test(item, session, own | labels) for item in collected for labels in subject_labels(item, profile)]
    for pack in session.options.packs:
        refuse_empty(pack, session.slas.published(dict.fromkeys(item.path.parent for item in collected)))
    given = [(sla, tests, narrowed_by(config)) for sla in session.slas.from_command_line]
    for sla, of_sla, narrowed in given or _suite_slas(config, tests, session):
        lines = [*sla_warnings(sla), *_selected_by(sla, of_sla, narrowed, set(selected), session)]
        for line in lines if getattr(config, "workerinput", {}).get("workerid", "gw0") == "gw0" else ():
            say(config, line)


def _suite_slas(
    config: pytest.Config, tests: Sequence[_Test], session: NfvSession
) -> Iterator[tuple[Sla, list[_Test], str]]:
    """The file beside each suite, with the suite's tests and what kept some of them from being collected."""
    folders = {} if session.options.packs else dict.fromkeys(test.item.path.parent for test in tests)
    for path in config.stash[STATE_KEY].sla_files if folders else ():
        folder, shown = path.parent, shown_location(str(path), session.options.root)
        if path.name != SUITE_SLA and folder in folders and not (folder / SUITE_SLA).is_file():
            raise ConfigError(f"is not read: call it {SUITE_SLA}, or name it by --nfv-sla", file=shown)
        tested = folder in folders or any(any(folder.glob(name)) for name in config.getini("python_files"))
        if path.name == SUITE_SLA and not tested and not _not_collected(config, folder):
            raise ConfigError("judges nothing: put it beside the tests, or name it by --nfv-sla", file=shown)
    for folder in folders:
        if (sla := session.slas.of_folder(folder)) is not None:
            yield sla, [test for test in tests if test.item.path.parent == folder], _not_collected(config, folder)


def _not_collected(config: pytest.Config, folder: Path) -> str:
    """What kept tests of a folder from being collected; "" where all were."""
    found = [shown for option, shown in _NOT_COLLECTING.items() if config.getoption(option, None)]
    paths = [(config.invocation_params.dir / arg).resolve() for arg in config.args if "::" not in arg]
    if not any(path.is_dir() and folder.resolve().is_relative_to(path) for path in paths):
        found += map(repr, config.args)
    partly = any(config.rootpath / part == folder for part in config.stash[STATE_KEY].partly)
    return ", ".join([*found, "a file that was not collected"] if partly else found)


def _selected_by(
    sla: Sla, tests: Sequence[_Test], narrowed: str, selected: Collection[pytest.Item], session: NfvSession
) -> Iterator[str]:
    """Refuse a rule that matches none of the tests, and say how many are about tests that are left out.

    ``narrowed``: what kept other tests from being collected; for a file that the user names, or selected.
    """
    if not narrowed and (error := unknown_labels(sla, {name for test in tests for name in test.labels})) is not None:
        raise error
    given = bool(session.options.slas)
    matching = [(rule, [test for test in tests if test.may_be(rule)]) for rule in sla.rules]
    unmatched = [rule for rule, found in matching if not found]
    # A vendor's file covers all its NICs, firmwares and datapaths.
    lost = [rule for rule in unmatched if not any(name in _OF_RUNS for name, _ in _strangers(rule, tests))]
    if (given and len(unmatched) == len(sla.rules)) or (lost and not narrowed):
        _refuse((lost or unmatched)[0], tests, session)
    chosen = {rule: [test for test in found if test.item in selected] for rule, found in matching}
    for rule, found in matching:
        whole = found and chosen[rule] == found and not narrowed
        if whole or any(test.certainly(rule) for test in chosen[rule]):
            session.awaited[rule.source] = rule.selects
    left = [rule for rule, found in matching if rule in lost or (found and not chosen[rule])]
    idle = sla.rules if not any(chosen.values()) else left if given or len(left) > len(lost) else ()
    if idle:
        rules = f"{how_many(len(idle), 'rule')} of {len(sla.rules)} of this SLA match no test of this run"
        by = narrowed or f"profile {session.profile.name} of testbed {session.backend.testbed.name}"
        yield f"{rules}, which {by} narrows, the first at {idle[0].source}: they judge nothing here"


def _strangers(rule: Rule, tests: Sequence[_Test]) -> list[tuple[str, tuple[str, ...]]]:
    """The selectors of a rule that match no test, whatever the others are."""
    return [one for one in rule.where if not any(test.may_be(replace(rule, where=(one,))) for test in tests)]


def _refuse(rule: Rule, tests: Sequence[_Test], session: NfvSession) -> None:
    testbed = ", ".join(f"{name}: {value}" for name, value in session.backend.labels().items())
    why = "none has all of it"
    for name, accepted in _strangers(rule, tests)[:1]:
        values = {test.labels[name] for test in tests if name in test.labels}
        hint = next(filter(None, (did_you_mean(value, values) for value in accepted)), "")
        why = f"none has {name} {' or '.join(accepted)}{hint}".removesuffix("?")
    raise ConfigError(
        f"{rule.source}: no test matches {rule.selects}, so this rule judges nothing: {why}; correct the "
        f"selector (pytest --collect-only lists the tests; the testbed is {testbed}) or remove the rule"
    )


def narrowed_by(config: pytest.Config) -> str:
    """The argument by which the user picked some of the tests; "" for none."""
    for option, shown in _NARROWING.items():
        if config.getoption(option, None):
            return shown
    base = config.invocation_params.dir
    selected = {(base / arg.split("::")[0]).resolve(): arg for arg in config.args}
    for path, arg in selected.items():
        # A folder with an SLA is a suite. A run of some suites of several is narrowed, too.
        suites = path.parent.glob(f"*/{SUITE_SLA}") if (path / SUITE_SLA).is_file() else ()
        if "::" in arg or not path.is_dir() or any(suite.parent not in selected for suite in suites):
            return repr(arg)
    return ""


def refuse_other_plugins(config: pytest.Config, measuring: Sequence[pytest.Item]) -> None:
    """Raise pytest.UsageError for a plugin that would run these tests where they cannot measure.

    The message names the option or mark, and what to do.
    """
    for item in measuring:
        frozen = item.get_closest_marker("freeze_time") is not None or "freezer" in getattr(item, "fixturenames", ())
        clock = "its clock is frozen (mark freeze_time, fixture freezer), and every deadline and rate needs a clock"
        reason = _forked(config, item) or _threads(config, item) or _no_sockets(config, item) or (frozen and clock)
        if reason:
            raise pytest.UsageError(f"{item.nodeid} cannot be measured: {reason}")


def _forked(config: pytest.Config, item: pytest.Item) -> str:
    by_mark = item.get_closest_marker("forked") is not None
    if not (config.getoption("forked", False) or by_mark):
        return ""
    return (
        f"{'its mark forked' if by_mark else '--forked'} of pytest-forked runs it in a child of pytest, whose testbed "
        "and evidence nobody else has. Leave it out; `-n 1` of pytest-xdist outlives a crash as well"
    )


def _threads(config: pytest.Config, item: pytest.Item) -> str:
    if _is_loaded(config, "pytest_parallel"):
        for option in ("workers", "tests_per_worker"):
            if config.getoption(option, None):
                flag = f"--{option.replace('_', '-')}"
                why = f"{flag} of pytest-parallel runs tests at once. {_ONE_AT_A_TIME}"
                return f"{why}; leave it out (docs/how-to/several-testbeds.md)"
    for option, marks in (
        ("parallel_threads", ("parallel_threads", "force_parallel_threads")),
        ("iterations", ("iterations",)),
    ):
        if not _is_loaded(config, "pytest_run_parallel"):
            break
        mark = next(filter(None, map(item.get_closest_marker, marks)), None)
        threads = mark.args[0] if mark is not None and mark.args else config.getoption(option, 1)
        if str(threads) != "1":
            what = f"its mark {mark.name}" if mark is not None else f"--{option.replace('_', '-')}"
            return f"{what} of pytest-run-parallel runs it in threads. {_ONE_AT_A_TIME}; leave it out"
    return ""


def _no_sockets(config: pytest.Config, item: pytest.Item) -> str:
    # By pytest-socket's rules, a test's own marks and fixtures come before the options.
    if not _is_loaded(config, "pytest_socket") or config.getoption("--force-enable-socket", False):
        return ""
    fixtures = getattr(item, "fixturenames", ())
    if item.get_closest_marker("enable_socket") is not None or "socket_enabled" in fixtures:
        return ""
    by_test = item.get_closest_marker("disable_socket") is not None or "socket_disabled" in fixtures
    if by_test or config.getoption("--disable-socket", False):
        what = "it disables sockets" if by_test else "--disable-socket"
        return f"{what} by pytest-socket. {_SOCKETS}: mark it enable_socket"
    if item.get_closest_marker("allow_hosts") is not None or config.getoption("--allow-hosts", None):
        return f"pytest-socket allows it some hosts alone. {_SOCKETS}: mark it enable_socket"
    return ""


def _is_loaded(config: pytest.Config, module: str) -> bool:
    names = (str(getattr(plugin, "__name__", "")) for plugin in config.pluginmanager.get_plugins())
    return any(name == module or name.startswith(f"{module}.") for name in names)


def refuse_two_topologies(items: Iterable[pytest.Item]) -> None:
    """Raise UsageError for a test that takes two fixtures which both deploy a topology.

    The second would replace the first before the test begins.
    """
    for item in items:
        arguments = getattr(getattr(item, "_fixtureinfo", None), "argnames", ())
        topologies = [name for name in arguments if name in TOPOLOGY_FIXTURES]
        if len(topologies) > 1:
            raise pytest.UsageError(
                f"{item.nodeid} takes the fixtures {listed(topologies)}, which deploy a topology each, and a testbed "
                "has one at a time: take one of them; or take `deploy`, and deploy the second after you measured on "
                "the first; or compare both by study.forwarding_rate(...)"
            )


def refuse_unjudgeable(items: Sequence[pytest.Item], session: NfvSession, *, whole: bool) -> None:
    """Raise ConfigError for the first requirement that none of the tests it selects can ever judge.

    ``whole``: the user asked for whole folders. Then every subject that a rule compares with must be among the tests.
    """
    if session.options.compare is not None:
        return  # the SLAs of tests are not judged
    own = session.backend.labels()
    profile = session.profile.name
    known = [_Test(item, session, labels | own) for item in items for labels in subject_labels(item, profile)]
    by_rule: dict[int, tuple[Rule, list[_Test]]] = {}
    for test in known:
        for rule in session.slas.rules_for(test.item.path):
            if rule.without_class().matches(test.labels):
                by_rule.setdefault(id(rule), (rule, []))[1].append(test)
    for rule, selected in by_rule.values():
        for metric, limit in rule.require:
            reasons = [why_never(metric, limit, test.foreseen) for test in selected]
            if whole and not any(reasons):
                reasons = [_without_peer(test, limit, known) for test in selected]
            if selected and all(reasons):
                text = requirement_text(metric, limit)
                raise ConfigError(f"{rule.source}.require.{metric}: {text} can never be judged: {reasons[0]}")


class _Test:
    """A subject before it is measured."""

    def __init__(self, item: pytest.Item, session: NfvSession, labels: Mapping[str, str]) -> None:
        self.item = item
        self.labels = labels
        arguments = set(getattr(getattr(item, "_fixtureinfo", None), "argnames", ()))
        callspec = getattr(item, "callspec", None)
        parameters = set(callspec.params) if callspec else set()
        self.arguments = arguments - parameters
        # All fixtures that the test uses, directly or by another, are ours or pytest's.
        definitions = getattr(getattr(item, "_fixtureinfo", None), "name2fixturedefs", {})
        functions = [found[-1].func for name, found in definitions.items() if found and name not in parameters]
        ours = all(
            str(getattr(function, "__module__", "")).partition(".")[0] in {"pytest_nfvperf", "_pytest", "fixtures"}
            for function in functions
        )
        self.foreseeable = ours and "search" in self.arguments and not self.arguments & _ANYTHING
        self.plain = self.foreseeable and self.arguments <= _PARAMETERS_OF_SEARCHES
        self.foreseen = self._foreseen(session) if self.foreseeable else Foreseen()
        self.later = self._shown_later(session)

    def _shown_later(self, session: NfvSession) -> frozenset[str]:
        """Labels that only the measurement will show: what no parameter, marker or fixture of the test sets."""
        if not _MEASURES.intersection(getattr(self.item, "fixturenames", ())):
            return frozenset()
        later = ((_MEASURED | _OF_TRAFFIC) - set_labels(self.item) - _OF_RUNS) | (
            _OF_TRAFFIC if session.traffic else set()
        )
        deploys = self.arguments & (_ANYTHING | {"deploy"})
        return later if deploys or "topology" not in self.labels else later - {"topology"}

    def may_be(self, rule: Rule) -> bool:
        """False if the rule certainly selects nothing that this test measures."""
        return rule.without_class().matches(self.labels, self.later)

    def certainly(self, rule: Rule) -> bool:
        return self.may_be(rule) and not any(name in self.later for name, _ in rule.where)

    def _foreseen(self, session: NfvSession) -> Foreseen:
        profile, testbed = session.profile, session.backend.testbed
        datapath = self.labels.get("datapath", "")
        embedded = testbed.generator.engine == "embedded"
        unlined = embedded and session.backend.line_rate_bps() is None
        return Foreseen(
            line_rate=False if self.plain and unlined else None,
            latency_shares=profile.latency_loads,
            repeats=None if profile is SMOKE else session.options.repeat,
            searches_only=self.plain,
            without_cores=datapath if self.plain and datapath in _KERNEL_DATAPATHS else None,
            profile=profile.name,
        )

    def can_be(self, labels: Mapping[str, str]) -> bool:
        """False if this test certainly measures another subject than the one with these labels."""
        if not self.foreseeable:
            return True
        fixed = {name: value for name, value in self.labels.items() if name not in _MEASURED and name != "test"}
        if self.plain and "topology" in self.labels:
            fixed["topology"] = self.labels["topology"]
        return all(labels.get(name) == value for name, value in fixed.items())


def _without_peer(test: _Test, limit: Limit, known: Iterable[_Test]) -> str | None:
    """Why a relation has no other side in this run; None where it may have one."""
    differing = dict(limit.relative_to or ())
    names = [name for name in differing if name in test.labels and (name not in _MEASURED or test.plain)]
    if not differing or not test.foreseeable or len(names) < len(differing):
        return None
    if all(test.labels[name] == value for name, value in differing.items()):
        return None  # it is the baseline
    wanted = {**test.labels, **differing}
    if any(other.can_be(wanted) for other in known):
        return None
    shown = ", ".join(f"{name}: {value}" for name, value in differing.items())
    return (
        f"no selected test measures {{{shown}}}, which it is compared with: select that test, too, or correct the rule"
    )


# What tests need of the testbed. A test needs what its fixtures need, the kernel's datapath that its label "datapath"
# names, and what its markers nfv_needs name. What only shows while a test runs is a skip, and so is a program that is
# not installed: whoever installs it can run the test.

_NO_OFFLOAD = "no flows are offloaded: set dut.ovs.hw_offload in the testbed file of a lab with NICs that can"
_NO_SPEAKERS = "the testbed file names no speakers"


def _datapath(kind: str, config: pytest.Config, session: NfvSession) -> str | None:
    # --collect-only needs no rights to ask the kernel. Cabled nodes may have kernels of other machines.
    unknown = config.option.collectonly or has_cabled_nodes(session.backend.testbed)
    return None if unknown else session.backend.lacks(Dut(kind))


def _queues(testbed: Testbed, number: int) -> str | None:
    few = min(cabled_ports(testbed), key=lambda port: port.rxq, default=None)
    if few is None or few.rxq >= number:
        return None if few is not None else why_no_nics(testbed, ())
    has = how_many(few.rxq, "receive queue")
    return f"port {few.name!r} has {has}: write 'rxq: {number}' or more in dut.ports of the testbed file"


def _cables(testbed: Testbed, number: int) -> str | None:
    names = [end.name for end in cabled_ends(testbed)]
    if not is_lab(testbed) or len(names) >= number:
        return None  # the embedded testbed makes its ports as a topology needs them
    return (
        f"testbed {testbed.name!r} has {len(names)} cabled ports ({', '.join(names)}), and {number} are needed: name "
        "more in dut.ports, each with a cable of its own in 'links'"
    )


NEEDS: Mapping[str, Callable[[pytest.Config, NfvSession], str | None]] = {
    "nics": lambda _, session: why_no_nics(session.backend.testbed, cabled_ports(session.backend.testbed)),
    "offloaded": lambda _, session: None if session.backend.testbed.ovs.hw_offload else _NO_OFFLOAD,
    "capture_interface": lambda config, _: (
        None if config.hook.pytest_nfvperf_make_capture.get_hookimpls() else NO_CAPTURE_INTERFACE
    ),
    "lab_speakers": lambda _, session: None if session.backend.testbed.speakers else _NO_SPEAKERS,
    "system": partial(_datapath, "system"),
    "linux-bridge": partial(_datapath, "linux-bridge"),
}
"""By name, the reason why the testbed lacks it; None where it has it. Names are those of fixtures and of datapaths."""
COUNTED: Mapping[str, Callable[[Testbed, int], str | None]] = {"rxq": _queues, "cabled": _cables}
"""Likewise what a marker says a number of."""


def leave_out(config: pytest.Config, items: list[pytest.Item], session: NfvSession) -> None:
    """Deselect tests that need what the testbed lacks, and remember the reasons.

    Those that the user names stay, and all stay if nothing else is selected, or if other workers may have another
    testbed. They are skipped with the reason.

    Raises:
        pytest.UsageError: a marker names a need that does not exist.
    """
    lacking = _lacking(config, items, session)
    others = any(is_measuring(item) and item not in lacking for item in items)
    may_leave = others and not _testbeds_differ(config, session.options)
    left: dict[str, list[pytest.Item]] = {}
    for item, reason in lacking.items():
        if may_leave and not _is_named(config, item):
            left.setdefault(reason, []).append(item)
        else:
            item.stash[LACKING_KEY] = reason
    if left:
        config.hook.pytest_deselected(items=[item for tests in left.values() for item in tests])
        items[:] = [item for item in items if item not in lacking or LACKING_KEY in item.stash]
        session.not_for_testbed = {reason: tuple(item.nodeid for item in tests) for reason, tests in left.items()}


def refuse_lacking(item: pytest.Item) -> None:
    """Raise UnavailableError for a test that stayed selected although the testbed lacks what it needs."""
    if LACKING_KEY in item.stash:
        raise UnavailableError(item.stash[LACKING_KEY])


def _lacking(config: pytest.Config, items: Sequence[pytest.Item], session: NfvSession) -> dict[pytest.Item, str]:
    """The first reason of each test that the testbed cannot run."""
    answers: dict[tuple[str, int], str | None] = {}
    lacking: dict[pytest.Item, str] = {}
    for item in filter(is_measuring, items):
        for need in needs_of(item, session.profile.name):
            if need not in answers:
                answers[need] = _ask(*need, config, session)
            if (reason := answers[need]) is not None:
                lacking.setdefault(item, reason)
    return lacking


def _ask(name: str, number: int, config: pytest.Config, session: NfvSession) -> str | None:
    with suppress(NfvperfError):  # what cannot even be asked is said when the test runs
        return NEEDS[name](config, session) if name in NEEDS else COUNTED[name](session.backend.testbed, number)
    return None


def needs_of(item: pytest.Item, profile: str) -> Iterator[tuple[str, int]]:
    """Name and number of each need of a test; UsageError for one that does not exist."""
    fixtures: Collection[str] = getattr(item, "fixturenames", ())
    datapaths = (labels.get("datapath", "") for labels in subject_labels(item, profile))
    yield from ((name, 1) for name in dict.fromkeys((*fixtures, *datapaths)) if name in NEEDS)
    for marker in item.iter_markers(NEEDS_MARKER):
        for name in marker.args:
            if name not in NEEDS:
                raise _unknown(item, repr(name))
            yield name, 1
        for name, number in marker.kwargs.items():
            if name not in COUNTED or not isinstance(number, int):
                raise _unknown(item, f"{name}={number!r}")
            yield name, number


def _unknown(item: pytest.Item, what: str) -> pytest.UsageError:
    known = listed([*map(repr, NEEDS), *(f"{name}=NUMBER" for name in COUNTED)])
    return pytest.UsageError(f"{item.nodeid}: {NEEDS_MARKER}({what}) is no need of a test: write one of {known}")


def _testbeds_differ(config: pytest.Config, options: Options) -> bool:
    """Whether tests of this run may run on another testbed than this process has. All workers select the same tests."""
    if len(options.labels) > 1:
        return True
    if not is_worker(config):
        return False
    specs = config.getoption("tx", None) or ()
    elsewhere = any(spec.rpartition("*")[2] != "popen" for spec in specs)
    return elsewhere or len(options.testbeds) > 1


def _is_named(config: pytest.Config, item: pytest.Item) -> bool:
    """Whether the command line has the test's node id, or that of its function or class."""
    own, base = item.nodeid.partition("::")[2], config.invocation_params.dir
    named = (arg.partition("::") for arg in config.args if "::" in arg)
    return any(
        (own == name or own.startswith((f"{name}[", f"{name}::"))) and (base / path).resolve() == item.path.resolve()
        for path, _, name in named
    )


# The time limit.


def expected_s(item: pytest.Item, profile: Profile) -> float:
    """Seconds that a test takes on a quiet machine, by the fixtures that it measures with."""
    fixtures = set(getattr(item, "fixturenames", ()))
    return (
        ("search" in fixtures) * plan_search_s(profile, latency=True)
        + ("study" in fixtures) * profile.comparison_budget_s * _OF_BUDGET
        + ("soak" in fixtures) * (profile.soak_s + _AROUND_SOAK_S)
    ) or _FUNCTIONAL_S


def put_judged_first(items: list[pytest.Item], session: NfvSession) -> None:
    """Measure figures that no requirement judges after all others; tests that measure none keep their place."""
    own = session.backend.labels()

    def is_unjudged(item: pytest.Item) -> bool:
        figures = {"search", "study", "soak"} & set(getattr(item, "fixturenames", ()))
        if not (is_measuring(item) and figures):
            return False
        rules = [rule.without_class() for rule in session.rules_in_force(item.path)]
        subjects = [own | labels for labels in subject_labels(item, session.profile.name)]
        return not any(rule.matches(labels) for rule in rules for labels in subjects)

    items.sort(key=is_unjudged)


class LimitedRun:
    """Passes tests over once the time limit is used up; a plugin of pytest.

    ``earlier_s``: what tests took when they last ran here, by node id.
    """

    def __init__(self, session: NfvSession, items: Sequence[pytest.Item], earlier_s: Mapping[str, float]) -> None:
        self._session = session
        self._needed_s = {
            item.nodeid: earlier_s.get(item.nodeid, expected_s(item, session.profile))
            for item in items
            if is_measuring(item)
        }

    def begins(self, item: pytest.Item) -> bool:
        """Whether there is time to begin this test; reserves the time of those after it."""
        limit = self._session.time_limit
        self._needed_s.pop(item.nodeid, None)
        limit.reserved_s = sum(self._needed_s.values())
        if over := limit.is_over:
            item.stash[NOT_BEGUN_KEY] = True
            self._session.not_begun += 1
        return not over

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        return item.stash.get(NOT_BEGUN_KEY, None)
