"""How a NIC spreads flows over its receive queues (RSS)."""

from __future__ import annotations

import pytest

from pytest_nfvperf import (
    Deployer,
    DutFailure,
    Search,
    SlaCheck,
    Traffic,
    UnavailableError,
    phy2phy,
    sweep,
)
from pytest_nfvperf.results import Outcome

pytestmark = [pytest.mark.usefixtures("nics"), pytest.mark.nfv_needs(rxq=2), pytest.mark.nfv(topology="phy2phy")]

MANY_FRAMES = 10_000
"""So many that those which the generator left out make less than 1 % of a queue's share."""
MOST_SHIFTED = 0.01
"""Share of a queue's frames that may differ from trial to trial: the last round over the flows is not always whole."""


@sweep("flows", [100, 1000, 10_000], quick={1000})
def test_spread(flows: int, deploy: Deployer, search: Search, sla: SlaCheck) -> None:
    """Many flows, frames of which come in turns, are spread over all queues.

    Steps: build NIC - bridge - NIC with the queues of the testbed file; one trial at a calm load; read each queue's
    frames before and after it.
    Verify: the SLA's ``rss_imbalance``, of the worse of the two NICs.
    """
    sla.check(_spread(deploy, search, Traffic(frame_size=128, flows=flows), 2 * max(flows, 1000)))


@pytest.mark.nfv(flows="1000")
def test_flows_stay(deploy: Deployer, search: Search) -> None:
    """A flow stays in its queue: the same flows give every queue the same share of frames again.

    Steps: as above, twice, with the same flows; and once with one flow.
    Verify: each queue has the same share of frames both times, to 1 %; one flow is in one queue.
    """
    first, second = (_spread(deploy, search, Traffic(frame_size=128, flows=1000), MANY_FRAMES) for _ in range(2))
    for once, again in zip(first.queue_frames, second.queue_frames, strict=True):
        for queue, (before, after) in enumerate(zip(once.frames, again.frames, strict=True)):
            share, share_again = before / sum(once.frames), after / sum(again.frames)
            if abs(share - share_again) > MOST_SHIFTED:
                raise DutFailure(
                    f"the same flows filled queue {queue} of port {once.port} with {share:.1%} of the frames, and then "
                    f"with {share_again:.1%}: flows change their queue, so their frames may be reordered"
                )
    alone = _spread(deploy, search, Traffic(frame_size=128), 1000)
    for port in alone.queue_frames:
        if sum(frames > 0 for frames in port.frames) > 1:
            raise DutFailure(f"the frames of one flow are in several queues ({port}): they may be reordered")


def _spread(deploy: Deployer, search: Search, traffic: Traffic, frames: int) -> Outcome:
    outcome = search.loss_of(deploy(phy2phy()), traffic, frames)
    if not any(len(port.frames) > 1 for port in outcome.queue_frames):
        raise UnavailableError(
            "no port counts frames by receive queue: its driver has no rx_q0_packets, or OVS has no such counters "
            "(before 2.17)"
        )
    return outcome
