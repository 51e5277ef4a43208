"""Floods: frames that begin new flows, what they do to a victim's established flows, and how long a DUT recovers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated

from pytest_nfvperf.measure.call_arguments import DurationS, Live, OneTraffic, WholeLoad, check_live
from pytest_nfvperf.measure.limits import Limits, LoadRange
from pytest_nfvperf.measure.load_series import short_of_load
from pytest_nfvperf.measure.measurer import WARM_UP, LoadLimits, LoadMeasurer
from pytest_nfvperf.measure.rig import LiveTopology, trial_spec
from pytest_nfvperf.measure.search import Search, measured_at
from pytest_nfvperf.measure.search_algorithms import MLRSEARCH, mlr_search
from pytest_nfvperf.measure.trials import Trial, repeat_until_valid
from pytest_nfvperf.model.arguments import checked, number, whole
from pytest_nfvperf.model.display import format_fps, format_seconds
from pytest_nfvperf.model.disturbance.trial import COUNTS_HOLD, TrialResult, attributed_intervals
from pytest_nfvperf.model.errors import ArgumentError
from pytest_nfvperf.model.evidence.records import AttachmentData
from pytest_nfvperf.model.figure import Figure, Why, exact
from pytest_nfvperf.model.measure.bounds import SearchedGoal
from pytest_nfvperf.model.measure.outcome import Outcome
from pytest_nfvperf.model.measure.soak_series import TIME, SoakTable
from pytest_nfvperf.model.traffic.histogram import TrialProgress
from pytest_nfvperf.model.traffic.mix import AnyTraffic, TrafficMix
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import TrialSpec

VICTIM, ATTACKER = "victim", "attacker"
SAMPLE_S = 0.1
"""Time between samples. One takes a millisecond of a CPU, which the generator may share."""

_QUIET_S = 1.0
"""How long the victim is watched before the flood, and how long it may take to send each of its flows once."""

_SLOWER, _FEW_FLOWS, _IN_A_ROW = 2.0, 5, 3
"""The latency is as before up to so many times the largest p99 of a sample before the flood; megaflows are up to so
many more, since some come and go by themselves, such as those of neighbour discovery. The DUT has recovered when all is
as before in so many samples: queues may empty and fill again."""

START_LIMIT = 10_000
"""Megaflows that OVS allows when it starts (ofproto-dpif-upcall.c); each quick dump adds 1,000."""

_LEAST_NEW_FPS, _MOSTLY_NEW = 10_000, 0.5
"""New flows a second that any machine takes; share of a warm-up's frames that must begin one. A warm-up that is far
above the DUT's rate may repeat headers."""

_LOST, _P99, _MEGAFLOWS = "lost", "p99_ns", "megaflows"
_SLOW_PATH = (_MEGAFLOWS, "flow_limit", "dump_ms", "revalidators", "memory_MiB")


def forget_flows(live: LiveTopology, flow_limit: int = START_LIMIT) -> None:
    """Remove the datapath's megaflows, and set their limit. UnavailableError where there is no OVS."""
    live.deployment.built.ovs("appctl", "upcall/set-flow-limit", str(flow_limit))
    live.deployment.built.ovs("appctl", "revalidator/purge")


def _upcalls(trial: Trial) -> int | None:
    """Frames of a trial for which the datapath had no flow; None if it does not count them."""
    changes = {change.name: change.delta for change in (trial.ledger.deltas if trial.ledger is not None else ())}
    counted = changes.get("pmd.upcalls_ok", 0) + changes.get("pmd.upcalls_failed", 0)
    return counted if "pmd.packets_received" in changes else None


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
        if most_fps < _LEAST_NEW_FPS:
            raise ArgumentError(
                f"flood.new_flow_rate(): the traffic has {traffic.combinations:,} different headers, which repeat "
                f"within a trial of {longest_s:g} s above {most_fps:,.0f} frames/s: vary more values of its fields"
            )

        def find(measurer: LoadMeasurer, limits: LoadLimits) -> tuple[SearchedGoal, ...]:
            upcalls, received = _upcalls(measurer.trials[0]), measurer.trials[0].result.received  # of the warm-up
            if upcalls is not None and upcalls < _MOSTLY_NEW * received:
                raise ArgumentError(
                    f"flood.new_flow_rate(): {upcalls:,} of {received:,} frames began a flow: one megaflow holds many; "
                    "let the bridge read what varies, such as by rules(bridge, by_address=True)"
                )
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
        victim_fps: Annotated[int, whole(1000, unit="frames per second and direction, for a p99 of each sample")],
        attacker_fps: WholeLoad,
        flood_s: DurationS = 1.0,
        recovery_s: Annotated[float, number(SAMPLE_S * (_IN_A_ROW + 1), unit="seconds")] = 3.0,
        flow_limit: Annotated[int, whole(1000, unit="megaflows")] = START_LIMIT,
    ) -> Outcome:
        """Flood a DUT beside a victim, and watch it recover.

        Three trials, before each of which megaflows are removed and the victim's flows established: the victim alone;
        both for ``flood_s``, for loss and latency; both, after which the victim goes on for ``recovery_s``.

        ``victim``, ``attacker``: sent as classes of these names, both in the victim's directions, at so many frames/s
        per direction. ``flow_limit``: of megaflows, as each trial begins: a DUT that was quiet for some minutes has its
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
        flooded, found = measured_at(measurer, flood_s, load_fps, "flood")
        spec = replace(measurer.spec(flood_s + recovery_s, load_fps, "recovery"), ends=(ATTACKER, flood_s))
        recovering, after = _watch(live, spec, establish)
        measurer.trials += [quiet, recovering]
        found["figures"] += (_outage(flooded), *recovery_figures(recovering, before, after))
        return self._done(loads, "flood", **found, notes=tuple(_notes(flooded, before, after)))

    def _start(self, call: str, live: LiveTopology, traffic: AnyTraffic, limits: Limits | None = None) -> LoadRange:
        if live.topology.nodes:
            raise ArgumentError(f"{call}(): new flows are measured on one OVS, and {live.name!r} has nodes")
        loads = super()._start(call, live, traffic, limits)
        loads.measurer.before = partial(forget_flows, live)
        return loads


def _time_to_establish(victim: Traffic, victim_fps: int, warmup_s: float) -> float:
    """How long the victim must send so that each of its flows has; ArgumentError for one that is too slow."""
    seconds = max(warmup_s, 1.1 * victim.combinations / victim_fps)
    if seconds > max(_QUIET_S, warmup_s):
        raise ArgumentError(
            f"flood.run(): a victim of {victim.combinations:,} flows takes {format_seconds(seconds)} at "
            f"{format_fps(victim_fps)} to send each once: give it fewer flows, or a higher victim_fps"
        )
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
                row = {TIME: interval.at_ns / 1e9, _LOST: now.lost - last.lost, **live.deployment.built.slow_path()}
                if now.latency is not None and now.latency.samples:
                    row[_P99] = now.latency.p99_ns
                if not len(table) or row[TIME] > table.column(TIME)[-1]:  # all that is left may come at the same time
                    table.add(row)
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

    trial = repeat_until_valid(measure, live.runner.repeats, live.runner.context.time_limit, lambda _: COUNTS_HOLD)
    lines = [table.columns, *zip(*map(table.column, table.columns), strict=True)]
    text = "".join(f"{','.join(map(str, line))}\n" for line in lines)
    live.runner.recorder.emit(AttachmentData(f"samples of {trial.id}, {spec.purpose}", "text/csv", text=text))
    return trial, table


def recovery_figures(trial: Trial, before: SoakTable, after: SoakTable) -> Iterator[Figure]:
    """Yield when a victim and the number of megaflows were as before; ``after``: from the begin of the flood on.

    What the machine may have lost, and a latency that it may have caused, only widen the interval.
    """
    rows, (_, flood_s) = range(len(after)), trial.result.spec.ends or (ATTACKER, 0.0)
    own = attributed_intervals(trial.result, map(after.times_s, rows))
    lost, p99_ns, flows = map(after.column, (_LOST, _P99, _MEGAFLOWS))
    slow_ns = _SLOWER * max(_known(before, _P99), default=math.inf)
    good = [lost[row] <= 0 and not p99_ns[row] > slow_ns for row in rows]
    bad = [lost[row] > 0 and (row not in own or own[row].lost > 0) for row in rows]
    yield _recovery("recovery", VICTIM, trial, [after.times_s(row)[0] - flood_s for row in rows], good, bad)
    if _known(after, _MEGAFLOWS):  # they are counted at the end of each sample
        usual = max(_known(before, _MEGAFLOWS)) + _FEW_FLOWS
        many = [not count <= usual for count in flows]
        at_s = [end_s - flood_s for end_s in after.column(TIME)]
        yield _recovery("megaflow_recovery", "", trial, at_s, [not each for each in many], many)


def _recovery(
    metric: str, of_class: str, trial: Trial, at_s: Sequence[float], good: Sequence[bool], bad: Sequence[bool]
) -> Figure:
    """``at_s``: of samples, since the end of the flood. Neither ``good`` nor ``bad``: maybe not as before."""
    begins = (row for row, since_s in enumerate(at_s) if since_s >= 0 and sum(good[row : row + _IN_A_ROW]) == _IN_A_ROW)
    end = next(begins, len(at_s))
    low = max([0.0, *(at_s[row] for row in range(end) if bad[row])])
    value, seen = at_s[end] if end < len(at_s) else low, f"by samples of {SAMPLE_S:g} s"
    figure = Figure(metric, value, "s", low, value, of_class=of_class, confidence=seen, evidence=(trial.id,))
    if end == len(at_s):
        figure = figure.bounded(Why.ENDED_EARLY, high=True, detail="not until the trial ended")
    # Nobody knows what a DUT does at a load that the generator did not offer.
    short = short_of_load(trial.result)
    return figure.bounded(Why.SHORT, high=True, detail=short) if short else figure


def _known(table: SoakTable, name: str) -> list[float]:
    return [value for value in table.column(name) if not math.isnan(value)]


def _outage(trial: Trial) -> Figure:
    """The longest time for which none of the victim's frames arrived; at most, if the machine may have caused it."""
    lossy = (counts.arrivals for counts in trial.result.of_class(VICTIM).counts if counts.lost > 0)
    longest_s = max((each.outage_ns / 1e9 for each in lossy if each is not None), default=0.0)
    figure = exact("outage_time", longest_s, "s", of_class=VICTIM, evidence=(trial.id,))
    _, _, why = trial.result.judgement.loss_of_class(VICTIM, trial.certain_drops)
    figure = figure if why is None or not longest_s else figure.bounded(Why.WHOSE_LOSS, low=True, detail=why)
    short = short_of_load(trial.result)
    return figure.bounded(Why.SHORT, high=True, detail=short) if short else figure


def _notes(flooded: Trial, before: SoakTable, after: SoakTable) -> Iterator[str]:
    """Yield ``megaflows 102 before, 110 to 12,000 in the trial, 104 at its end``, and the like, of what is counted."""
    for name in _SLOW_PATH:
        if (early := _known(before, name)) and (late := _known(after, name)):
            first, least, most, last = (f"{value:,.10g}" for value in (early[-1], min(late), max(late), late[-1]))
            yield f"{name.replace('_', ' ')} {first} before, {least} to {most} in the trial, {last} at its end"
    if (upcalls := _upcalls(flooded)) is not None:
        yield f"{upcalls:,} upcalls for {flooded.result.sent:,} frames in {flooded.id}"
