"""How subjects are called, from their labels, and the studies among outcomes: subjects measured in the same rounds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pytest_nfvperf.model.display import MISSING, format_ns, format_ratio, format_value, visible
from pytest_nfvperf.model.measure.cpu_account import LABEL, SHARED, SHORT_TURNS
from pytest_nfvperf.model.measure.cpu_profile import TIME, VIRTUAL
from pytest_nfvperf.model.measure.outcome import Outcome, unique_notes
from pytest_nfvperf.model.metrics import metric_of
from pytest_nfvperf.model.sla.verdict import Verdict
from pytest_nfvperf.model.statistics import Relative, Samples, Slope, median_interval

COMMON_VALUES = {"flows": "1", "direction": "bidirectional"}
"""Most tests have these values, so names leave them out."""

_OF_THE_RUN = frozenset({"suite", "profile", "datapath", "engine"})
_FIRST = ("test", "topology", "frame_size", "flows", "direction")
USERSPACE = frozenset({"dpdk", "netdev"})
USERSPACE_VETH = (
    "In OVS's userspace datapaths (dpdk, netdev) a veth end is an af_packet port, which vswitchd reads and writes by "
    "system calls; the kernel datapath, which S2 measured in 2014, passes frames inside the kernel."
)
OPEN = "open"
OPEN_INTERVAL = (
    f'"{OPEN}": these readings bound the ratio neither from below nor from above, since they are too few or only '
    "bounds themselves (≥, ≤). Such a ratio has no bar in the chart, and decides no requirement."
)
OR_MORE, OR_LESS = "or more", "or less"
ONE_SIDED = (
    f'"{OR_MORE}", "{OR_LESS}" (in the chart ≥, ≤): these readings bound the ratio from one side only, since the rig '
    "ended some of them before the DUT did."
)
_AT_LEAST = "The nodes share CPUs: rates are at least those shown, times and cycles at most. They take turns of "
SHARED_CPUS = _AT_LEAST + "milliseconds, so a ratio says less than on CPUs of their own."
SHORT_CPU_TURNS = _AT_LEAST + "0.3 ms, which the rings between them hold, so a ratio says what frames cost."
_BROUGHT_ALONG = frozenset({"tuning", "datapath", "topology"})
"""Labels that a subject sets by itself: subjects of one study may differ in them, too, as in tuning by ``queues``."""
Labels = tuple[tuple[str, str], ...]
_Subject = tuple[str, str | None, bool, Labels]
"""A label, its value, whether the others are complete, and the others."""


def title(labels: Mapping[str, str]) -> str:
    """``ndr_pdr · phy2phy · 64 B · 1,000 flows``, without what a whole run has in common."""
    first = [name for name in _FIRST if name in labels and labels[name] != COMMON_VALUES.get(name)]
    parts = [_part(name, labels[name]) for name in first]
    parts += [_part(name, value) for name, value in labels.items() if name not in _FIRST and name not in _OF_THE_RUN]
    return " · ".join(part for part in parts if part)


def name_of_test(labels: Mapping[str, str]) -> str:
    """The test's name without ``test_``; the suite's where there is none."""
    return labels["test"].removeprefix("test_") if "test" in labels else labels.get("suite", "-")


def differing(subjects: Sequence[Mapping[str, str]]) -> frozenset[str]:
    """Names of labels in which subjects differ, or that only some of them have."""
    values: dict[str, set[str]] = {}
    carriers = Counter[str]()
    for labels in subjects:
        carriers.update(labels.keys())
        for name, value in labels.items():
            values.setdefault(name, set()).add(value)
    return frozenset(name for name, seen in values.items() if len(seen) > 1 or carriers[name] < len(subjects))


def distinctions(labels: Mapping[str, str], different: Collection[str]) -> list[str]:
    """Labels of ``different`` that have no column of their own: ``["1,000 flows", "link=patch"]``."""
    columns = {"suite", "test", "topology", "frame_size"}
    return [
        _part(name, value)
        for name, value in labels.items()
        if name not in columns and name in different and value != COMMON_VALUES.get(name)
    ]


def subject_of(verdict: Verdict, of_test: Iterable[Verdict]) -> str:
    """``bridges=9``: what a verdict is about, if the verdicts of its test are about several subjects; else ""."""
    subjects = [dict(one.subject) for one in of_test]
    return " ".join(distinctions(dict(verdict.subject), differing(subjects)))


def _part(name: str, value: str) -> str:
    value = visible(value)
    if name == "test":
        return value.removeprefix("test_")
    if name == "frame_size":
        return f"{value} B" if value.isdigit() else value
    if name == "flows":
        return f"{int(value):,} flows" if value.isdigit() else f"{value} flows"
    return value if name in {"topology", "direction"} else f"{name}={value}"


@dataclass(frozen=True, slots=True)
class StudyOutcomes:
    """Outcomes of a study, the baseline first. ``per``: the label in which they differ; ``labels``: the others."""

    per: str
    outcomes: tuple[Outcome, ...]
    labels: Labels

    @property
    def main(self) -> str:
        return self.outcomes[0].samples[0].metric

    @property
    def name(self) -> str:
        """What sets it apart: ``tcp_chain · 4 streams · link=veth · netdev``."""
        label = dict(self.labels)
        shown = {name: value for name, value in label.items() if name not in {"topology", "flows", "direction"}}
        return f"{title(shown)} · {label.get('datapath', MISSING)}"

    @property
    def slopes(self) -> tuple[Slope, ...]:
        return self.outcomes[-1].slopes


def distinct_names(comparisons: Sequence[StudyOutcomes]) -> tuple[str, list[str]]:
    """What the comparisons have in common, for their chart's title, and what sets each apart, for its legend."""
    names = [one.name.split(" · ") for one in comparisons]
    common = [part for part in names[0] if all(part in name for name in names)]
    return " · ".join(common), [" · ".join(part for part in name if part not in common) for name in names]


def subject_notes(comparison: StudyOutcomes) -> list[str]:
    """Notes on its subjects, each once, with the subjects it concerns unless it concerns all."""
    notes = unique_notes(comparison.outcomes, comparison.per)
    return [f"{comparison.per} {values}: {note}" if values else note for note, values in notes]


def notes_below(comparisons: Sequence[StudyOutcomes]) -> list[str]:
    """Notes on several comparisons, each once. Counted instructions do not depend on who shares a CPU."""
    by_the_clock = [labels for labels in map(dict, (one.labels for one in comparisons)) if labels.get(TIME) != VIRTUAL]
    shared = {labels.get(LABEL) for labels in by_the_clock}
    ratios = [outcome.relative(one.main) for one in comparisons for outcome in one.outcomes]
    marks = {open_mark(ratio) for ratio in ratios if ratio is not None}
    of_veth = [one for one in comparisons if ("link", "veth") in one.labels or one.main == "tcp_throughput"]
    applies = {
        OPEN_INTERVAL: OPEN in marks,
        ONE_SIDED: bool(marks & {"≥", "≤"}),
        USERSPACE_VETH: any(dict(one.labels).get("datapath") in USERSPACE for one in of_veth),
        SHARED_CPUS: SHARED in shared,
        SHORT_CPU_TURNS: SHORT_TURNS in shared,
    }
    return [note for note, it_does in applies.items() if it_does]


def find_comparisons(outcomes: Sequence[Outcome]) -> list[StudyOutcomes]:
    """Groups of sampled outcomes that differ in one label, in the order they were measured.

    Subjects that bring labels of their own along are a group, too, where no baseline has the same.
    """
    pers = {name for outcome in outcomes for ratio in outcome.relatives for name, _ in ratio.baseline}
    by_subject: dict[_Subject, Outcome] = {}
    for outcome in outcomes:
        for per in pers if outcome.samples else ():
            for subject in _subjects(outcome, per, outcome.label.get(per)):
                by_subject.setdefault(subject, outcome)
    groups: dict[tuple[str, Labels], list[Outcome]] = {}
    for outcome in outcomes:
        for per, value in dict(pair for ratio in outcome.relatives for pair in ratio.baseline).items():
            baseline = next((by_subject[key] for key in _subjects(outcome, per, value) if key in by_subject), None)
            labels = _others(outcome if baseline is None else baseline, per)
            groups.setdefault((per, labels), [] if baseline is None else [baseline]).append(outcome)
    studies = []
    for (per, labels), members in groups.items():
        common = tuple(pair for pair in labels if all(pair in member.labels for member in members))
        studies.append(StudyOutcomes(per, tuple(members), common))
    return studies


def _subjects(outcome: Outcome, per: str, value: str | None) -> tuple[_Subject, _Subject]:
    """Keys of an outcome if ``per`` had this value: by all other labels, and without those it brings along."""
    return (per, value, True, _others(outcome, per)), (per, value, False, _others(outcome, per, *_BROUGHT_ALONG))


def _others(outcome: Outcome, *names: str) -> Labels:
    return tuple(pair for pair in outcome.labels if pair[0] not in names)


def median_text(samples: Samples) -> str:
    """``5.64 Mpps``, with ``≥`` or ``≤`` if it is a bound. If one reading decides the metric, the worst one."""
    if samples.by_worst:
        return f"{worst_share_text(samples)} (worst)"
    return samples.bound.mark + format_value(samples.median, samples.unit)


def spread_text(samples: Samples) -> str:
    """The interval of the median: ``5.55 Mpps .. 5.70 Mpps``."""
    found = median_interval(samples.values)
    return f"{format_value(found.low, samples.unit)} .. {format_value(found.high, samples.unit)}"


def ratio_text(ratio: Relative | None) -> str:
    return MISSING if ratio is None else percent(ratio.ratio)


def interval_text(ratio: Relative | None) -> str:
    """``97.1 .. 99.6 %``; an open end in words."""
    if ratio is None:
        return MISSING
    mark = open_mark(ratio)
    if mark == OPEN:
        return OPEN
    if ratio.high is None:
        return f"{percent(ratio.low)} {OR_MORE}"
    if mark:
        return f"{percent(ratio.high)} {OR_LESS}"
    return f"{percent(ratio.low)[:-2]} .. {percent(ratio.high)}"


def open_mark(ratio: Relative) -> str:
    """``≥`` or ``≤`` if its interval has one end only, OPEN if it has none; else ""."""
    if ratio.high is None:
        return OPEN if ratio.low <= 0 else "≥"
    return "≤" if ratio.low <= 0 < ratio.ratio else ""


def whiskers(ratio: Relative) -> tuple[float, float]:
    """How far its interval reaches below and above, in per cent of the baseline; 0 if it has no end there."""
    mark = open_mark(ratio)
    below = 0.0 if mark in {OPEN, "≤"} else ratio.ratio - ratio.low
    return below * 100, ((ratio.high or ratio.ratio) - ratio.ratio) * 100


def has_open(outcome: Outcome) -> bool:
    return any(open_mark(ratio) == OPEN for ratio in outcome.relatives)


def percent(ratio: float) -> str:
    """One decimal: no study resolves more."""
    return f"{ratio * 100:.1f} %"


def worst_share_text(samples: Samples) -> str:
    """``99.370 %``: as many digits as show that it is not 100 %."""
    worst = samples.figure
    return f"{worst:.3%}" if worst == 1.0 or round(worst, 5) != 1.0 else f"{worst:.6%}"


def cores_text(outcome: Outcome) -> str:
    """``0.06 + 0.15 + 0.82``: sender, receiver and datapath; a dash without streams."""
    found = [outcome.sampled(f"{side}_cores") for side in ("sender", "receiver", "datapath")]
    shown = [f"{samples.median:.2f}" for samples in found if samples is not None]
    return " + ".join(shown) or MISSING


def subject_name(outcome: Outcome) -> str:
    """``bridges 4``: what sets it apart in its study."""
    if outcome.relatives:
        names = [name for name, _ in outcome.relatives[0].baseline]
        return ", ".join(f"{name} {outcome.label[name]}" for name in names)
    return "baseline" if "bridges" not in outcome.label else f"bridges {outcome.label['bridges']} (baseline)"


def singular(per: str) -> str:
    return per.removesuffix("s")


def slope_text(slope: Slope) -> str:
    """``-0.29 % (-0.65 .. -0.02 %), +0.26 ns`` for each added one."""
    share, low, high = (f"{value * 100:+.2f}" for value in (slope.share, slope.share_low, slope.share_high))
    if slope.unit not in {"ns", "cycles"}:
        return f"{share} % ({low} .. {high} %)"
    size = abs(slope.value)
    absolute = format_ns(size) if slope.unit == "ns" else f"{size:,.{0 if size >= 100 else 2}f} {slope.unit}"
    return f"{share} % ({low} .. {high} %), {'-' if slope.value < 0 else '+'}{absolute}"


def slope_line(comparison: StudyOutcomes) -> str:
    """Slopes of the main metric and of time and cycles per packet, in one line; "" without."""
    wanted = {comparison.main, "packet_time", "cycles_per_packet"}
    parts = [
        f"{metric_of(slope.metric).title} {slope_text(slope)}" for slope in comparison.slopes if slope.metric in wanted
    ]
    level = format_ratio(round(comparison.slopes[0].confidence, 3)) if comparison.slopes else ""
    return f"each added {singular(comparison.per)}: {'; '.join(parts)} (interval at {level})" if parts else ""
