"""Floods: frames that begin new flows, what they do to a victim's established flows, and how long a DUT recovers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Annotated

from pytest_nfvperf.measure.call_arguments import DurationS, Live, OneTraffic, WholeLoad, check_live
from pytest_nfvperf.measure.limits import Limits, LoadRange
from pytest_nfvperf.measure.load_series import latency_point, loss_of_trial, short_of_load
from pytest_nfvperf.measure.measurer import WARM_UP, LoadLimits, LoadMeasurer
from pytest_nfvperf.measure.rig import LiveTopology, trial_spec
from pytest_nfvperf.measure.search import MLRSEARCH, Search, mlr_search
from pytest_nfvperf.measure.trials import InvalidTrialsError, Trial, repeat_until_valid
from pytest_nfvperf.model.arguments import checked, number, whole
from pytest_nfvperf.model.display import format_fps, format_seconds
from pytest_nfvperf.model.disturbance.trial import Reason, TrialResult, attributed_intervals
from pytest_nfvperf.model.errors import ArgumentError
from pytest_nfvperf.model.evidence.records import AttachmentData
from pytest_nfvperf.model.figure import Figure, Why, exact
from pytest_nfvperf.model.measure.bounds import SearchedGoal, latency_figures, latency_missing
from pytest_nfvperf.model.measure.outcome import Outcome
from pytest_nfvperf.model.measure.soak_series import TIME, SoakTable
from pytest_nfvperf.model.traffic.histogram import IntervalCounts, TrialProgress
from pytest_nfvperf.model.traffic.mix import AnyTraffic, TrafficMix
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import TrialSpec

VICTIM, ATTACKER = "victim", "attacker"
SAMPLE_S = 0.1
"""Time between samples. One takes a millisecond of a CPU, which the generator may share."""

_QUIET_S = 1.0
"""How long the victim is watched before the flood, and how long it may take to send each of its flows once."""

_AS_BEFORE = 2.0
"""Up to so many times the largest p99 of a sample before the flood, the latency is as before."""

_IN_A_ROW = 3
"""Samples in which all is as before, until the DUT has recovered: queues may empty and fill again."""

_FEW_FLOWS = 5
"""Megaflows that come and go by themselves, such as those of neighbour discovery."""

_FEWEST_FRAMES = 100
"""The victim's, in a sample: fewer have no 99th percentile."""

START_LIMIT = 10_000
"""Megaflows that OVS allows when it starts (ofproto-dpif-upcall.c); each quick dump adds 1,000."""

LEAST_NEW_FLOWS = 10_000
"""New flows a second that any machine takes."""

MOSTLY_NEW = 0.5
"""Least share of a warm-up's frames that must begin a flow. One that is far above the DUT's rate may repeat headers."""

_LOST, _P99, _MEGAFLOWS = "lost", "p99_ns", "megaflows"
_SLOW_PATH = (_MEGAFLOWS, "flow_limit", "dump_ms", "revalidators", "rss_bytes")


def forget_flows(live: LiveTopology, flow_limit: int = START_LIMIT) -> None:
    """Remove the datapath's megaflows, and set their limit. UnavailableError where there is no OVS."""
    live.deployment.built.ovs("appctl", "upcall/set-flow-limit", str(flow_limit))
    live.deployment.built.ovs("appctl", "revalidator/purge")


def _upcalls(trial: Trial) -> int | None:
    """Frames of a trial for which the datapath had no flow; None if it does not count them."""
    changes = {} if trial.ledger is None else {change.name: change.delta for change in trial.ledger.deltas}
    ends = (changes.get(f"pmd.upcalls_{end}", 0) for end in ("ok", "failed"))
    return sum(ends) if "pmd.packets_received" in changes else None


class Floods(Search):
    """The fixture ``flood``: new flows and floods of one test."""

    @checked("flood.new_flow_rate")
    def new_flow_rate(self, live: Live, traffic: OneTraffic) -> Outcome:
        """The highest load without loss of frames that each begin a flow, by MLRsearch, confirmed.

        The datapath's megaflows are removed before each trial. ArgumentError for a traffic that repeats its headers
        within a trial, or of which one megaflow holds many flows; UnavailableError where there is no OVS.
        """
        longest_s = max(self.profile.confirmation_s, self.profile.final_trial_s)
        most_fps = traffic.combinations / longest_s
        if most_fps < LEAST_NEW_FLOWS:
            raise ArgumentError(
                f"flood.new_flow_rate(): the traffic has {traffic.combinations:,} different headers, which repeat "
                f"within a trial of {longest_s:g} s above {most_fps:,.0f} frames/s: vary more values of its fields"
            )

        def find(measurer: LoadMeasurer, limits: LoadLimits) -> tuple[SearchedGoal, ...]:
            _refuse_old_flows(measurer.trials[0])
            maximum_fps = min(limits.maximum_fps, most_fps)
            most = LoadLimits(min(limits.minimum_fps, maximum_fps / 2), maximum_fps)
            return mlr_search(measurer, [replace(self.profile.ndr, name="new_flow_rate")], most)

        return self._search("flood.new_flow_rate", live, traffic, MLRSEARCH, find)

    @checked("flood.run")
    def run(
        self,
        live: Live,
        victim: OneTraffic,
        attacker: OneTraffic,
        *,
        victim_fps: WholeLoad,
        attacker_fps: WholeLoad,
        flood_s: DurationS = 1.0,
        recovery_s: Annotated[float, number(SAMPLE_S * (_IN_A_ROW + 1), unit="seconds")] = 3.0,
        flow_limit: Annotated[int, whole(1000, unit="megaflows")] = START_LIMIT,
    ) -> Outcome:
        """Flood a DUT beside a victim, and watch it recover.

        Three trials, before each of which megaflows are removed and the victim's flows established: the victim alone;
        both for ``flood_s``, for loss and latency; both, after which the victim goes on for ``recovery_s``.

        Args:
            live: the topology to measure on.
            victim: sent as class ``victim``.
            attacker: sent as class ``attacker``, in the same directions.
            victim_fps: frames/s per direction.
            attacker_fps: frames/s per direction.
            flood_s: how long the attacker sends.
            recovery_s: how long the victim goes on.
            flow_limit: of megaflows, as each trial begins: a DUT that was quiet for some minutes has its
                ``other_config:flow-limit`` of 200,000.

        InvalidTrialsError if the rig disturbed every trial, and none shows a fault of the DUT. UnavailableError if the
        datapath is no OVS, or the generator reports no counts during a trial.
        """
        attacker = replace(attacker, bidirectional=victim.bidirectional)
        mix = TrafficMix(victim=(victim, "100 %"), attacker=(attacker, f"{attacker_fps} pps"))
        check_live("flood.run", live, mix)
        establish_s, load_fps = _time_to_establish(victim, victim_fps, self.profile.warmup_s), victim_fps + attacker_fps
        loads = self._start("flood.run", live, victim, Limits(None, None))  # an attacker need not be learnt
        measurer, residual_s = loads.measurer, self.profile.search_residual_s

        def establish() -> None:
            forget_flows(live, flow_limit)
            live.runner.run_once(trial_spec(live, victim, victim_fps, establish_s, WARM_UP, residual_s=residual_s))

        measurer.before = establish
        quiet, before = _watch(live, measurer.spec(_QUIET_S, victim_fps, "before a flood"), establish)
        measurer.traffic = loads.traffic = mix
        try:
            flooded = measurer.measure(flood_s, load_fps, "flood")
        except InvalidTrialsError as error:
            flooded = measurer.still_shown(error, Trial.shows_a_fault)
        spec = replace(measurer.spec(flood_s + recovery_s, load_fps, "recovery"), ends=(ATTACKER, flood_s))
        recovering, after = _watch(live, spec, establish)
        measurer.trials += [quiet, recovering]
        return self._flooded(loads, flooded, recovering, before, after)

    def _flooded(
        self, loads: LoadRange, flooded: Trial, recovering: Trial, before: SoakTable, after: SoakTable
    ) -> Outcome:
        for name, table in (("before a flood", before), ("during a flood and after it", after)):
            loads.live.runner.recorder.emit(AttachmentData(f"samples {name}", "text/csv", text=_csv(table)))
        loss, (point, why) = loss_of_trial(flooded), latency_point(format_fps(flooded.result.spec.load_fps), flooded)
        upcalls = _upcalls(flooded)
        counted = "" if upcalls is None else f"{upcalls:,} upcalls for {flooded.result.sent:,} frames in {flooded.id}"
        own = (_outage(flooded), *recovery_figures(recovering, before, after))
        return self._done(
            loads,
            "flood",
            figures=(*loss.figures(), *latency_figures(point), *own),
            missing=loss.missing() | latency_missing(point, why),
            loss_curve=(loss.point,),
            latency=(point,),
            cost=flooded.cost,
            notes=tuple(filter(None, (_slow_path_text(before, after), counted))),
        )

    def _start(self, call: str, live: LiveTopology, traffic: AnyTraffic, limits: Limits | None = None) -> LoadRange:
        if live.topology.nodes:
            raise ArgumentError(f"{call}(): new flows are measured on one OVS, and {live.name!r} has nodes")
        loads = super()._start(call, live, traffic, limits)
        loads.measurer.before = partial(forget_flows, live)
        return loads


def _refuse_old_flows(trial: Trial) -> None:
    """Raise ArgumentError if the frames of a warm-up did not each begin a flow."""
    upcalls, received = _upcalls(trial), trial.result.received
    if upcalls is not None and upcalls < MOSTLY_NEW * received:
        raise ArgumentError(
            f"flood.new_flow_rate(): {upcalls:,} of {received:,} frames began a flow: one megaflow holds many; let the "
            "bridge read what varies, such as by rules(bridge, by_address=True)"
        )


def _time_to_establish(victim: Traffic, victim_fps: int, warmup_s: float) -> float:
    """How long the victim must send so that each of its flows has; ArgumentError for one that is too slow."""
    seconds = max(warmup_s, 1.1 * victim.combinations / victim_fps)
    if seconds > max(_QUIET_S, warmup_s):
        raise ArgumentError(
            f"flood.run(): a victim of {victim.combinations:,} flows takes {format_seconds(seconds)} at "
            f"{format_fps(victim_fps)} to send each once: give it fewer flows, or a higher victim_fps"
        )
    if victim_fps * SAMPLE_S < _FEWEST_FRAMES:
        least = round(_FEWEST_FRAMES / SAMPLE_S)
        raise ArgumentError(f"flood.run(): victim_fps is {victim_fps:,}, too few for samples of 0.1 s: write {least:,}")
    return seconds


def _watch(live: LiveTopology, spec: TrialSpec, establish: Callable[[], None]) -> tuple[Trial, SoakTable]:
    """A trial, and samples of its victim while it runs. Disturbances invalidate samples, not the trial."""
    table = SoakTable((_LOST, _P99, *_SLOW_PATH))

    def execute(spec: TrialSpec) -> TrialResult:
        nonlocal table
        table, last = table.head(0), TrialProgress()
        running = live.runner.generator.start_trial(spec, SAMPLE_S)
        try:
            while (interval := running.next_interval()) is not None:
                now = interval.classes.get(VICTIM) or TrialProgress.summed(interval.directions)
                table.add({**_row(interval, now, last), **live.deployment.built.slow_path()})
                last = now
                live.deployment.check_alive()
        except BaseException:
            running.abandon()
            raise
        result = running.result()
        return replace(result, invalid=tuple(one for one in result.invalid if not one.counts_hold))

    def measure(repeat_of: str | None) -> Trial:
        establish()
        return live.runner.run_once(spec, repeat_of=repeat_of, execute=execute)

    def tolerated(trial: Trial) -> frozenset[Reason]:
        return frozenset(reason.code for reason in trial.result.invalid if reason.counts_hold)

    return repeat_until_valid(measure, live.runner.repeats, live.runner.context.time_limit, tolerated), table


def _row(interval: IntervalCounts, now: TrialProgress, last: TrialProgress) -> dict[str, float]:
    latency = {_P99: now.latency.p99_ns} if now.latency is not None and now.latency.samples else {}
    return {TIME: interval.at_ns / 1e9, _LOST: now.lost - last.lost, **latency}


# What the samples show. Times are since the end of the flood, and bounded by the samples.


def recovery_figures(trial: Trial, before: SoakTable, after: SoakTable) -> Iterator[Figure]:
    """Yield when a victim and the number of megaflows were as before; ``after``: from the begin of the flood on."""
    spec = trial.result.spec
    flood_s = spec.ends[1] if spec.ends is not None else 0.0
    within = [(VICTIM, "recovery", _recovered(trial.result, before, after, flood_s))]
    if (known := _known(before, _MEGAFLOWS)) and _known(after, _MEGAFLOWS):
        usual, flows = max(known) + _FEW_FLOWS, after.column(_MEGAFLOWS)
        more = [row for row in range(len(after)) if not flows[row] <= usual]
        low, end = after.column(TIME)[more[-1]] if more else flood_s, len(after) - 1
        high = None if more and more[-1] == end else after.column(TIME)[more[-1] + 1 if more else 0]
        within.append(("", "megaflow_recovery", (low - flood_s, None if high is None else high - flood_s)))
    for of_class, metric, (low, high) in within:
        seen = f"by samples of {SAMPLE_S:g} s for {format_seconds(spec.duration_s - flood_s)}"
        value = max(0.0, low if high is None else high)
        figure = exact(metric, value, "s", of_class=of_class, confidence=seen, evidence=(trial.id,))
        figure = replace(figure, low=min(value, max(0.0, low)))
        ended = "not until the trial ended"
        figure = figure if high is not None else figure.bounded(Why.ENDED_EARLY, high=True, detail=ended)
        yield _at_least_if_short(figure, trial)


def _at_least_if_short(figure: Figure, trial: Trial) -> Figure:
    """The figure; nobody knows what a DUT does at a load that the generator did not offer."""
    short = short_of_load(trial.result)
    return figure.bounded(Why.SHORT, high=True, detail=short) if short else figure


def _recovered(result: TrialResult, before: SoakTable, after: SoakTable, flood_s: float) -> tuple[float, float | None]:
    """Between when the victim recovered; None: not until the end.

    What the machine may have lost, and a latency that it may have caused, only widen the interval.
    """
    own = attributed_intervals(result, map(after.times_s, range(len(after))))
    most_ns, lost, p99_ns = max(_known(before, _P99), default=math.inf), after.column(_LOST), after.column(_P99)
    low, in_a_row = 0.0, 0
    for row in range(len(after)):
        begin_s, _ = after.times_s(row)
        if begin_s < flood_s:
            continue
        as_before = lost[row] <= 0 and not p99_ns[row] > _AS_BEFORE * most_ns
        in_a_row = in_a_row + 1 if as_before else 0
        if in_a_row == _IN_A_ROW:
            return low, after.times_s(row - _IN_A_ROW + 1)[0] - flood_s
        if lost[row] > 0 and (row not in own or own[row].lost > 0):
            low = begin_s - flood_s
    return low, None


def _known(table: SoakTable, name: str) -> list[float]:
    return [value for value in table.column(name) if not math.isnan(value)]


def _outage(trial: Trial) -> Figure:
    """The longest time for which none of the victim's frames arrived; at most, if the machine may have caused it."""
    lossy = (counts.arrivals for counts in trial.result.of_class(VICTIM).counts if counts.lost > 0)
    longest_s = max((each.outage_ns / 1e9 for each in lossy if each is not None), default=0.0)
    figure = exact("outage_time", longest_s, "s", of_class=VICTIM, evidence=(trial.id,))
    _, _, why = trial.result.judgement.loss_of_class(VICTIM, trial.certain_drops)
    figure = figure if why is None or not longest_s else figure.bounded(Why.WHOSE_LOSS, low=True, detail=why)
    return _at_least_if_short(figure, trial)


def _slow_path_text(before: SoakTable, after: SoakTable) -> str:
    """``megaflows 102 before, 12,000 at most, 104 at the end; memory ...``; "" if nobody counts them."""
    said = []
    for name, column, unit, size in (("megaflows", _MEGAFLOWS, "", 1), ("memory", "rss_bytes", " MiB", 1 << 20)):
        early, late = _known(before, column), _known(after, column)
        if early and late:
            first, most, last = (f"{value / size:,.0f}{unit}" for value in (early[-1], max(late), late[-1]))
            said.append(f"{name} {first} before, {most} at most, {last} at the end")
    for name, column in (("flow limit", "flow_limit"), ("ms of a dump", "dump_ms"), ("revalidators", "revalidators")):
        if known := _known(after, column):
            said.append(f"{name} {min(known):,.0f} .. {max(known):,.0f}")
    return "; ".join(said)


def _csv(table: SoakTable) -> str:
    rows = zip(*map(table.column, table.columns), strict=True)
    shown = ([f"{value:.10g}" if not math.isnan(value) else "" for value in row] for row in rows)
    return "".join(f"{','.join(line)}\n" for line in ([*table.columns], *shown))
