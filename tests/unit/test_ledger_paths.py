"""Paths of frames: every hop conserves, nothing disappears between hops, reasons go where frames are missing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_nfvperf.model.measure.ledger import (
    FramePath,
    Hop,
    HopKind,
    Ledger,
    LedgerLine,
    Loss,
    PathStage,
    attribute,
    frame_path,
    ledger_of,
    ledger_text,
    loss_sort_key,
    spread,
)
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import Direction, TrialSpec

COUNT = st.integers(0, 1 << 50)
LOSSES = st.lists(st.builds(Loss, st.sampled_from(["a", "b", "c"]), COUNT), max_size=3).map(tuple)
STAGE = st.builds(PathStage, st.text("xyz", min_size=1), st.sampled_from(HopKind), st.none() | COUNT, LOSSES)


@st.composite
def paths(draw: st.DrawFn) -> FramePath:
    stages = [*draw(st.lists(STAGE, max_size=6)), PathStage("last", HopKind.GENERATOR, draw(COUNT))]
    return frame_path("p0->p1", draw(COUNT), stages)


@given(paths())
def test_every_hop_and_the_whole_path_conserve_frames(path: FramePath) -> None:
    for hop in path.hops:
        assert hop.entered == hop.left + sum(loss.frames for loss in hop.losses) + hop.unexplained
        assert all(loss.frames > 0 for loss in hop.losses)
    explained = sum(loss.frames for hop in path.hops for loss in hop.losses)
    assert path.offered == path.received + explained + path.unexplained
    told = ledger_of([path, path])
    assert told.lost == sum(line.frames for line in told.lines) + told.unexplained


@given(COUNT, st.lists(STAGE, max_size=6), COUNT)
def test_a_stage_that_nobody_counted_behind_is_a_part_of_the_next_hop(
    offered: int, stages: list[PathStage], received: int
) -> None:
    path = frame_path("a->b", offered, [*stages, PathStage("last", HopKind.GENERATOR, received)])
    assert len(path.hops) == 1 + sum(stage.left is not None for stage in stages)
    assert ", ".join(hop.name for hop in path.hops) == ", ".join([*(stage.name for stage in stages), "last"])


@given(st.integers(0, 1000), st.lists(st.integers(0, 400), min_size=1, max_size=6))
def test_frames_are_shared_out_whole_and_nobody_gets_more_than_it_lacks(frames: int, lacking: list[int]) -> None:
    shares = spread(frames, lacking)
    assert sum(shares) == min(frames, sum(lacking))
    assert all(0 <= share <= lack for share, lack in zip(shares, lacking, strict=True))


@given(st.lists(paths(), min_size=1, max_size=3), st.dictionaries(st.sampled_from("rst"), COUNT))
def test_reasons_of_the_whole_datapath_keep_every_frame(given_paths: list[FramePath], pool: dict[str, int]) -> None:
    told, left = attribute(given_paths, pool)
    for before, after in zip(given_paths, told, strict=True):
        for old, new in zip(before.hops, after.hops, strict=True):
            assert (old.entered, old.left) == (new.entered, new.left)
            assert min(old.unexplained, 0) <= new.unexplained <= max(old.unexplained, 0)
    given_out = sum(loss.frames for path in told for hop in path.hops for loss in hop.losses if loss.reason in pool)
    assert given_out == sum(pool.values()) - sum(left.values())


def datapath(entered: int, left: int) -> FramePath:
    return FramePath("a->b", (Hop("br0", HopKind.DATAPATH, entered, left),))


def test_one_hop_that_lacks_frames_gets_them_without_a_remark() -> None:
    (path, whole), left = attribute([datapath(10, 4), datapath(10, 10)], {"meter": 5, "drop": 3}, {"drop": "flow 1"})
    assert path.hops[0].losses == (Loss("meter", 5), Loss("drop", 1, "flow 1"))
    assert whole.hops[0].losses == ()
    assert left == {"drop": 2}


def test_of_two_hops_that_lack_frames_each_gets_its_share_and_says_so() -> None:
    (first, second), left = attribute([datapath(10, 4), datapath(10, 8)], {"meter": 8})
    assert (first.hops[0].losses[0].frames, second.hops[0].losses[0].frames) == (6, 2)
    assert "shared out" in first.hops[0].losses[0].detail
    assert left == {}


def test_a_path_with_a_gap_is_refused() -> None:
    hops = (Hop("a", HopKind.PORT, 10, 9), Hop("b", HopKind.PORT, 8, 8))
    with pytest.raises(ValueError, match="path p0->p1: 9 frames leave 'a' and 8 enter 'b'"):
        FramePath("p0->p1", hops)
    with pytest.raises(ValueError, match="nobody counted what came out of 'end'"):
        frame_path("p0->p1", 1, [PathStage("end", HopKind.PORT, None)])


def test_only_what_the_datapath_may_still_name_is_waited_for() -> None:
    elsewhere = FramePath("a->b", (Hop("p0 rx", HopKind.PORT, 10, 4), Hop("br0", HopKind.DATAPATH, 4, 4)))
    assert ledger_of([elsewhere]).unnamed_in_datapath == 0
    assert ledger_of([datapath(10, 7)]).unnamed_in_datapath == 3
    assert Ledger(10, 7, (LedgerLine("p1 tx", "drops", 1),), 2).unnamed_in_datapath == 2


def test_frames_of_others_at_a_hop_are_not_waited_for() -> None:
    """A BGP session's frames come in at one port, go to the host, and come out at another: no frame of ours is lost."""
    overlapping = FramePath("a->b", (Hop("br0", HopKind.DATAPATH, 10, 7), Hop("p1 tx", HopKind.PORT, 7, 10)))
    assert overlapping.unexplained == 0
    assert ledger_of([overlapping]).unnamed_in_datapath == 0
    lossy = FramePath("a->b", (Hop("br0", HopKind.DATAPATH, 10, 5), Hop("p1 tx", HopKind.PORT, 5, 8)))
    assert ledger_of([lossy]).unnamed_in_datapath == 2


def test_the_text_marks_the_hop_where_frames_were_lost() -> None:
    stages = [
        PathStage("p0 generator", HopKind.GENERATOR, 10_000),
        PathStage("br0", HopKind.DATAPATH, 9_000, (Loss("drop_action_of_pipeline", 990, "in_port=1 actions=drop"),)),
        PathStage("p1 generator", HopKind.GENERATOR, 9_001),
    ]
    mirror = Hop("m tx", HopKind.PORT, 10, 4, (Loss("ovs_tx_failure_drops", 6),))
    assert ledger_text(ledger_of([frame_path("p0->p1", 10_000, stages)], (), [mirror], ["look here"])) == (
        "p0 -> p1: 10,000 offered, 9,001 received, 999 lost, 9 of them unexplained; "
        "frames of others in the counters: 1\n"
        "    10,000  p0 generator\n"
        " ->  9,000  br0           990 lost: drop_action_of_pipeline (in_port=1 actions=drop)\n"
        "                          9 lost, unexplained\n"
        "                          1 of others end here\n"
        "     9,001  p1 generator  1 of others, which are not of this trial (or counted twice)\n"
        "\n"
        "beside the path (copies, not the trial's frames):\n"
        " ->  4  m tx  6 lost: ovs_tx_failure_drops\n"
        "\n"
        "note: look here"
    )


def test_without_paths_the_text_is_a_table_that_adds_up() -> None:
    text = ledger_text(Ledger(1000, 880, (LedgerLine("p1 tx", "drops", 115),), 5))
    assert [line.split()[-1] for line in text.splitlines()] == ["1,000", "-115", "880", "5"]
    assert "p1 tx" in text
    assert "unexplained" in text


def test_the_lowest_load_is_looked_at_first_and_a_warm_up_last_of_its_load() -> None:
    specs = [
        TrialSpec(Traffic(), load, 1.0, (Direction("p0", "p1"),), purpose=purpose)
        for load, purpose in ((20, "search"), (10, "warm-up"), (10, "fixed load"))
    ]
    assert [(spec.load_fps, spec.purpose) for spec in sorted(specs, key=loss_sort_key)] == [
        (10, "fixed load"),
        (10, "warm-up"),
        (20, "search"),
    ]
