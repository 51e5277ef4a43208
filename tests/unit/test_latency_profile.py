"""Latency at given loads, and what is said where the rig disturbs one."""

from __future__ import annotations

import pytest

from pytest_nfvperf.adapters.generators.fake import FakeGenerator
from pytest_nfvperf.measure.load_series import latency_profile
from pytest_nfvperf.model.traffic.traffic import Traffic
from tests.unit.test_search_algorithms import measurer_on
from tests.unit.test_traffic_classes import Rig


def test_a_latency_that_the_rig_spoils_is_missing_and_the_others_are_not():
    class DisturbedHigh(FakeGenerator):
        """Spoils what is above 3 Mpps."""

        def run_trial(self, spec):
            self.invalid_every = 1 if spec.load_fps > 3_000_000 else None
            return super().run_trial(spec)

    measurer = measurer_on(DisturbedHigh(4e6, latency_ns=20_000))
    (low, high), missing = latency_profile(measurer, [("50 % of pdr", 2e6), ("90 % of pdr", 3.6e6)], 1.0)

    assert low.p99_ns == pytest.approx(20_000, rel=0.01)
    assert (high.p99_ns, high.samples) == (None, 0)
    assert missing["latency_p99"].startswith("3 trials in a row were invalid (skipped_frames 3x); the last, trial-0004")


def test_latency_profile_keeps_the_names_of_the_loads():
    (low, high), missing = latency_profile(
        measurer_on(FakeGenerator(4e6, latency_ns=20_000)), [("10 % of pdr", 4e5), ("90 % of pdr", 3.6e6)], 1.0
    )

    assert (low.at, low.load_fps, high.at) == ("10 % of pdr", 400_000, "90 % of pdr")
    assert low.p50_ns == 20_000
    assert low.samples == 800_000
    assert missing == {}


def test_latency_at_shares_of_a_load_that_was_not_found_is_said_to_lack_that():
    """Seen: "was not measured by this test: ask for it, search.ndr_pdr(..., latency=True)", which it had."""
    rig = Rig(5e6, invalid_every=1)
    missing = rig.search.ndr_pdr(rig.live, Traffic(frame_size=64), latency=True).missing
    assert missing["latency_p99"] == "there is no pdr, and latency is measured at shares of it"
    assert "latency_p99" not in rig.search.ndr_pdr(rig.live, Traffic(frame_size=64)).missing
