"""Tuning on a real OVS: it is in the database, OVS acts by it, and the evidence shows it."""

from __future__ import annotations

from pytest_nfvperf.adapters.host.cpus import discover_testbed
from pytest_nfvperf.adapters.machine.reaper import open_journal
from pytest_nfvperf.adapters.ovs.installation import lacks
from pytest_nfvperf.adapters.ovs.ovs_datapath import OvsDatapath
from pytest_nfvperf.model.testbed.ovs_settings import Tuning
from pytest_nfvperf.model.testbed.testbed import Dut
from pytest_nfvperf.model.topology.compose import phy2phy
from tests.functional.ovs_support import needs_root

pytestmark = needs_root
TUNING = Tuning(emc_insert_inv_prob=0, smc=True, pmd_sleep_max_us=50)


def test_ovs_runs_as_it_was_tuned() -> None:
    testbed = discover_testbed()
    cpu = testbed.cpus.pmd[0]
    dut = Dut(tuning=Tuning(emc_insert_inv_prob=0, smc=True, rxq_affinity=(("p0", f"0:{cpu}"),)))
    journal = open_journal()
    try:
        datapath = OvsDatapath.start(testbed, journal, dut)
        try:
            text = datapath.build(phy2phy()).configuration()
        finally:
            datapath.close()
    finally:
        journal.close()
    assert "emc-insert-inv-prob=0" in text
    assert "smc-enable=true" in text
    assert f"pmd-rxq-affinity=0:{cpu}" in text


def test_the_kernels_datapath_has_no_such_tuning() -> None:
    missing = lacks(discover_testbed(), Dut("system", tuning=TUNING))
    assert missing is not None
    assert "is for the userspace datapath, not for 'system': leave it out" in missing


def test_this_ovs_knows_them_or_says_which_it_does_not() -> None:
    missing = lacks(discover_testbed(), Dut(tuning=TUNING))
    if missing is not None:
        assert "does not know pmd-sleep-max" in missing
    assert lacks(discover_testbed(), Dut(tuning=Tuning(smc=True))) is None
