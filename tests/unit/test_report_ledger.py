"""The picture of a ledger: every loss at its hop, nothing on top of another, long paths shortened."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from pytest_nfvperf.adapters.report.ledger_chart import MOST_BOXES, box_label, clear_hops, ledger_chart
from pytest_nfvperf.adapters.report.picture import to_svg
from pytest_nfvperf.model.measure.ledger import Hop, HopKind, Ledger, LedgerLine, Loss, PathStage, frame_path, ledger_of

STAGES = [
    PathStage("p0 generator", HopKind.GENERATOR, 9_000, (Loss("refused", 1_000, "its transmit ring was full"),)),
    PathStage("br0", HopKind.DATAPATH, 5_000, (Loss("datapath_drop_meter", 4_000, "meter 7 of br0"),)),
    PathStage("p1 tx", HopKind.PORT, 5_000),
    PathStage("p1 generator", HopKind.GENERATOR, 4_998),
]


def test_every_count_and_reason_is_in_the_picture() -> None:
    copies = Hop("m0 tx", HopKind.PORT, 100, 60, (Loss("ovs_tx_failure_drops", 40),))
    told = ledger_of([frame_path("p0->p1", 10_000, STAGES)], beside=[copies])
    branch = frame_path("mirror all->m1", 500, [PathStage("br0 mirror", HopKind.DATAPATH, 490)])
    figure = ledger_chart(replace(told, branches=(branch,)), 0.5)
    assert figure is not None
    svg = to_svg(figure, "where frames went")
    for text in (
        "p0 → p1: 10,000 offered, 4,998 received, 5,002 lost (50.02 %)",
        "1,000 lost (10 %)",
        "refused",
        "its transmit ring was full",
        "4,000 lost (40 %)",
        "datapath_drop_meter",
        "meter 7 of br0",
        "2 lost, unexplained",
        "mirror all → m1: 500 copies due, 490 received, 10 lost (2 %)",
        "10 lost, unexplained",
        "Beside the path",
        "40 lost (40 %)",
        "9,000",
        "18.0 kpps",
        "10.0 kpps",
    ):
        assert f">{text}" in svg, text


def test_texts_do_not_lie_on_each_other() -> None:
    figure = ledger_chart(ledger_of([frame_path("p0->p1", 10_000, STAGES)]), 0.5)
    assert figure is not None
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in figure.axes[0].texts if text.get_text()]
    assert len(boxes) > 10
    for at, box in enumerate(boxes):
        assert box.x0 >= 0
        assert box.x1 <= figure.bbox.x1
        assert not any(box.overlaps(other) for other in boxes[at + 1 :])


def test_a_ledger_without_paths_has_no_picture() -> None:
    assert ledger_chart(Ledger(10, 5, (LedgerLine("p1 tx", "drops", 5),), 0), 0.5) is None


LOSS = st.sampled_from([0, 0, 0, 5])


@given(st.lists(LOSS, min_size=1, max_size=200))
def test_no_hop_is_lost_and_those_with_loss_stand_alone(losses: list[int]) -> None:
    stages, left = [], 10_000
    for number, lost in enumerate(losses):
        left -= lost
        stages.append(PathStage(f"hop {number}", HopKind.PORT, left, (Loss("drops", lost),)))
    hops = frame_path("a->b", 10_000, stages).hops
    boxes = clear_hops(hops)
    assert tuple(hop for box in boxes for hop in box) == hops
    assert all(not hop.missing for box in boxes if len(box) > 1 for hop in box)
    if not any(losses):
        assert len(boxes) <= MOST_BOXES


def test_boxes_are_labelled_by_what_they_are() -> None:
    def label(name: str, kind: HopKind) -> str:
        return box_label((Hop(name, kind, 1, 1),))

    assert label("br0", HopKind.DATAPATH) == "br0\ndatapath"
    assert label("br0 + br1 + br2 + br3", HopKind.DATAPATH) == "br0 … br3\ndatapath"
    assert label("v1", HopKind.VNF) == "v1\nVNF"
    assert label("p1 tx", HopKind.PORT) == "p1\ntx"
    assert label("p0 rx, br0", HopKind.DATAPATH) == "p0 rx\nbr0"
    assert box_label((Hop("a", HopKind.PORT, 1, 1),) * 3) == "3 hops\nwithout loss"
