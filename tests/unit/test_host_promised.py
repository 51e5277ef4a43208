"""What a testbed file promises is compared with the machine before anything is started."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_nfvperf.adapters.host.hugepages import Hugepages, Pool
from pytest_nfvperf.adapters.host.promised import check_promised
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.testbed.node_spec import NodeSpec
from pytest_nfvperf.model.testbed.testbed import CpuPlan, StreamsSpec
from tests.sample_run import TESTBED

TWO_CPUS = CpuPlan(housekeeping=(0,), pmd=(1,), generator=(0,))
PLANNED = replace(TESTBED, cpus=TWO_CPUS, hugepages_mib=4096)
PAGES = Hugepages((Pool(2, total=2048, free=1000),))


@pytest.fixture
def online(tmp_path):
    path = tmp_path / "online"
    path.write_text("0-1\n")
    return path


def test_what_the_machine_has_is_fine(online):
    check_promised(PLANNED, PAGES, online)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"cpus": replace(TWO_CPUS, pmd=(7,))},
            "cpus.pmd (or dut.ovs.pmd_cpus): this machine has no CPU 7, only 0-1: write one of those",
        ),
        (
            {"nodes": (NodeSpec("node1", cpus=(1,)), NodeSpec("node2", cpus=(4,)))},
            "nodes.node2.cpus: this machine has no CPU 4, only 0-1: write one of those",
        ),
        ({"cpus": replace(TWO_CPUS, vnf=(1, 2))}, "cpus.vnf: this machine has no CPU 2, only 0-1: write one of those"),
        (
            {"streams": StreamsSpec(client_cpus=(9,))},
            "streams.client_cpus: this machine has no CPU 9, only 0-1: write one of those",
        ),
        (
            {"hugepages_mib": 900 * 1024},
            (
                "hugepages: 921600 MiB are asked for, and this machine has reserved 4096 MiB in pages of 2 MiB: write "
                "at most that, or reserve more: echo 460800 > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages "
                "(900 GiB in pages of 2 MiB)"
            ),
        ),
    ],
)
def test_what_it_has_not_is_refused(online, changed, message):
    with pytest.raises(ConfigError) as caught:
        check_promised(replace(PLANNED, **changed), PAGES, online)

    assert str(caught.value) == message


def test_where_the_kernel_lists_no_cpus_nothing_is_refused(tmp_path):
    check_promised(replace(PLANNED, cpus=replace(TWO_CPUS, pmd=(7,))), PAGES, tmp_path / "none")
