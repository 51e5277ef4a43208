"""Studies: one figure on several subjects, measured in interleaved rounds in one test.

Each reading has a topology that is built anew: what differs from build to build, such as where memory comes
to lie, is then within the samples; a study that built once would take it for a difference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pytest_nfvperf.model.measure.comparison import bands_note, relative, slope
from pytest_nfvperf.model.measure.offloading import OffloadShare, worst_share
from pytest_nfvperf.model.measure.outcome import Outcome
from pytest_nfvperf.model.measure.profile import Profile, estimate_search_s
from pytest_nfvperf.model.samples import Relative, Samples, Slope
from pytest_nfvperf.model.testbed.testbed import TESTBEDS_OWN, Dut
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.runs.forwarding import ForwardingRate
from pytest_nfvperf.runs.interleave import LOOK_CONFIDENCE, Reading, Rounds, interleaved
from pytest_nfvperf.runs.mirroring import MirrorCost, MirrorLoad
from pytest_nfvperf.runs.offload_share import share_after
from pytest_nfvperf.runs.rig import LiveTopology
from pytest_nfvperf.runs.search import LimitsOf, Search
from pytest_nfvperf.runs.soak_load import ndr_to_share
from pytest_nfvperf.runs.stream_runner import StreamRunner, TcpThroughput, tcp_spec
from pytest_nfvperf.runs.trials import Context


@dataclass(frozen=True, slots=True)
class Subject:
    """One of those compared: its value of the label that they differ in, and where it is measured."""

    value: str
    topology: Topology
    dut: Dut = TESTBEDS_OWN


class SubjectDeployer(Protocol):
    """Builds a topology anew and deploys it."""

    def check(self, topology: Topology, dut: Dut) -> None:
        """Whatever ends the test where a subject cannot be measured here; called for all before the first reading."""
        ...

    def __call__(self, topology: Topology, dut: Dut, *, quiet: bool) -> LiveTopology:
        """``quiet``: leave its configuration out of the evidence, which has it already."""
        ...


class Figure(Protocol):
    """What is measured of each subject."""

    @property
    def name(self) -> str:
        """The outcome's algorithm."""
        ...

    @property
    def units(self) -> Mapping[str, str]:
        """Base unit of each metric that a reading can have."""
        ...

    @property
    def reading_s(self) -> float:
        """How long a reading usually takes, beside building its topology."""
        ...

    def read(self, live: LiveTopology, remaining_s: float | None) -> Reading:
        """One reading; InvalidTrialsError when the rig spoiled it."""
        ...

    def labels(self, live: LiveTopology) -> dict[str, str]:
        """What is really measured there."""
        ...

    def facts(self) -> dict[str, Any]:
        """Fields of the Outcome that do not depend on the subject."""
        ...


Decided = Callable[[Outcome], bool]
"""True when more repeats would not change what the SLA makes of an outcome."""

_TOPOLOGY_CHANGE_S = 0.2


@dataclass(slots=True)
class _Collected:
    """What is known of one subject.

    ``trials``: ids of all its trials, warm-ups and spoiled ones too. ``shares``: where flows were, after each reading.
    """

    labels: dict[str, str] = field(default_factory=dict)
    trials: list[str] = field(default_factory=list)
    shares: list[OffloadShare] = field(default_factory=list)


class Study:
    """Comparisons of one test.

    Args:
        profile: repeats, durations and budget.
        labels: what identifies the test in SLAs and reports.
        deploy: deploys a topology.
        limits_of: the rig's ceiling and the line rate for a traffic.
        streams: makes what runs streams, when it is needed.
        decided: whether the SLA's verdict on an outcome is carried.
        context: evidence and time.
    """

    def __init__(
        self,
        profile: Profile,
        labels: Mapping[str, str],
        deploy: SubjectDeployer,
        limits_of: LimitsOf,
        streams: Callable[[], StreamRunner],
        decided: Decided,
        context: Context,
    ) -> None:
        self.profile = profile
        self.labels = dict(labels)
        self._deploy = deploy
        self._limits_of = limits_of
        self._streams = streams
        self._decided = decided
        self._context = context

    def forwarding_rate(self, per: str, subjects: Sequence[Subject], traffic: Traffic) -> tuple[Outcome, ...]:
        """Forwarding rate at maximum offered load (RFC 2285), and PMD cycles a packet, of each subject.

        Args:
            per: the label that they differ in, such as "bridges".
            subjects: the baseline first.
            traffic: what is sent.
        """
        return self.compare(per, subjects, ForwardingRate(traffic, self.profile, self._limits_of))

    def mirror_cost(
        self, per: str, subjects: Sequence[Subject], traffic: Traffic, load: MirrorLoad
    ) -> tuple[Outcome, ...]:
        """Forwarding rate with and without mirrors, and how complete they are, of each subject.

        Args:
            per: the label that the subjects differ in, such as "mirror".
            subjects: the baseline first, without mirrors.
            traffic: what is sent.
            load: at which completeness is read; at maximum offered load it is, too.
        """
        return self.compare(per, subjects, MirrorCost(traffic, self.profile, self._limits_of, load, self._find_ndr))

    def _find_ndr(self, live: LiveTopology, traffic: Traffic) -> float:
        search = Search(self.profile, self.labels, self._limits_of, lambda of: estimate_search_s(of, of.goals))
        return ndr_to_share(live, traffic, search, "give a rate, or a share of the forwarding rate")

    def tcp_throughput(self, per: str, subjects: Sequence[Subject], streams: int = 1) -> tuple[Outcome, ...]:
        """Goodput of parallel TCP streams between the first and the last namespace, and the CPUs it took.

        Args:
            per: the label that the subjects differ in, such as "bridges".
            subjects: the baseline first.
            streams: in parallel, all one way.
        """
        runner = self._streams()
        return self.compare(per, subjects, TcpThroughput(runner, self.profile, tcp_spec(self.profile, streams)))

    def compare(self, per: str, subjects: Sequence[Subject], figure: Figure) -> tuple[Outcome, ...]:
        """Measure a figure on all subjects in interleaved rounds.

        At least the profile's ``comparison_repeats`` rounds; more, at planned looks, while the SLA's verdict
        is not carried and the profile's ``comparison_budget_s`` lasts.

        Returns:
            An outcome a subject, already in the evidence; the last one has the slopes.

        Raises:
            InvalidTrialsError: the rig spoiled too many readings.
        """
        for subject in subjects:
            self._deploy.check(subject.topology, subject.dut)
        clock = self._context.clock
        started = clock.monotonic()
        collected = [_Collected() for _ in subjects]

        def read(number: int, round_number: int, left: int) -> Reading:
            subject, known = subjects[number], self._runs()
            live = self._deploy(subject.topology, subject.dut, quiet=round_number > 0)
            collected[number].labels = figure.labels(live)
            try:
                reading = figure.read(live, left * (figure.reading_s + _TOPOLOGY_CHANGE_S))
                if share := share_after(live, self.labels):
                    collected[number].shares.append(share)
                return reading
            finally:
                collected[number].trials += [run for run in self._runs() if run not in known]

        def outcomes(readings: Sequence[Sequence[Reading]]) -> tuple[Outcome, ...]:
            facts = {**figure.facts(), "algorithm": figure.name, "elapsed_s": clock.monotonic() - started}
            return tuple(
                Outcome(
                    labels=self._labels({**known.labels, per: subject.value}),
                    trials=tuple(known.trials),
                    offload=worst_share(known.shares),
                    **facts,
                    **found,
                )
                for subject, known, found in zip(
                    subjects, collected, _found(per, subjects, figure.units, readings), strict=True
                )
            )

        readings = interleaved(
            len(subjects),
            read,
            Rounds(self.profile.comparison_repeats, self.profile.comparison_budget_s),
            enough=lambda so_far: all(self._decided(outcome) for outcome in outcomes(so_far)),
            elapsed_s=lambda: clock.monotonic() - started,
        )
        made = outcomes(readings)
        for outcome in made:
            self._context.recorder.emit(outcome)
        return made

    def _runs(self) -> dict[str, None]:
        """Ids of all trials and runs of streams so far, in order."""
        return dict.fromkeys([*self._context.trials, *self._context.streams])

    def _labels(self, measured: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
        """What was measured wins over what a test says of itself, but for the name of its topology."""
        own = {name: self.labels[name] for name in ("topology",) if name in self.labels}
        return tuple(sorted({**self.labels, **measured, **own}.items()))


def _found(
    per: str, subjects: Sequence[Subject], units: Mapping[str, str], readings: Sequence[Sequence[Reading]]
) -> list[dict[str, Any]]:
    """Samples, ratios, slopes and notes of each subject, as the Outcome's fields."""
    samples = [_samples(units, own) for own in readings]
    baseline = ((per, subjects[0].value),)
    ratios = [_relatives(own, samples[0], baseline) if number else () for number, own in enumerate(samples)]
    slopes = _slopes(per, subjects, units, samples)
    notes = [tuple(filter(None, (bands_note(each) for each in own[:1]))) for own in samples]
    return [
        {
            "samples": samples[number],
            "relatives": ratios[number],
            "slopes": slopes if number == len(subjects) - 1 else (),
            "notes": notes[number],
        }
        for number in range(len(subjects))
    ]


def _samples(units: Mapping[str, str], readings: Sequence[Reading]) -> tuple[Samples, ...]:
    found = []
    for metric, unit in units.items():
        with_it = [reading for reading in readings if metric in reading.values]
        if with_it:
            low = next((reading.at_least[metric] for reading in with_it if reading.at_least.get(metric)), "")
            high = next((reading.at_most[metric] for reading in with_it if reading.at_most.get(metric)), "")
            values = tuple(reading.values[metric] for reading in with_it)
            found.append(Samples(metric, unit, values, tuple(reading.evidence for reading in with_it), low, high))
    return tuple(found)


def _relatives(
    own: Sequence[Samples], baseline: Sequence[Samples], differing: tuple[tuple[str, str], ...]
) -> tuple[Relative, ...]:
    by_metric = {samples.metric: samples for samples in baseline}
    found = (
        relative(samples, by_metric[samples.metric], differing, LOOK_CONFIDENCE)
        for samples in own
        if samples.metric in by_metric
    )
    return tuple(ratio for ratio in found if ratio is not None)


def _slopes(
    per: str, subjects: Sequence[Subject], units: Mapping[str, str], samples: Sequence[Sequence[Samples]]
) -> tuple[Slope, ...]:
    """One a metric; none where the label counts nothing."""
    if not all(subject.value.isdigit() for subject in subjects):
        return ()
    found = []
    for metric in units:
        series = [
            (float(subject.value), each)
            for subject, own in zip(subjects, samples, strict=True)
            for each in own
            if each.metric == metric
        ]
        found.append(slope(series, per, LOOK_CONFIDENCE))
    return tuple(each for each in found if each is not None)
