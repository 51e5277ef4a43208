"""What a testbed file promises is compared with the machine before anything is started."""

from __future__ import annotations

import errno
import os
from dataclasses import replace

import pytest

from pytest_nfvperf.adapters.host.cpus import check_cpu_rights, check_pages, check_resources, lacks_priority
from pytest_nfvperf.adapters.host.hugepages import Hugepages, Pool
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.testbed.testbed import CpuPlan, NodeSpec, StreamsSpec
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
    check_resources(PLANNED, PAGES, online)


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
        check_resources(replace(PLANNED, **changed), PAGES, online)

    assert str(caught.value) == message


def test_where_the_kernel_lists_no_cpus_nothing_is_refused(tmp_path):
    check_resources(replace(PLANNED, cpus=replace(TWO_CPUS, pmd=(7,))), PAGES, tmp_path / "none")


KEY = "cpus.pmd (or dut.ovs.pmd_cpus)"


@pytest.mark.parametrize(
    ("error", "before", "after"),
    [
        (
            errno.EINVAL,
            f"{KEY}: this process may not run on CPU 1: the cpuset of its control group (",
            "give it that CPU (docker run --cpuset-cpus, systemd's AllowedCPUs=), or write one that it has",
        ),
        (
            errno.EPERM,
            f"{KEY}: this process may not choose its CPUs (sched_setaffinity: Operation not permitted), and measuring ",
            "needs that: give it the right (CAP_SYS_NICE), or a seccomp profile that allows the call",
        ),
    ],
)
def test_a_cpu_that_is_not_for_this_process_is_refused(monkeypatch, error, before, after):
    """OVS would leave its PMD thread where it is, without a word. The kernel's real answer: tests/functional."""

    def refuse(_, cpus):
        if 1 in cpus:
            raise OSError(error, os.strerror(error))

    monkeypatch.setattr(os, "sched_setaffinity", refuse)
    with pytest.raises(ConfigError) as caught:
        check_cpu_rights(PLANNED)
    assert str(caught.value).startswith(before)
    assert str(caught.value).endswith(after)
    system = replace(PLANNED, ovs=replace(PLANNED.ovs, instance="system"))
    check_cpu_rights(system)  # its PMDs are in whatever control group its service is


def test_looking_where_one_may_run_changes_nothing():
    before = os.sched_getaffinity(0)
    check_cpu_rights(replace(PLANNED, cpus=CpuPlan((min(before),), (max(before),), (min(before),))))
    assert os.sched_getaffinity(0) == before


def test_pages_of_another_size_are_refused():
    check_pages()
    with pytest.raises(ConfigError, match=r"this kernel's pages have 64 KiB, and nfvperf was made for .* 4 KiB: boot"):
        check_pages(65536)


@pytest.mark.parametrize(
    ("rights", "lacking"), [("000001ffffffffff", False), ("00000000a80425fb", True), ("0000000000800000", False)]
)
def test_a_container_that_may_not_raise_priorities_is_told_which_right_is_missing(tmp_path, rights, lacking):
    """The second are the rights of root in a container that Docker makes by itself."""
    (tmp_path / "status").write_text(f"Name:\tpytest\nCapEff:\t{rights}\n")
    line = lacks_priority(tmp_path / "status")
    assert (line is not None) is lacking
    if line is not None:
        assert line.endswith(
            "lacks the right CAP_SYS_NICE, so more trials are disturbed (docker run --cap-add SYS_NICE)"
        )
    assert lacks_priority(tmp_path / "none") is None
