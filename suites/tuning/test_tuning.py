"""What OVS's own settings make of the forwarding rate: caches, sleeping PMD threads, batching, queues."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pytest_nfvperf import Dut, SlaCheck, Study, Subject, Traffic, Tuning, compares, phy2phy, sweep

LARGER = (256, 512)
CACHES = (Tuning(), Tuning(emc_insert_inv_prob=0), Tuning(emc_insert_inv_prob=1), Tuning(smc=True))
OTHERS = (
    Tuning(),
    Tuning(pmd_sleep_max_us=50),
    Tuning(tx_flush_interval_us=50),
    Tuning(other_config=(("pmd-perf-metrics", "true"),)),
)


@pytest.mark.nfv_smoke
@pytest.mark.nfv(topology="phy2phy", frame_size="64")
@sweep("flows", (1, 1000, 100_000), quick={1000})
@compares("tuning", CACHES, quick=CACHES[:2])
def test_caches(tuning: Sequence[Tuning], flows: int, study: Study, sla: SlaCheck) -> None:
    """Forwarding rate by how flows are cached: exact-match cache (EMC), signature-match cache (SMC), classifier.

    Steps: in interleaved rounds start OVS so tuned; build port - bridge - port; warm up; offer more than it forwards:
    64-byte frames, or larger ones where the generator is slower than the DUT.
    Verify: the SLA for each tuning; its rate as a ratio to OVS's default is told.
    """
    sla.check_each(study.forwarding_rate("tuning", _subjects(tuning), Traffic(flows=flows), larger=LARGER))


@pytest.mark.nfv_not_quick
@pytest.mark.nfv(topology="phy2phy", frame_size="64", flows="1")
@compares("tuning", OTHERS, quick=OTHERS[:2])
def test_threads(tuning: Sequence[Tuning], study: Study, sla: SlaCheck) -> None:
    """Forwarding rate with PMD threads that may sleep, batches that may wait, and statistics that cost.

    Steps: as above.
    Verify: the SLA where it has a rule; else measured and reported, as ratios to OVS's default.
    """
    sla.check_each(study.forwarding_rate("tuning", _subjects(tuning), Traffic()))


def _subjects(tuning: Sequence[Tuning]) -> list[Subject]:
    return [Subject(str(each), phy2phy(), Dut(tuning=each)) for each in tuning]
