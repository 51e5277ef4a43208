"""The SLAs of a run: which rules are in force for a test, and ``sla.check(outcome)``.

SLA files come from the command line and from beside the suites. Each is read once. SLA packs have names: ``--nfv-sla
published:S1`` judges by what S1 published. The figures are in the ``published.yaml`` beside each suite; a rule belongs
to the scenarios in its name or its source, such as "(S1)". ``published`` alone means all of them. ``--nfv-baseline``
names a run whose figures are the limits.

``sla.check`` judges what was measured, records it, and fails with a table. It refuses what it cannot judge, and says
what to write instead. To judge relations, workers of a run exchange their observations as text.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

import pytest_nfvperf
from pytest_nfvperf.adapters.evidence.reader import RunEvidence, read_run
from pytest_nfvperf.config.sla_file import load_sla
from pytest_nfvperf.features import Point
from pytest_nfvperf.measure.streams import StreamRun
from pytest_nfvperf.measure.trials import Recorder
from pytest_nfvperf.model.display import label_words, listed
from pytest_nfvperf.model.errors import ConfigError, InconclusiveError
from pytest_nfvperf.model.evidence.comparison import differences
from pytest_nfvperf.model.figure import Figure
from pytest_nfvperf.model.measure.cpu_profile import TIME, WALL, why_not_in
from pytest_nfvperf.model.measure.hw_offload import fallback_text, rules_about_offload
from pytest_nfvperf.model.measure.outcome import Outcome
from pytest_nfvperf.model.measure.streams import StreamResult
from pytest_nfvperf.model.sla.judge import judge, judge_defaults
from pytest_nfvperf.model.sla.rules import Rule, Sla
from pytest_nfvperf.model.sla.verdict import Baseline, Judgement, Subject, Verdict, failure_table, subject_of, worst
from pytest_nfvperf.session.options import PACK, Options

PUBLISHED_FILE = "published.yaml"
SUITE_SLA = "sla.yaml"
HISTORY_SUFFIX = ".json"
"""Of a history's files; files of evidence are lines of JSON and end in .jsonl."""
BASELINE_FILES = Point[Callable[[Path, Mapping[str, Any]], Baseline]]("baseline")
"""Readers of baselines that are no run's evidence, by suffix; they take the arguments of ``load_baseline``."""
_PACKAGE = Path(pytest_nfvperf.__file__).parent
_SCENARIO = re.compile(r"\bS\d+\b")
OutcomesText = Callable[[Sequence[Outcome]], str | None]
Gate = Callable[[Sequence[Outcome]], tuple[Rule, Baseline] | None]
_RELATION = "ratio"
"""Unit of a requirement that relates two subjects, or the subjects of a series."""


class SlaFailure(AssertionError):  # noqa: N818 - it is a failed assertion, and reads as one
    """An SLA that was not met, or not shown to be met. The message is the table.

    ``runs``: ids of the trials and runs on the subjects that did not pass.
    """

    def __init__(self, table: str, judgement: Judgement, runs: Sequence[str] = ()) -> None:
        self.judgement = judgement
        self.runs = tuple(runs)
        super().__init__(table)


class InconclusiveWarning(UserWarning):
    """An INCONCLUSIVE verdict that --nfv-inconclusive=warn accepted."""


class MeasuredSubjects:
    """Everything measured in this run, by labels: the other sides of relations.

    Attributes:
        publish: sends added figures, as text, to other workers of the run.
        receive: returns such texts of other workers, each once.
    """

    def __init__(self) -> None:
        self.publish: Callable[[str], None] | None = None
        self.receive: Callable[[], Iterable[str]] | None = None
        self._observed: dict[frozenset[tuple[str, str]], list[Figure]] = {}

    def add(self, labels: Mapping[str, str], observed: Sequence[Figure]) -> None:
        """Store figures of a subject, and send them to the other workers."""
        self.store(labels, observed)
        if self.publish is not None:
            self.publish(_subject_adapter().dump_json((dict(labels), tuple(observed))).decode())

    def store(self, labels: Mapping[str, str], observed: Sequence[Figure]) -> None:
        """Store figures of a subject. They replace those of an earlier attempt at the test."""
        key = _key(labels)
        self._observed[key] = renewed(self._observed.get(key, ()), observed)

    def peers(self, labels: Mapping[str, str]) -> Sequence[Figure] | None:
        """Figures of the subject with these labels; None if it was not measured."""
        for text in self.receive() if self.receive is not None else ():
            self.store(*_subject_adapter().validate_json(text))
        return self._observed.get(_key(labels))


def renewed(earlier: Sequence[Figure], observed: Sequence[Figure]) -> list[Figure]:
    """The figures of a subject when further ones are made: these replace earlier ones of the same figure."""
    replaced = {each.key for each in observed}
    return [each for each in earlier if each.key not in replaced] + list(observed)


def _key(labels: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    return frozenset((name, value) for name, value in labels.items() if name != "test")


@dataclass(eq=False, repr=False)
class SlaCheck:
    """The fixture ``sla``: judges the outcomes of one test.

    Attributes:
        _measured: observations of earlier tests of this run.
        _ledger_text: where frames were lost in the worst trial, as text.
        _inconclusive: "fail" or "warn".
        _baseline: returns the earlier run that limits may be a share of; None without one.
        _profile_text: where the CPUs' time went, as text; None where it was not profiled.
        _gate: what --nfv-fail-below requires of outcomes, and by which run; None where it judges nothing.
    """

    _rules: Sequence[Rule]
    _measured: MeasuredSubjects
    _recorder: Recorder
    _ledger_text: OutcomesText
    _inconclusive: str = "fail"
    _baseline: Callable[[], Baseline | None] = lambda: None
    _profile_text: OutcomesText = lambda _: None
    _gate: Gate = lambda _: None

    def check(self, *outcomes: Outcome) -> tuple[Verdict, ...]:
        """Judge outcomes of one subject together. It judges no outcome twice.

        Returns:
            The verdicts; empty when no rule applies: then the outcome is measured but not judged.

        Raises:
            ConfigError: one of them is no Outcome; says what to write instead.
            SlaFailure: a requirement is not met, or not shown to be met.
            InconclusiveError: the outcomes have no figure, and no rule applies that could report this.
        """
        _refuse_other_objects(outcomes)
        verdicts = self._judge(outcomes)
        self._act([(outcomes, verdicts)])
        return verdicts

    def check_each(self, outcomes: Sequence[Outcome]) -> tuple[Verdict, ...]:
        """Judge outcomes of several subjects, each by itself. It judges all of them before it fails the test.

        Returns:
            The verdicts on all.

        Raises:
            ConfigError: as ``check``.
            SlaFailure: as ``check``; the table shows every subject that did not pass.
        """
        if not isinstance(outcomes, (list, tuple)):
            what = "write sla.check(outcome) for one" if isinstance(outcomes, Outcome) else _instead(outcomes)
            raise ConfigError(f"sla.check_each() judges a list of outcomes: {what}")
        _refuse_other_objects(outcomes)
        judged = [((outcome,), self._judge([outcome])) for outcome in outcomes]
        self._act(judged)
        return tuple(verdict for _, verdicts in judged for verdict in verdicts)

    def decided(self, outcome: Outcome) -> bool:
        """True if more readings cannot change the verdict: the data decide it, or the rig limits it."""
        limited = _limited_by_rig(outcome)
        sampled = {samples.metric for samples in outcome.samples} | set(outcome.missing)
        sampled |= {f"{slope.metric}_slope" for slope in outcome.slopes}
        return not any(
            verdict.judgement is Judgement.INCONCLUSIVE
            and verdict.metric in sampled
            and (verdict.metric, verdict.unit == _RELATION) not in limited
            for verdict in self.verdicts_on([outcome])
        )

    def verdicts_on(self, outcomes: Sequence[Outcome]) -> tuple[Verdict, ...]:
        """Judge outcomes of one subject without recording anything."""
        labels = _labels(outcomes)
        # Some metrics of the rules need the other kind of time than the subject's.
        metrics = {metric for rule in self._rules for metric, _ in rule.require}
        reasons = {metric: why_not_in(labels.get(TIME, WALL), metric) for metric in metrics}
        missing = {metric: why for metric, why in reasons.items() if why}
        missing |= {name: why for outcome in outcomes for name, why in outcome.missing.items()}
        figures = _distinct(outcomes)
        rules = rules_about_offload(self._rules, labels, {figure.metric for figure in figures})
        verdicts = judge(rules, labels, figures, self._measured.peers, missing, self._baseline())
        if (gate := self._gate(outcomes)) is not None:
            verdicts += judge([gate[0]], labels, figures, self._measured.peers, missing, gate[1])
        verdicts = (*verdicts, *judge_defaults(verdicts, labels, figures))
        subject = labels.items()
        return tuple(replace(verdict, subject=tuple(sorted({*subject, *verdict.subject}))) for verdict in verdicts)

    def _judge(self, outcomes: Sequence[Outcome]) -> tuple[Verdict, ...]:
        self._measured.add(_labels(outcomes), _distinct(outcomes))
        verdicts = self.verdicts_on(outcomes)
        for verdict in verdicts:
            self._recorder.emit(verdict)
        return verdicts

    def _act(self, judged: Sequence[tuple[Sequence[Outcome], Sequence[Verdict]]]) -> None:
        """Pass, warn or fail by the outcomes of each subject and the verdicts on them."""
        # Without any figure the test did not pass, even where no rule asks for one.
        empty = [outcomes for outcomes, verdicts in judged if not verdicts and not _distinct(outcomes)]
        missing = [
            f"{name}: {why}" for outcomes in empty for outcome in outcomes for name, why in outcome.missing.items()
        ]
        if missing:
            text = f"nothing could be measured; {'; '.join(dict.fromkeys(missing))}"
            if self._inconclusive != "warn":
                raise InconclusiveError(text)
            warnings.warn(InconclusiveWarning(text), stacklevel=4)
        bad = [
            (outcomes, verdicts) for outcomes, verdicts in judged if verdicts and worst(verdicts) is not Judgement.PASS
        ]
        if not bad:
            return
        judgement = worst([verdict for _, verdicts in bad for verdict in verdicts])
        table = "\n\n".join(
            failure_table(
                verdicts,
                self._ledger_text(outcomes),
                subject=subject_text(_labels(outcomes)),
                fallback=fallback_text(outcome.offload for outcome in outcomes),
                profile=self._profile_text(outcomes),
            )
            for outcomes, verdicts in bad
        )
        if judgement is Judgement.INCONCLUSIVE and self._inconclusive == "warn":
            warnings.warn(InconclusiveWarning(f"\n{table}"), stacklevel=4)  # pytest begins the line by a path
            return
        runs = [run for outcomes, _ in bad for outcome in outcomes for run in outcome.trials]
        raise SlaFailure(table, judgement, runs)


def _labels(outcomes: Sequence[Outcome]) -> dict[str, str]:
    return {name: value for outcome in outcomes for name, value in outcome.labels}


def _limited_by_rig(outcome: Outcome) -> set[tuple[str, bool]]:
    """Metrics that the rig limits, so that more readings would not help; True with relations, False with the rest.

    A rate may be limited and its ratio not: the rig disturbs all subjects alike.
    """
    limited = {(samples.metric, False) for samples in outcome.samples if samples.why}
    limited |= {(f"{slope.metric}_slope", True) for slope in outcome.slopes if slope.why}
    return limited | {(ratio.metric, True) for ratio in outcome.relatives if ratio.why}


def _distinct(outcomes: Sequence[Outcome]) -> list[Figure]:
    # A latency outcome repeats the goals it was taken at.
    distinct: dict[tuple[str, str, str | None, str], Figure] = {}
    for figure in (each for outcome in outcomes for each in outcome.figures):
        distinct.setdefault(figure.key, figure)
    return list(distinct.values())


def subject_text(labels: Mapping[str, str]) -> str:
    """``throughput test_ndr_pdr: phy2phy, frame 64, flows 1, bidirectional, dpdk``."""
    texts = {"topology": "{}", "frame_size": "frame {}", "headers": "{}", "flows": "flows {}", "direction": "{}"}
    texts |= {"datapath": "{}", "bridges": "bridge", "link": "{}", "streams": "stream", "tso": "tso {}"}
    return f"{labels.get('suite', '')} {labels.get('test', '')}: {', '.join(label_words(labels, texts))}".strip()


def _refuse_other_objects(given: Sequence[object]) -> None:
    if not given:
        raise ConfigError("sla.check() has nothing to judge: give it what search, study or soak returned")
    for one in given:
        if not isinstance(one, Outcome):
            raise ConfigError(f"sla.check() judges an Outcome, which search, study and soak return, {_instead(one)}")


def _instead(stranger: object) -> str:
    match stranger:
        case None:
            return "not None: does the function that measured return its Outcome?"
        case StreamRun() | StreamResult():
            return (
                "not one run of streams, which has no interval to judge by. Measure TCP by study.tcp_throughput(...) "
                "and judge by sla.check_each(...), or assert on the run's result, such as "
                "run.result.goodput_bps > 1e9 (docs/how-to/streams.md)"
            )
        case list() | tuple():
            return (
                f"not a {type(stranger).__name__}: write sla.check_each(outcomes) for outcomes of several subjects, "
                "sla.check(*outcomes) for several of one"
            )
    return f"not {stranger!r}"


@cache
def _subject_adapter() -> TypeAdapter[tuple[dict[str, str], tuple[Figure, ...]]]:
    return TypeAdapter(tuple[dict[str, str], tuple[Figure, ...]])


# The rules in force.


def pack_rules(pack: str, published: Iterable[Sla]) -> tuple[Rule, ...]:
    """The rules of a pack such as "published" or "published:S1". ``published``: the suites' files."""
    scenario = pack.partition(":")[2]
    return tuple(rule for sla in published for rule in sla.rules if not scenario or scenario in scenarios(rule))


def scenarios(rule: Rule) -> set[str]:
    """The published evaluations that a rule is from, such as "S1"."""
    return set(_SCENARIO.findall(f"{rule.name} {rule.reference}"))


def refuse_empty(pack: str, published: Iterable[Sla]) -> None:
    """Raise ConfigError for a pack without a rule, naming those that exist."""
    slas = tuple(published)
    if pack_rules(pack, slas):
        return
    known = sorted({scenario for sla in slas for rule in sla.rules for scenario in scenarios(rule)})
    there = f"there are {listed([PACK, *(f'{PACK}:{name}' for name in known)])}" if known else "there is none"
    raise ConfigError(f"the suites of this run have no figures by the name {pack!r}: {there}", key="--nfv-sla")


class Slas:
    """Reads SLA files, and selects the rules of a test.

    ``options`` names the files and packs that replace the ``sla.yaml`` beside each suite.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._by_path: dict[Path, Sla] = {}

    @cached_property
    def from_command_line(self) -> tuple[Sla, ...]:
        """SLA files of the command line; ConfigError for one that cannot be read."""
        return tuple(self._load(path) for path in self._options.slas)

    def rules_for(self, test_file: Path) -> tuple[Rule, ...]:
        """Rules for a test: those of the command line's files and packs, else those of its folder's sla.yaml."""
        if self._options.slas or self._options.packs:
            published = self.published([test_file.parent])
            packs = (rule for pack in self._options.packs for rule in pack_rules(pack, published))
            return (*(rule for sla in self.from_command_line for rule in sla.rules), *packs)
        sla = self.of_folder(test_file.parent)
        return sla.rules if sla else ()

    def published(self, folders: Iterable[Path]) -> list[Sla]:
        """The published.yaml of those folders that have one; ConfigError for one that cannot be read."""
        return [sla for folder in folders if (sla := self.of_folder(folder, PUBLISHED_FILE)) is not None]

    def of_folder(self, folder: Path, name: str = SUITE_SLA) -> Sla | None:
        """The folder's sla.yaml, or another file of it; None without one, ConfigError if it cannot be read."""
        path = folder / name
        if path not in self._by_path and path.is_file():
            self._by_path[path] = self._load(path)
        return self._by_path.get(path)

    def _load(self, path: Path) -> Sla:
        return load_sla(path, shown_location(str(path), self._options.root))


def shown_location(location: str, root: Path) -> str:
    """A file, or a line in one ("/root/x/suites/cost/sla.yaml:6: rules[0]"), relative to ``root``, pytest's rootdir.

    A suite of the package gives "pytest_nfvperf/suites/cost/sla.yaml:6: rules[0]". Other paths stay as they are.
    """
    if location.startswith(f"{_PACKAGE}/suites/"):
        return location.removeprefix(f"{_PACKAGE.parent}/")
    return location.removeprefix(f"{root}/")


def load_baseline(path: Path, fingerprint: Mapping[str, Any]) -> Baseline:
    """The figures of an earlier run, to judge by.

    Args:
        path: its results directory, an evidence file, or its file in a history.
        fingerprint: of this run.

    Raises:
        ConfigError: there is no evidence, it cannot be read, or nothing was measured.
    """
    if path.suffix == HISTORY_SUFFIX and path.is_file():
        return BASELINE_FILES.part(HISTORY_SUFFIX)(path, fingerprint)
    run = read_run(path)
    if not run.outcomes:
        raise ConfigError(
            "nothing was measured in this run, so it is no baseline", file=str(path), key="--nfv-baseline"
        )
    differing = () if run.run is None else differences(run.run.fingerprint, fingerprint)
    return Baseline(f"the baseline {path.name}", start_text(run), figures_by_subject(run), differing)


def start_text(run: RunEvidence) -> str:
    return datetime.fromtimestamp(run.started_ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M")


def figures_by_subject(run: RunEvidence) -> dict[Subject, list[Figure]]:
    """All figures of a run by subject. If a test ran more than once, the last figures count."""
    found: dict[Subject, list[Figure]] = {}
    for outcome in run.outcomes.values():
        subject = subject_of(outcome.label)
        found[subject] = renewed(found.get(subject, ()), outcome.figures)
    return found
