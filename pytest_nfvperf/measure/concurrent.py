"""Concurrent connections (RFC 3511 section 5.1): how many a DUT has open at once, of which each one can be closed.

A trial opens connections at a rate that the DUT takes, holds all of them, lets the DUT count them, and closes each.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from pytest_nfvperf.measure.rig import LiveTopology, trial_spec
from pytest_nfvperf.measure.trials import InvalidTrialsError, Trial
from pytest_nfvperf.model.display import format_value
from pytest_nfvperf.model.disturbance.trial import TrialResult
from pytest_nfvperf.model.disturbance.validity import generator_reasons
from pytest_nfvperf.model.errors import ArgumentError, DutFailure, OutOfTimeError
from pytest_nfvperf.model.figure import Figure, Why, exact
from pytest_nfvperf.model.traffic.conversation_frames import ConversationFrames
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import TrialSpec

CONCURRENT, MEMORY = "concurrent_connections", "memory_per_connection"

_WIDTH = 0.01
"""Bounds this close end a search, as a ratio of the number."""
_LEAST_SHARE = 0.001
"""Of the most connections: a search goes no lower."""
_GUESSES = 2
"""Of failed trials in a row whose own completed connections are tried next. Then the search bisects."""

_MOST_TRIALS = 16

_PAUSE_S, _PAUSE_EACH_S = 2.0, 2e-6
"""From the last opening to the first closing: OVS reads 1,000,000 connections in 0.3 s, and some have two zones."""
_ANSWERED_S, _INTERVAL_S = 0.1, 0.5
_RESIDENT = "vswitchd.rss"
_FEWEST_FOR_MEMORY = 10_000
"""Of 1,000 the memory is lost in what a process grows by anyway."""


@dataclass(frozen=True, slots=True)
class HeldTrial:
    """A trial whose connections were all open at once.

    Attributes:
        goal: the ratio of them that may fail.
        tracked: how many the DUT counted while they were open; None where it does not count, or was too late.
        memory: of the DUT's process before, and while they were open, bytes; None where nobody can tell.
    """

    trial: Trial
    goal: float
    tracked: int | None
    memory: tuple[float, float] | None

    @property
    def opened(self) -> int:
        """How many were open at once, or should have been: all but those that the generator left out."""
        return sum(count.steps[0].sent + count.steps[0].refused for count in self.trial.result.counts)

    @property
    def completed(self) -> int:
        """Those that did not fail."""
        return self.opened - self.trial.result.lost

    @property
    def passed(self) -> bool:
        judgement = self.trial.result.judgement
        return judgement.counts_hold and self.opened > 0 and self.trial.result.lost <= self.goal * self.opened

    @property
    def refuted(self) -> bool:
        """True if it proves that the DUT does not have so many: not the machine, but the DUT lost them."""
        return self.trial.result.judgement.loss(self.trial.certain_drops).least > self.goal

    @property
    def full(self) -> bool:
        """True if the DUT's table was full: its own flows dropped the rest, and it had those that did not fail."""
        return not self.goal and self.tracked == self.completed > 0 and self.trial.lost_by_flows()

    def text(self) -> str:
        result = self.trial.result
        counted = "" if self.tracked is None else f", and the DUT counted {self.tracked:,}"
        done = f"{result.lost:,} failed" if result.lost else "all were answered and closed"
        return f"of {self.opened:,} opened{counted}, {done}"


@dataclass(slots=True)
class ConcurrentSearch:
    """Searches the most connections of which no more than ``goal`` fail.

    Attributes:
        rate: connections opened a second.
        trials: all that were measured, in order.
        passed, failed: those with the most connections that passed, and with the fewest that failed.
        guesses: numbers in a row that were those which came to their end in a failed trial.
        why: why the search ended early.
    """

    live: LiveTopology
    conversation: Traffic
    rate: int
    most: int
    goal: float
    residual_s: float
    trials: list[HeldTrial] = field(default_factory=list)
    passed: HeldTrial | None = None
    failed: HeldTrial | None = None
    guesses: int = 0
    why: str = ""

    def run(self) -> None:
        """Try the most; after a failure what came to its end then; then a little more. Bisect where that fails.

        InvalidTrialsError if the rig disturbed every trial at a number, and none passed.
        """
        number: int | None = self.most
        while number is not None:
            try:
                held = self._measured(number)
            except OutOfTimeError as error:
                if self.passed is None:
                    raise
                self.why = str(error)
                return
            if held.full:
                self.passed = self.failed = held
                return
            if not held.passed:
                self.failed = held if self.failed is None else min(self.failed, held, key=lambda each: each.opened)
            elif self.passed is None or held.opened > self.passed.opened:
                self.passed = held
            number = self._next()
        if self.passed is None and self.failed is not None and not self.failed.refuted:
            raise InvalidTrialsError([self.failed.trial])

    def _next(self) -> int | None:
        if self.failed is None:
            return None
        if len(self.trials) >= _MOST_TRIALS:
            self.why = f"ended after {_MOST_TRIALS} trials"
            return None
        high, low = self.failed.opened, 0 if self.passed is None else self.passed.opened
        least = max(1, int(self.most * _LEAST_SHARE))
        if high - low <= max(1, high * _WIDTH) or high <= least:
            return None
        if self.guesses and self.trials[-1] is self.passed:  # probably all that it has
            self.guesses = 0
            return min(high - 1, max(low + 1, int(low * (1 + _WIDTH))))
        guess = int(self.failed.completed / max(1 - self.goal, 1e-9))
        if max(low, least) < guess < high and self.guesses < _GUESSES:
            self.guesses += 1
            return guess
        return max(least, low + 1, (low + high) // 2)

    def _measured(self, number: int) -> HeldTrial:
        """A trial that passed, or that shows the DUT's own failure; else the last of the repeats.

        A repeat has so many more connections as the generator left out of the last one.
        """
        due = number
        for _ in range(1 + self.live.runner.repeats):
            held = self._held(due)
            if held.passed:
                _check_agrees(held)
            enough = held.passed and held.opened >= (1 - _WIDTH) * number
            if enough or held.refuted or not self.live.runner.context.time_limit.spare_s:
                break
            due = min(2 * number, self.conversation.combinations, number * due // max(1, held.opened))
        return held

    def _held(self, due: int) -> HeldTrial:
        opening_s = (due + 0.5) / self.rate  # so that rounding makes it no connection less
        traffic = held_for(self.conversation, opening_s + _PAUSE_S + due * _PAUSE_EACH_S)
        spec = trial_spec(self.live, traffic, self.rate, opening_s, "concurrent", residual_s=self.residual_s)
        watched: dict[str, Any] = {}
        trial = self.live.runner.run_once(spec, execute=lambda spec: self._watched(spec, watched), anywhere=True)
        held = HeldTrial(trial, self.goal, watched.get("tracked"), watched.get("memory"))
        self.trials.append(held)
        return held

    def _watched(self, spec: TrialSpec, watched: dict[str, Any]) -> TrialResult:
        """Run the trial, and let the DUT count its connections while all are open."""
        before = _resident(self.live)
        clock, answered_s = self.live.runner.clock, spec.duration_s + _ANSWERED_S
        running = self.live.runner.generator.start_trial(spec, _INTERVAL_S)
        try:
            while (interval := running.next_interval()) is not None:
                at_s = interval.at_ns / 1e9
                if watched or not answered_s <= at_s < spec.traffic.hold_s:
                    continue
                began = clock.monotonic()
                counts, now = self.live.connections(), _resident(self.live)
                in_time = at_s + clock.monotonic() - began < spec.traffic.hold_s
                watched["tracked"] = max(counts.values()) if counts and in_time else None
                watched["memory"] = (before, now) if before is not None and now is not None else None
                self.live.deployment.check_alive()
        except BaseException:
            running.abandon()
            raise
        result = running.result()
        return replace(result, invalid=(*result.invalid, *generator_reasons(result)))

    # What it found.

    def figures(self) -> Iterator[Figure]:
        found, failed = self.passed, self.failed
        if found is None:
            assert failed is not None
            below = exact(CONCURRENT, float(failed.opened), "connections", evidence=(failed.trial.id,))
            yield replace(below, confidence=failed.text()).bounded(Why.MINIMUM, low=True, detail="fewer were not tried")
        else:
            rests_on = "; ".join(dict.fromkeys(each.text() for each in (found, failed) if each is not None))
            value = found.completed if found.full else found.opened
            figure = exact(CONCURRENT, float(value), "connections", confidence=rests_on)
            figure = replace(figure, evidence=(found.trial.id,))
            for why, detail in self._why_at_least():
                figure = figure.bounded(why, high=True, detail=detail)
            yield figure
        yield from self._memory()

    def _why_at_least(self) -> Iterator[tuple[Why, str]]:
        if self.why:
            yield Why.UNTRIED, self.why
        elif self.failed is None:
            yield Why.UNTRIED, f"no more than {self.most:,} were tried"
        elif not (self.failed.refuted or self.failed.full):
            yield Why.DISTURBED, f"the machine disturbed {self.failed.trial.id}: {self.failed.text()}"

    def _memory(self) -> Iterator[Figure]:
        """Of the first trial: later ones use memory that the DUT kept."""
        first = self.trials[0]
        number = first.completed if first.tracked is None else first.tracked
        if first.memory is None or number < _FEWEST_FOR_MEMORY or first.memory[1] <= first.memory[0]:
            return
        before, held = (format_value(value, "bytes") for value in first.memory)
        grown = f"ovs-vswitchd had {before} before, and {held} with {number:,} connections"
        value = (first.memory[1] - first.memory[0]) / number
        yield exact(MEMORY, value, "bytes", confidence=grown, evidence=(first.trial.id,))

    def missing(self) -> dict[str, str]:
        return (
            {} if any(self._memory()) else {MEMORY: "the DUT's memory did not grow, few were open, or nobody can tell"}
        )


def _check_agrees(held: HeldTrial) -> None:
    """DutFailure if the DUT did not have the connections that were all answered and closed."""
    opened = sum(count.steps[0].sent for count in held.trial.result.counts)
    if held.tracked is not None and not held.completed <= held.tracked <= opened:
        raise DutFailure(
            f"the DUT counted {held.tracked:,} connections while {held.completed:,} of {opened:,} were open "
            f"({held.trial.id})"
        )


def _resident(live: LiveTopology) -> float | None:
    """Memory of the DUT's processes, bytes; None where nobody can tell."""
    gauges = [sampler.read().gauges for sampler in live.deployment.samplers]
    found = [value for each in gauges for name, value in each.items() if name.endswith(_RESIDENT)]
    return sum(found) if found else None


def held_for(conversation: Traffic, hold_s: float) -> Traffic:
    assert isinstance(conversation.packet, ConversationFrames)
    return replace(conversation, packet=replace(conversation.packet, hold_s=hold_s))


def check_concurrent(call: str, conversation: Traffic, most: int, rate: int) -> None:
    """ArgumentError for a conversation that cannot be held, or has not so many addresses and ports."""
    frames = conversation.packet
    if not isinstance(frames, ConversationFrames) or frames.protocol != "tcp" or frames.close == "none":
        raise ArgumentError(f"{call}() closes what it opened: write Conversation.tcp(), with close 'fin' or 'rst'")
    if frames.hold_s:
        raise ArgumentError(f"{call}() holds connections as long as it needs: leave hold_s out")
    held_for(conversation, most / rate)
    if most > frames.combinations:
        clients = math.ceil(most / len(frames.ports))
        raise ArgumentError(
            f"{call}(): most={most:,} connections need as many addresses and ports, and the conversation has "
            f"{frames.combinations:,}: write clients={clients}"
        )
