"""The token bucket's formula against a slow simulation of one, frame by frame, on machines that pause.

A limiter that does what it says never fails, whatever the machine does; one that does not is found, with the figure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pytest_nfvperf.model.disturbance.trial import TrialResult
from pytest_nfvperf.model.disturbance.windows import ThreadWindows, Windows, WitnessWindows
from pytest_nfvperf.model.figure import Figure, Why
from pytest_nfvperf.model.measure.outcome import Outcome
from pytest_nfvperf.model.measure.token_bucket import Admission, admission, limiter_figures, limiter_passes
from pytest_nfvperf.model.sla.verdict import Judgement
from pytest_nfvperf.model.topology.limiters import Limiter, egress_policer, meter, policer, trtcm
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import Direction, RigHealth, TrialSpec
from tests.examples import examples
from tests.sample_trials import counts_of
from tests.unit.test_never_wrong import judged

DIRECTION = Direction("p0", "p1")
WINDOW_NS = 5_000_000
FULL = 1600
CALM, PAUSED, SKIPPED = "calm", "the DUT's CPU is away", "the generator is away"
PARTLY = "the DUT's CPU is away from the middle of the window on, and back early in the next one"


@dataclass
class Bucket:
    """One of the DUT: full, with a clock that counts steps."""

    rate: int
    burst: int
    step_ns: int
    tokens: int = field(init=False)
    seen_ns: int = 0

    def __post_init__(self) -> None:
        self.tokens = self.burst * 10**9

    def passes(self, at_ns: int, cost: int) -> bool:
        now = at_ns - at_ns % self.step_ns
        self.tokens = min(self.burst * 10**9, self.tokens + self.rate * max(0, now - self.seen_ns))
        self.seen_ns = max(self.seen_ns, now)
        if self.tokens < cost * 10**9:
            return False
        self.tokens -= cost * 10**9
        return True


Cost = Callable[[Limiter, int], int]


def as_documented(limiter: Limiter, size: int) -> int:
    return limiter.tokens(1, size)


def simulated(
    limiter: Limiter,
    states: Sequence[str],
    fps: int,
    sizes: Sequence[int] = (64,),
    *,
    slower: float = 1.0,
    cost: Cost = as_documented,
    start_ns: int = 0,
) -> TrialResult:
    """A trial of so many windows; in a pause frames wait, or are skipped. ``slower``: share of its rate that passes."""
    step_ns = 1_000_000 if limiter.kind == "meter" else 1
    buckets = [Bucket(round(rate * slower), burst, step_ns) for rate, burst in limiter.buckets]
    for bucket in buckets:
        bucket.seen_ns = start_ns - start_ns % step_ns
    together = any if limiter.kind == "trtcm-policer" else all
    sent, skipped, received = ([0] * len(states) for _ in range(3))
    bytes_of = {"sent": 0, "received": 0}
    for number in range(fps * len(states) * WINDOW_NS // 10**9):
        due_ns = number * 10**9 // fps
        at = min(due_ns // WINDOW_NS, len(states) - 1)
        if states[at] is SKIPPED:
            skipped[at] += 1
            continue
        size = sizes[number % len(sizes)]
        sent[at] += 1
        bytes_of["sent"] += size
        while at < len(states) and (
            states[at] is PAUSED or (states[at] is PARTLY and 2 * (due_ns % WINDOW_NS) > WINDOW_NS)
        ):
            at += 1
            due_ns = at * WINDOW_NS
        takes = (bucket.passes(start_ns + due_ns, cost(limiter, size)) for bucket in buckets)
        if together(takes if limiter.kind == "trtcm-policer" else list(takes)):
            received[min(at, len(states) - 1)] += 1
            bytes_of["received"] += size
    zeros = (0,) * len(states)
    full = (FULL,) * len(states)
    absent = tuple(WINDOW_NS if state is SKIPPED else 0 for state in states)
    thread = ThreadWindows(zeros, tuple(sent), zeros, tuple(skipped), tuple(received), zeros, absent, full)
    waited = tuple({PAUSED: WINDOW_NS, PARTLY: WINDOW_NS // 2}.get(state, 0) for state in states)
    witness = WitnessWindows(1, zeros, full, waited)
    counts = counts_of(DIRECTION, sent=sum(sent), received=sum(received), skipped=sum(skipped))
    counts = replace(counts, sent_bytes=bytes_of["sent"], received_bytes=bytes_of["received"])
    duration_s = len(states) * WINDOW_NS / 1e9
    spec = TrialSpec(Traffic(frame_size=64), fps, duration_s, (DIRECTION,), window_s=WINDOW_NS / 1e9)
    return TrialResult(spec, (counts,), RigHealth(), windows=Windows(WINDOW_NS, (thread,), (witness,), FULL))


def admitted(limiter: Limiter, result: TrialResult, sizes: Sequence[int] = (64,), elsewhere: int = 0) -> Admission:
    dropped = result.sent - result.received - elsewhere
    return admission(limiter, result, result.counts, dropped, max(sizes))


def figures(
    limiter: Limiter,
    short: Sequence[str],
    long: Sequence[str],
    fps: int = 20_000,
    sizes: Sequence[int] = (64,),
    *,
    slower: float = 1.0,
    cost: Cost = as_documented,
    dut: Limiter | None = None,
) -> dict[str, Figure]:
    """Of two trials; ``dut``: the limiter that there really is."""
    trials = (
        simulated(dut or limiter, states, fps, sizes, slower=slower, cost=cost, start_ns=begin)
        for states, begin in ((short, 300_000), (long, 7_123_456))
    )
    one, other = (admitted(limiter, trial, sizes) for trial in trials)
    return {figure.metric: figure for figure in limiter_figures(limiter, one, other, str(limiter))}


def verdict(found: dict[str, Figure], metric: str, least: str, most: str) -> Judgement:
    outcome = Outcome((), "limiter", 64.0, 1, figures=(found[metric],))
    return judged(outcome, metric, f'[">= {least}", "<= {most}"]')


SHORT, LONG = [CALM] * 40, [CALM] * 240
IMIX = (64, 64, 64, 64, 64, 64, 64, 594, 594, 594, 594, 1518)
LIMITERS = (
    meter("br0", "p0", kbps=2000, burst=400),
    meter("br0", "p0", kbps=2000, burst=3),  # 1.5 ms: a pause loses what comes meanwhile
    meter("br0", "p0", pktps=4000, burst=500),
    meter("br0", "p0", kbps=2000, burst=400, more=((4000, 40),)),
    policer("p0", kbps=1600, burst=200),
    egress_policer("p1", cir=200_000, cbs=20_000),
    trtcm("p1", (100_000, 20_000), (100_000, 10_000)),
)
STATES = st.lists(st.sampled_from([CALM] * 9 + [PAUSED, PARTLY, SKIPPED]), min_size=30, max_size=60)


@settings(max_examples=examples(300), deadline=None)
@example(LIMITERS[3], [CALM] * 30, (64,), 20_000)  # the band that decides at first is not the slowest one
@example(LIMITERS[4], [CALM] * 31, (64,), 8000)  # the last frame comes before the last tokens
@given(st.sampled_from(LIMITERS), STATES, st.sampled_from([(64,), IMIX]), st.sampled_from([3000, 8000, 20_000]))
def test_what_passes_is_within_the_formula(
    limiter: Limiter, states: list[str], sizes: tuple[int, ...], fps: int
) -> None:
    if min(burst for _, burst in limiter.buckets) < limiter.tokens(1, max(sizes)):
        sizes = (64,)
    found = admitted(limiter, simulated(limiter, states, fps, sizes), sizes)
    fluid, least, most = found.expected
    assert least <= found.passed[0] <= most
    assert least <= fluid <= most
    if set(states) == {CALM}:
        assert not found.disturbed


@settings(max_examples=examples(100), deadline=None)
@given(st.sampled_from(LIMITERS), STATES, STATES)
def test_a_right_limiter_never_fails(limiter: Limiter, first: list[str], second: list[str]) -> None:
    """10 of 10, on a machine that pauses generator and DUT."""
    found = figures(limiter, [*first, *SHORT], [*second, *LONG])
    limits = {"rate_error": ("-1 %", "1 %"), "burst_accepted": ("95 %", "105 %")}
    for metric, (least, most) in limits.items() if "burst_accepted" in found else [*limits.items()][:1]:
        assert verdict(found, metric, least, most) is not Judgement.FAIL, found


@pytest.mark.parametrize("limiter", LIMITERS, ids=str)
def test_on_a_quiet_machine_it_passes_and_one_at_nine_tenths_fails(limiter: Limiter) -> None:
    right = figures(limiter, SHORT, LONG)
    assert verdict(right, "rate_error", "-2 %", "2 %") is Judgement.PASS, right
    assert right["rate_error"].why == ()
    slow = figures(limiter, SHORT, LONG, slower=0.9)["rate_error"]
    assert slow.value == pytest.approx(-0.1, abs=0.01)
    assert verdict({"rate_error": slow}, "rate_error", "-1 %", "1 %") is Judgement.FAIL
    assert slow.high is not None
    assert slow.low is not None
    assert slow.low <= -0.1 <= slow.high


def test_nine_tenths_are_found_beside_pauses() -> None:
    noisy = [PAUSED, *[CALM] * 30, SKIPPED, *[CALM] * 30] * 3
    found = figures(LIMITERS[0], noisy, [*noisy, *LONG], slower=0.9)["rate_error"]
    assert (found.value, found.why) == (pytest.approx(-0.1, abs=0.01), (Why.WHOSE_LOSS,))
    assert verdict({"rate_error": found}, "rate_error", "-1 %", "1 %") is Judgement.FAIL


def twice_if_small(limiter: Limiter, size: int) -> int:
    return as_documented(limiter, size) * (2 if size < 128 else 1)


def payload(limiter: Limiter, size: int) -> int:
    return 8 * (size - 18)


@pytest.mark.parametrize(
    ("cost", "sizes", "error"),
    [
        (twice_if_small, (64,), -0.5),
        (twice_if_small, (512,), 0.0),
        (payload, (64,), 60 / 46 - 1),  # the bytes of IP, where frames are to be counted
        (payload, (512,), 508 / 494 - 1),
    ],
)
def test_bytes_counted_otherwise_are_an_error_of_the_rate(cost: Cost, sizes: tuple[int, ...], error: float) -> None:
    found = figures(LIMITERS[0], SHORT, LONG, sizes=sizes, cost=cost)["rate_error"]
    assert found.value == pytest.approx(error, abs=0.01)
    assert "in bits of frames without FCS" in found.confidence
    wanted = Judgement.FAIL if error else Judgement.PASS
    assert verdict({"rate_error": found}, "rate_error", "-1 %", "1 %") is wanted


@pytest.mark.parametrize(("burst", "share"), [(400, 1.0), (200, 0.5), (50, 0.125), (800, 2.0)])
def test_another_burst_is_no_error_of_the_rate(burst: int, share: float) -> None:
    dut = meter("br0", "p0", kbps=2000, burst=burst)
    found = figures(LIMITERS[0], SHORT * 2, [*SHORT * 2, *LONG], dut=dut)
    assert found["burst_accepted"].value == pytest.approx(share, abs=0.01)
    assert found["rate_error"].value == pytest.approx(0, abs=0.01)
    judgement = Judgement.PASS if share == 1 else Judgement.FAIL
    assert verdict(found, "burst_accepted", "98 %", "102 %") is judgement


def test_a_meter_that_never_fills_again_fails() -> None:
    """Its burst is less than a millisecond of its rate, so that OVS caps each interval at 0 ms."""
    stated = meter("br0", "p0", kbps=2000, burst=1)
    found = figures(stated, SHORT, LONG, slower=0.0)["rate_error"]
    assert (found.value, found.low) == (-1, -1)
    assert verdict({"rate_error": found}, "rate_error", "-1 %", "1 %") is Judgement.FAIL


def test_what_was_lost_elsewhere_may_have_passed() -> None:
    limiter = LIMITERS[0]
    trial = simulated(limiter, SHORT, 20_000)
    found = admitted(limiter, trial, elsewhere=7)
    assert found.passed[1] - found.passed[0] == 7 * limiter.tokens(1, 64) * 10**9
    assert found.disturbed
    assert not admitted(limiter, trial).disturbed


def test_a_load_within_the_rate_shows_nothing_of_it() -> None:
    assert not admitted(LIMITERS[0], simulated(LIMITERS[0], SHORT, 3000)).overloaded
    assert admitted(LIMITERS[0], simulated(LIMITERS[0], SHORT, 20_000)).overloaded


def test_of_what_comes_at_once_a_bucket_passes_its_burst_at_least() -> None:
    lump = [(10**9, 100 * 10**9, 10**9)]
    limiter = meter("br0", "p0", pktps=50, burst=10)
    assert limiter_passes(limiter, lump) == 60 * 10**9
    assert limiter_passes(limiter, lump, least=True) == 10 * 10**9


@pytest.mark.parametrize(
    ("limiter", "buckets"),
    [
        (meter("br0", "p0", kbps=2000), ((2_000_000, 2_000_000),)),
        (meter("br0", "p0", pktps=7), ((7, 7),)),
        (policer("p0", 1000), ((1_000_000, 8_000_000),)),
        (egress_policer("p0", 1000, 500), ((8000, 4000),)),
    ],
)
def test_what_ovs_takes_where_no_burst_is_given(limiter: Limiter, buckets: object) -> None:
    assert limiter.buckets == buckets
