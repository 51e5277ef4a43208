"""What happens above the throughput: frame-loss curve, longest burst, and loss and latency at a fixed load."""

from __future__ import annotations

from pytest_nfvperf import RFC2544_FRAME_SIZES, DutFailure, LiveTopology, Profile, Search, SlaCheck, Traffic, sweep
from pytest_nfvperf.results import format_fps


@sweep("frame_size", RFC2544_FRAME_SIZES, quick={64})
def test_loss_curve(frame_size: int, phy2phy: LiveTopology, search: Search, sla: SlaCheck) -> None:
    """Frame-loss rate against load (RFC 2544 section 26.3).

    Steps: build port - bridge - port; learn; warm up; from the maximum load down in steps of 10 %.
    Verify: two successive loads without loss end the curve; the SLA's ``loss_ratio`` where it has one.
    """
    outcome = search.loss_curve(phy2phy, Traffic(frame_size=frame_size))
    sla.check(outcome)
    lowest = outcome.loss_curve[-1]
    if lowest.lost_frames:
        raise DutFailure(
            f"the DUT loses frames at every load: even at {format_fps(lowest.load_fps)} per direction, the lowest of "
            f"the curve, {lowest.lost_frames} of {lowest.offered_frames} ({lowest.trial_id})"
        )


@sweep("frame_size", RFC2544_FRAME_SIZES, quick={64})
def test_back_to_back(frame_size: int, phy2phy: LiveTopology, search: Search, sla: SlaCheck) -> None:
    """Longest burst at the maximum rate without loss (RFC 9004).

    Steps: build port - bridge - port; learn; warm up; bisect the length of the burst; repeat.
    Verify: the SLA's ``back_to_back_frames``: at any size a frame gets through at the maximum rate.
    """
    sla.check(search.back_to_back(phy2phy, Traffic(frame_size=frame_size)))


@sweep("load_mpps", [0.1, 1.0, 4.0], quick={1.0})
def test_fixed_load(load_mpps: float, phy2phy: LiveTopology, search: Search, sla: SlaCheck, profile: Profile) -> None:
    """Loss and latency at a fixed load of 64-byte frames, both directions at once.

    Steps: build port - bridge - port; learn; warm up; one trial at the load.
    Verify: the SLA's ``loss_ratio`` and latency percentiles at this load.
    """
    sla.check(search.loss_at(phy2phy, Traffic(frame_size=64), load_mpps * 1e6, profile.latency_trial_s))
