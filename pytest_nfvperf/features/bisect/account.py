"""The account of a bisection: texts of measurements and verdict, its page and its picture."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pytest_nfvperf.adapters.process.outputs import write_whole
from pytest_nfvperf.adapters.report import vega
from pytest_nfvperf.adapters.report.page_parts import PageCharts, as_file, can_draw, environment, to_png, to_svgs
from pytest_nfvperf.adapters.report.vega import Look, Row, View
from pytest_nfvperf.features.bisect.beliefs import Levels, narrowest
from pytest_nfvperf.features.bisect.bisection import (
    SMALLEST_INSTRUCTIONS,
    Ask,
    BisectionState,
    BisectionVerdict,
    VerdictKind,
    bisection_state,
)
from pytest_nfvperf.features.bisect.events import (
    BisectionSubject,
    Estimate,
    Event,
    Question,
    Ran,
    Runs,
    Unusable,
    VersionComparison,
    estimates,
    runs,
    unusable,
)
from pytest_nfvperf.model.display import how_many

_MOST_NAMED = 4
_PAGE, PICTURE = "bisection.html", "bisection.png"
_MEASURED, _CANNOT = "measured, with interval at 95 %", "skipped: cannot be used"
_CANNOT_LOOK = {_CANNOT: Look(vega.VERMILION, "x")}
_LEVEL = Look(vega.MUTED, line="dash", width=1)


class BisectAccount:
    """Prints a line for each step and the verdict, and writes the page.

    ``titles``: subject lines of commits, by the version's name. ``arguments``: those given to pytest.
    """

    def __init__(self, question: Question, titles: Mapping[str, str], arguments: Sequence[str]) -> None:
        self._question = question
        self._titles = titles
        self._arguments = arguments
        self._states: list[BisectionState] = []

    def begin(self, directory: Path, events: Sequence[Event]) -> None:
        """Print the heading, and again the lines of an earlier run of the same bisection."""
        names = self._question.versions
        print(f"bisecting {len(names) - 2} versions between {names[0]} (good) and {names[-1]} (bad); log: {directory}")
        if events:
            print(f"continuing with {len(events)} measurements of an earlier run; remove {directory} to start over")
        for number, event in enumerate(events, 1):
            before = bisection_state(self._question, events[: number - 1])
            if isinstance(before.step, Ask):
                self.step_begins(before.step)
            self.step_ended(event, bisection_state(self._question, events[:number]))

    def step_begins(self, ask: Ask) -> None:
        """``  7  search  v8 against v0: ``, which ``step_ended`` continues."""
        names = self._question.versions
        against = f" against {names[ask.base]}" if ask.blocks else ""
        against += ", instructions" if ask.virtual else ""
        print(f"{len(self._states) + 1:3}  {ask.purpose:<7} {names[ask.version]}{against}: ", end="", flush=True)

    def step_ended(self, event: Event, now: BisectionState) -> None:
        self._states.append(now)
        print(event_text(self._question, event, now), flush=True)

    def end(self, directory: Path, events: Sequence[Event], now: BisectionState) -> None:
        """Print the verdict, and write the page and the picture; there is none of ends that do not differ."""
        lines = list(verdict_lines(self._question, events, now))
        print("\n".join(lines))
        verdict, versions = now.step, self._question.versions
        if isinstance(verdict, BisectionVerdict) and verdict.kind is VerdictKind.FOUND and verdict.candidates:
            title = self._titles.get(versions[verdict.candidates.first])
            if title:
                print(f"  {title}")
        charts, chart, beside = PageCharts(), "", ""
        if now.chances:
            title, drawn = f"bisection of {versions[0]} to {versions[-1]}", bisection_chart(self._question, events, now)
            chart = charts.add(drawn, "bisection", title)
            if can_draw():
                (directory / PICTURE).write_bytes(to_png(as_file(to_svgs(drawn, title))))
                beside = f", {PICTURE} beside it"
        names = [versions[event.version] for event in events]
        texts = [event_text(self._question, *step) for step in zip(events, self._states, strict=True)]
        steps = [(name, self._titles.get(name, ""), text) for name, text in zip(names, texts, strict=True)]
        text = (
            environment()
            .get_template("bisection.html")
            .render(
                good=versions[0],
                bad=versions[-1],
                between=len(versions) - 2,
                lines=lines,
                chart=chart,
                steps=steps,
                arguments=list(self._arguments),
                subject=now.subject,
                charts=charts,
                site="",
            )
        )
        write_whole(directory / _PAGE, text)
        print(f"page: {directory / _PAGE}{beside}")


def event_text(question: Question, event: Event, now: BisectionState) -> str:
    """A measurement and the state after it: ``0.902 (0.880 .. 0.925) in 8 blocks; came in with v8: 97.0%``."""
    if not now.chances:
        return _observation(event, now.subject)
    likeliest = narrowest(now.chances, question.confidence)
    versions = _range_text(question, likeliest.first, likeliest.last)
    return f"{_observation(event, now.subject)}; came in with {versions}: {likeliest.mass:.1%}"


def _observation(event: Event, subject: BisectionSubject | None) -> str:
    match event:
        case Unusable():
            return f"skipped: {_first_line(event.why)}"
        case Ran():
            failed = dict(event.failed)
            if not failed:
                return f"{how_many(len(event.passed), 'test')} passed"
            test = subject.test if subject and subject.test in failed else next(iter(failed))
            return f"{how_many(len(failed), 'test')} failed: {test}: {_first_line(failed[test])}"
        case VersionComparison():
            own = [figure for figure in event.figures if figure.subject == subject] or event.figures
            clearest = max(own, key=lambda figure: abs(figure.log_ratio) / figure.standard_error, default=None)
            if clearest is None:
                return event.note or "no figure"
            estimate = Estimate(clearest.log_ratio, clearest.standard_error**2, event.blocks)
            return f"{_ratio_text(estimate)} {clearest.metric}"


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]


def _ratio_text(estimate: Estimate) -> str:
    """``0.902 (0.880 .. 0.925) in 8 blocks``: the ratio with its interval at 95 %."""
    ratio, low, high = estimate.interval()
    return f"{ratio:.4g} ({low:.4g} .. {high:.4g}) in {how_many(estimate.blocks, 'block')}"


def _range_text(question: Question, first: int, last: int) -> str:
    names = question.versions
    return names[first] if first == last else f"{names[first]} .. {names[last]}"


def verdict_lines(question: Question, events: Sequence[Event], now: BisectionState) -> Iterator[str]:
    verdict = now.step
    if not isinstance(verdict, BisectionVerdict):
        return
    if verdict.refused:
        yield f"Nothing to bisect: {verdict.kind}. {verdict.text[0].upper()}{verdict.text[1:]}."
        for subject, estimate in verdict.figures:
            yield f"  {subject.metric} of {subject.test}: {_ratio_text(estimate)}"
        return
    assert verdict.candidates is not None
    assert now.subject is not None
    found = verdict.candidates
    named = _range_text(question, found.first, found.last)
    if verdict.kind is VerdictKind.FOUND:
        yield f"{named} brought it in (probability {found.mass:.1%})."
        yield _again(question, events, now.subject, verdict)
    elif verdict.kind is VerdictKind.RANGE:
        yield f"One of {found.last - found.first + 1} versions brought it in, {named} (probability {found.mass:.1%})."
        yield _why_range(question, events, verdict)
    else:
        name = question.versions[verdict.between[0]]
        yield f"There is more than one change: {name} lies between the ends."
        yield (
            f"Bisect on either side of it: --good {question.versions[0]} --bad {name}, and --good {name} --bad "
            f"{question.versions[-1]}."
        )
    yield _ends(question, events, now)
    yield from _same_instructions(question, events, now.subject)


def _same_instructions(question: Question, events: Sequence[Event], subject: BisectionSubject) -> Iterator[str]:
    """For a bisection by rates: how instructions differ between the ends, if they were counted."""
    if subject.metric is None or subject.virtual:
        return
    counted = [each for each in events if isinstance(each, VersionComparison) and each.virtual]
    for same in dict.fromkeys(figure.subject for each in counted for figure in each.figures):
        estimate = estimates(counted, same).get(question.bad)
        if estimate is not None:
            fewer = math.expm1(estimate.value) <= -SMALLEST_INSTRUCTIONS
            instructions = (
                f"{'Fewer' if fewer else 'Same'} instructions a packet, {_ratio_text(estimate)} ({same.test})"
            )
            yield f"{instructions}, {'and yet ' if fewer else ''}slower: caches, layout, contention."


def _again(question: Question, events: Sequence[Event], subject: BisectionSubject, verdict: BisectionVerdict) -> str:
    culprit = verdict.candidates.first if verdict.candidates else 0
    parent, name = question.versions[culprit - 1], question.versions[culprit]
    again = ""
    if subject.metric is None:
        ran = runs(events, subject.test, again=True)
        if culprit in ran:
            before, since = ran.get(culprit - 1, Runs()), ran[culprit]
            again = f"failed in {since.failed} of {since.count} runs, the parent in {before.failed} of {before.count}"
    elif (estimate := estimates(events, subject, again=True).get(culprit)) is not None:
        again = _ratio_text(estimate)
    if not again:
        return f"It could not be measured again against its parent {parent}: treat it with caution."
    against = f"Measured again against its parent {parent}: {again}."
    if verdict.confirmed:
        return f"{against} Confirmed."
    if verdict.confirmed is None:
        return f"{against} That is neither the whole change nor none: there may be another one, or too much noise."
    return (
        f"{against} That DISAGREES: {name} is not shown to be worse than its parent. Bisect again with more confidence."
    )


def _why_range(question: Question, events: Sequence[Event], verdict: BisectionVerdict) -> str:
    assert verdict.candidates is not None
    inside = range(verdict.candidates.first, verdict.candidates.last)
    cannot = [question.versions[version] for version in sorted(unusable(events)) if version in inside]
    if not cannot:
        return "Noise does not let it be narrowed: repeat on a quieter machine, or raise --most-blocks."
    more = f" and {len(cannot) - _MOST_NAMED} more" if len(cannot) > _MOST_NAMED else ""
    return f"It cannot be narrowed: {', '.join(cannot[:_MOST_NAMED])}{more} cannot be used."


def _ends(question: Question, events: Sequence[Event], now: BisectionState) -> str:
    assert now.subject is not None
    good, bad = question.versions[0], question.versions[-1]
    if isinstance(now.evidence, Levels):
        change = _ratio_text(now.evidence.change)
        return f"The ends, {bad} over {good}: {now.subject.metric} {change} ({now.subject.test})."
    ran = runs(events, now.subject.test)
    failed = [f"{name} in {ran[at].failed} of {ran[at].count}" for at, name in ((0, good), (question.bad, bad))]
    return f"{now.subject.test} failed on {' and on '.join(failed)} runs."


def bisection_chart(question: Question, events: Sequence[Event], now: BisectionState) -> list[View]:
    """What was measured of each version, and the chances of each; ``now.subject`` is known."""
    x = vega.names("x", "", question.versions)
    if isinstance(now.evidence, Levels):
        above = _ratios(x, question, events, now.evidence)
    else:
        above = _failures(x, question, events, now)
    y = vega.number("y", "probability, %", reach=(0, 100))
    rows = [
        {"x": version, "y": chance * 100, "hover": f"{version}: {chance:.1%}"}
        for version, chance in zip(question.versions[1:], now.chances, strict=True)
    ]
    return [above, vega.panel("The change came in with this version", vega.bars(x, y, rows, vega.ORANGE))]


def _skipped(question: Question, events: Sequence[Event], y: float) -> list[Row]:
    return [{"series": _CANNOT, "x": question.versions[at], "y": y} for at in sorted(unusable(events))]


def _ratios(x: View, question: Question, events: Sequence[Event], evidence: Levels) -> View:
    measured: Mapping[int, Estimate] = {**evidence.measured, question.bad: evidence.change}
    rows = _skipped(question, events, 100)
    rows.append({"series": "good end", "x": question.versions[0], "y": 100})
    for at in sorted(measured):
        ratio, low, high = (end * 100 for end in measured[at].interval())
        hover = f"{question.versions[at]}: {ratio:.2f} % ({low:.2f} .. {high:.2f} %)"
        mark = {"series": _MEASURED, "x": question.versions[at], "y": ratio}
        rows.append(mark | {"low": low, "high": high, "hover": hover})
    y = vega.number("y", f"% of {question.versions[0]}")
    levels = [(100, "", _LEVEL), (evidence.change.interval()[0] * 100, "", _LEVEL)]
    looks = {_MEASURED: Look(vega.BLUE, "circle"), "good end": Look(vega.BLUE, "square")} | _CANNOT_LOOK
    return vega.panel("Each version against the good end", vega.rules(y, levels), vega.series(x, y, rows, looks))


def _failures(x: View, question: Question, events: Sequence[Event], now: BisectionState) -> View:
    test = now.subject.test if now.subject else ""
    rows = _skipped(question, events, 0)
    for at, ran in sorted(runs(events, test).items()):
        mark = {"series": "runs that failed", "x": question.versions[at], "y": 100 * ran.failed / ran.count}
        rows.append(mark | {"label": f"{ran.failed}/{ran.count}"})
    looks = {"runs that failed": Look(vega.BLUE, "circle")} | _CANNOT_LOOK
    y = vega.number("y", "failed runs, %", reach=(0, 100))
    return vega.panel(f"{test} on each version", vega.series(x, y, rows, looks))
