"""Loss that is dated: what was lost while the machine disturbed nothing is the DUT's own."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytest_nfvperf.model.disturbance.policy import POLICY
from pytest_nfvperf.model.disturbance.windows import (
    MOST_LISTED,
    WindowState,
    disturbances,
    lost_by_window,
    reaching,
    select_windows,
)
from tests.unit.test_windows import ALONE, SHARED, windows


def test_frames_refused_while_the_core_was_shared_are_none_of_the_duts() -> None:
    speed = [ALONE] * 4 + [SHARED] * 3 + [ALONE] * 3
    refused = [0, 0, 1, 5, 500, 400, 300, 20, 7, 2]
    made = windows([100] * 10, speed=speed, sent=[100] * 10, refused=refused)
    found = select_windows(made, 0.1, lost=sum(refused))
    assert found.windows == 4, "neither one that changed, nor one beside it is known to be"
    assert (found.of, found.offered, found.lost) == (10, 403, 3)
    assert found.doubtful == sum(refused) - 3, "half of the trial was not seen: there the DUT may have begun to lose"


def test_a_disturbance_reaches_into_the_windows_beside_it() -> None:
    alone, paused, absent = WindowState.UNDISTURBED, WindowState.PAUSED, WindowState.ABSENT
    assert reaching([alone, alone, paused, alone, alone, absent]) == (alone, paused, paused, paused, absent, absent)
    assert reaching([paused, alone, absent]) == (paused, paused, absent)
    assert reaching([alone, alone]) == (alone, alone)
    assert reaching([]) == ()


def test_frames_that_the_dut_dropped_are_dated_by_the_next_that_came() -> None:
    missing = [0, 0, 7, 0, -2, 0]
    made = windows([100] * 6, sent=[100] * 6, missing=missing)
    assert select_windows(made, 0.06, lost=5).lost == 5
    assert lost_by_window(made, 0.06, 5) == missing


def test_frames_that_none_followed_are_those_sent_last() -> None:
    made = windows([100, 100, 40, 0], sent=[100] * 4)
    assert lost_by_window(made, 0.04, 160) == [0, 0, 60, 100]


def test_what_came_after_the_last_window_belongs_to_it() -> None:
    made = windows([100] * 4 + [50], sent=[100] * 4 + [0], missing=[0, 0, 0, 3, 4])
    assert lost_by_window(made, 0.04, 7) == [0, 0, 0, 7]


@given(
    st.lists(
        st.tuples(st.integers(0, 1000), st.integers(0, 50), st.integers(0, 50), st.booleans()), min_size=1, max_size=40
    ),
    st.integers(0, 500),
)
def test_no_lost_frame_is_forgotten(rows: list[tuple[int, int, int, bool]], unfollowed: int) -> None:
    sent, refused, missing, shared = (list(column) for column in zip(*rows, strict=True))
    unfollowed = min(unfollowed, sum(sent))
    lost = sum(refused) + sum(missing) + unfollowed
    speed = [SHARED if each else ALONE for each in shared]
    made = windows([0] * len(rows), speed=speed, sent=sent, refused=refused, missing=missing)
    duration_s = len(rows) * 0.01
    assert sum(lost_by_window(made, duration_s, lost)) == lost
    found = select_windows(made, duration_s, lost)
    listed = disturbances(made, duration_s, lost)
    if len(listed) < MOST_LISTED:
        assert found.lost + sum(each.lost for each in listed) == lost
        assert found.windows + sum(round(each.length_s / 0.01) for each in listed) == len(rows)


def test_disturbances_tell_when_and_what() -> None:
    witness = [ALONE] * 4 + [SHARED] * 3 + [ALONE] * 3
    made = windows([100] * 4 + [60] * 3 + [100] * 3, witness, sent=[100] * 10, refused=[0] * 5 + [30, 40] + [0] * 3)
    changed, shared, back = disturbances(made, 0.1, 70)
    assert (changed.state, changed.start_s) == (WindowState.CHANGED, 0.03)
    assert (shared.state, shared.start_s, shared.length_s, shared.lost) == (WindowState.DUT_SHARED, 0.05, 0.02, 70)
    assert shared.received_fps == 6000
    assert back.state is WindowState.CHANGED


def test_too_few_windows_are_not_enough() -> None:
    few = windows([1] * (POLICY.windows_for_a_loss - 1), sent=[1] * (POLICY.windows_for_a_loss - 1))
    assert not select_windows(few, 1.0, 0).enough
    one_more = windows([1] * POLICY.windows_for_a_loss, sent=[1] * POLICY.windows_for_a_loss)
    assert select_windows(one_more, 1.0, 0).enough
    mostly_shared = [ALONE] * 11 + [SHARED] * 91
    assert not select_windows(windows([1] * 102, speed=mostly_shared, sent=[1] * 102), 2.0, 0).enough


def test_skipped_frames_are_due_and_not_offered() -> None:
    made = windows([90] * 10, sent=[90] * 10, skipped=[10] * 10)
    found = select_windows(made, 0.1, 0)
    assert found.skipped_ratio == 0.1
    assert found.loss_ratio == 0
