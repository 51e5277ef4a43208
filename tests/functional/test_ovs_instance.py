"""A private OVS on the real machine: start, isolation, death, wrong prefixes."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyroute2 import IPRoute

from pytest_nfvperf.adapters.host.hugepages import Hugepages, Pool
from pytest_nfvperf.adapters.machine.reaper import open_journal
from pytest_nfvperf.adapters.ovs import installation as datapath_support
from pytest_nfvperf.adapters.ovs.installation import locate
from pytest_nfvperf.adapters.ovs.ovs_datapath import OvsDatapath
from pytest_nfvperf.adapters.ovs.ovsdb import RefusedError
from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.model.errors import ConfigError, DeadlineError, TestbedError
from tests.functional.ovs_support import (
    clean_run,
    leftovers,
    needs_hugepages,
    needs_root,
    phy2phy,
    run_base,
    started,
    testbed,
)

pytestmark = needs_root
KINDS = [pytest.param("dpdk", marks=needs_hugepages), "netdev"]


@pytest.fixture
def journal() -> Iterator[Journal]:
    with clean_run() as made:
        yield made


@pytest.mark.parametrize("kind", KINDS)
def test_it_says_what_it_is(journal: Journal, kind: str) -> None:
    with started(journal, kind) as ovs:
        info = ovs.info()
        assert info.kind == kind
        assert info.version == ovs.instance.ctl.call("version").rsplit(maxsplit=1)[-1] or info.version[0].isdigit()
        assert (info.dpdk_version is not None) == (kind == "dpdk")
        assert "private instance" in info.detail


@needs_hugepages
def test_threads_that_do_not_poll_stay_off_the_pmd_cpu(journal: Journal) -> None:
    with started(journal, "dpdk") as ovs:
        ovs.build(phy2phy())
        pmd = testbed("dpdk").cpus.pmd
        allowed = {}
        for task in Path(f"/proc/{ovs.instance.vswitchd.pid}/task").iterdir():
            status = dict(line.split(":\t", 1) for line in (task / "status").read_text().splitlines() if ":\t" in line)
            allowed[status["Name"]] = status["Cpus_allowed_list"]
        polling = {name: cpus for name, cpus in allowed.items() if name.startswith("pmd-")}
        others = {name: cpus for name, cpus in allowed.items() if not name.startswith("pmd-")}
        assert list(polling.values()) == [str(cpu) for cpu in pmd]
        assert not [name for name, cpus in others.items() if cpus == str(pmd[0])], others


@needs_hugepages
def test_it_never_probes_the_hosts_nics(journal: Journal) -> None:
    with started(journal, "dpdk") as ovs:
        log = (ovs.instance.directory / "ovs-vswitchd.log").read_text()
        assert "--no-pci" in log
        assert "EAL: Probe PCI driver" not in log


def test_it_makes_nothing_in_the_hosts_namespace(journal: Journal) -> None:
    with IPRoute() as host:
        before = {link.get_attr("IFLA_IFNAME") for link in host.get_links()}
    with started(journal, "netdev"), IPRoute() as host:
        after = {link.get_attr("IFLA_IFNAME") for link in host.get_links()}
    assert not {name for name in after - before if name in {"ovs-netdev", "br0"}}
    assert not Path("/run/openvswitch/br0.mgmt").exists()


@pytest.mark.parametrize("kind", KINDS)
def test_several_instances_do_not_disturb_one_another(journal: Journal, kind: str) -> None:
    with started(journal, kind, "ovs2") as second:
        with started(journal, kind, "ovs1") as first:
            for ovs in (first, second):
                ovs.build(phy2phy())
            assert first.instance.namespace is not None
            assert second.instance.namespace is not None
            assert first.instance.namespace.name != second.instance.namespace.name
        second.check_alive()
        assert "br0" in second.instance.ctl.call("dpctl/show")


def test_a_killed_vswitchd_is_reported_with_the_end_of_its_log(journal: Journal) -> None:
    with started(journal, "netdev") as ovs:
        built = ovs.build(phy2phy())
        os.kill(ovs.instance.vswitchd.pid, signal.SIGKILL)
        ovs.instance.vswitchd.popen.wait(5)
        with pytest.raises(TestbedError, match=r"ovs-vswitchd \(pid \d+\) was killed by SIGKILL") as caught:
            ovs.check_alive()
        assert "bridge br0: added interface p0" in caught.value.evidence["ovs-vswitchd.log"]
        for collector in ovs.collectors()[:2]:  # the third asks the kernel, which lives
            with pytest.raises(TestbedError):
                collector.snapshot()
        built.close()


def test_waiting_for_a_dead_vswitchd_ends_at_once(journal: Journal) -> None:
    with started(journal, "netdev") as ovs:
        os.kill(ovs.instance.vswitchd.pid, signal.SIGKILL)
        began = time.monotonic()
        with pytest.raises(TestbedError, match="was killed by SIGKILL"):
            ovs.instance.db.transact(lambda _: None, "nothing", deadline_s=120)
        assert time.monotonic() - began < 60


def test_a_stopped_vswitchd_ends_in_a_deadline_and_one_that_goes_on_soon_is_waited_for(journal: Journal) -> None:
    with started(journal, "netdev") as ovs:
        pid = ovs.instance.vswitchd.pid
        os.kill(pid, signal.SIGSTOP)
        try:
            with pytest.raises(DeadlineError, match="ovs-vswitchd to answer 'version'"):
                ovs.instance.ctl.call("version", deadline_s=0.2)
            with pytest.raises(DeadlineError, match=r"to apply a test; last seen: cur_cfg 1, next_cfg 2"):
                ovs.instance.db.transact(lambda _: None, "a test", deadline_s=0.3)
            with pytest.raises(TestbedError, match=r"ovs-vswitchd .* is in state T \(stopped\), and not by us"):
                ovs.instance.check_alive()
            goes_on = threading.Timer(0.1, os.kill, (pid, signal.SIGCONT))
            goes_on.start()
            ovs.instance.check_alive()
            goes_on.join()
        finally:
            os.kill(pid, signal.SIGCONT)
        assert ovs.instance.ctl.call("version").startswith("ovs-vswitchd")


def test_an_unknown_command_is_refused_in_the_daemons_words(journal: Journal) -> None:
    with started(journal, "netdev") as ovs:
        with pytest.raises(RefusedError, match='"no-such" is not a valid command'):
            ovs.instance.ctl.call("no-such")
        assert ovs.instance.ctl.usage("no-such") is None
        assert ovs.instance.ctl.usage("coverage/show") is not None


def test_a_wrong_prefix_says_what_was_looked_for_and_where(journal: Journal, tmp_path: Path) -> None:
    spec = testbed("netdev")
    wrong = dataclasses.replace(spec, ovs=dataclasses.replace(spec.ovs, prefix=str(tmp_path)))
    with pytest.raises(ConfigError, match=r"^dut\.ovs\.prefix: .* holds no Open vSwitch: no ovs-vswitchd") as caught:
        OvsDatapath.start(wrong, journal)
    assert f"{tmp_path}/sbin/ovs-vswitchd" in str(caught.value)
    assert "--prefix" in str(caught.value)


def test_any_prefix_will_do(journal: Journal, tmp_path: Path) -> None:
    packaged = locate(None, dpdk=False)
    links = {"sbin": [packaged.vswitchd, packaged.ovsdb_server], "bin": [packaged.ovsdb_tool, packaged.ofctl]}
    links["share/openvswitch"] = [packaged.schema]
    for directory, files in links.items():
        (tmp_path / directory).mkdir(parents=True)
        for file in files:
            (tmp_path / directory / file.name).symlink_to(file)
    spec = testbed("netdev")
    built_there = dataclasses.replace(spec, ovs=dataclasses.replace(spec.ovs, prefix=str(tmp_path)))
    ovs = OvsDatapath.start(built_there, journal)
    try:
        assert str(tmp_path) in ovs.info().detail
        ovs.build(phy2phy())
    finally:
        ovs.close()


def test_without_hugepages_a_discovered_testbed_runs_without_dpdk_and_says_so(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datapath_support, "read_hugepages", lambda: Hugepages((Pool(2),)))
    with started(journal, "dpdk") as ovs:
        assert ovs.info().kind == "netdev"
        assert "without DPDK (0 MiB of free hugepages" in ovs.info().detail
        assert "echo 1024 > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages (2 GiB in" in ovs.info().detail
        assert [device.partition(",")[0] for device in ovs.build(phy2phy()).attachments().values() if device] == [
            "net_af_packet",
            "net_af_packet",
        ]


def test_without_hugepages_a_testbed_file_that_asks_for_dpdk_is_refused(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datapath_support, "read_hugepages", lambda: Hugepages((Pool(2),)))
    with pytest.raises(TestbedError, match=r"asks for the DPDK datapath: 0 MiB of free hugepages"):
        OvsDatapath.start(testbed("dpdk", discovered=False), journal)


def test_what_is_not_possible_is_refused_by_its_key(journal: Journal) -> None:
    with pytest.raises(ConfigError, match=r"^dut\.ovs\.datapath: 'system' is not possible"):
        OvsDatapath.start(testbed("system"), journal)


def test_a_run_directory_too_long_for_sockets_is_refused(tmp_path: Path) -> None:
    journal = open_journal(tmp_path / ("d" * 90))
    try:
        with pytest.raises(ConfigError, match=r"too long for Unix sockets.*NFVPERF_RUN_DIR"):
            OvsDatapath.start(testbed("netdev"), journal)
    finally:
        journal.close()


@needs_hugepages
def test_a_users_arguments_of_dpdk_are_added_to_those_that_keep_it_off_the_host(journal: Journal) -> None:
    spec = testbed("dpdk")
    config = (("dpdk-extra", "--iova-mode=va"), ("dpdk-socket-mem", "300"))
    datapath = OvsDatapath.start(
        dataclasses.replace(spec, ovs=dataclasses.replace(spec.ovs, other_config=config)), journal
    )
    with contextlib.closing(datapath):
        now = dict(datapath.instance.db.root.other_config)
        log = (datapath.instance.directory / "ovs-vswitchd.log").read_text(encoding="utf-8")
    started_with = next(line for line in log.splitlines() if "EAL ARGS" in line)
    for argument in ("--no-pci", "--in-memory", f"--file-prefix=nfv-{journal.tag}-ovs", "--iova-mode=va"):
        assert argument in started_with
        assert argument in now["dpdk-extra"].split()
    assert now["dpdk-socket-limit"] == now["dpdk-socket-mem"] == "300"


@needs_hugepages
def test_dpdk_that_does_not_start_is_reported_with_its_log(journal: Journal) -> None:
    spec = testbed("dpdk")
    config = (("dpdk-extra", "--no-such-eal-option"),)
    with pytest.raises(TestbedError, match=r"ovs-vswitchd .*(exited with status|was killed by)") as caught:
        OvsDatapath.start(dataclasses.replace(spec, ovs=dataclasses.replace(spec.ovs, other_config=config)), journal)
    assert "Unable to initialize DPDK" in caught.value.evidence["ovs-vswitchd.log"]


FEW_FILES = """
import resource, sys
from tests.functional.ovs_support import clean_run, started

resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[2]),) * 2)
with clean_run() as journal, started(journal, sys.argv[1]) as ovs:
    print(ovs.info().kind)
"""


def with_open_files(kind: str, most: int) -> subprocess.CompletedProcess[str]:
    """Start a private OVS in a process of its own that may open so many files."""
    argv = [sys.executable, "-c", FEW_FILES, kind, str(most)]
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)


@needs_hugepages
@pytest.mark.parametrize(
    ("kind", "most", "said"),
    [
        (
            "dpdk",
            256,
            r"256 open files are allowed here, and OVS needs about 320, 256 of them for its hugepages: raise",
        ),
        ("netdev", 60, r"60 open files are allowed here, and OVS needs about 64: raise the hard limit \(ulimit -Hn"),
    ],
)
def test_too_few_open_files_are_told_before_ovs_aborts(kind: str, most: int, said: str) -> None:
    done = with_open_files(kind, most)
    assert done.returncode != 0
    assert re.search(said, done.stderr), done.stderr
    assert "SIGABRT" not in done.stderr


@needs_hugepages
@pytest.mark.parametrize(("kind", "most"), [("dpdk", 320), ("netdev", 64)])
def test_as_many_open_files_as_it_asks_for_are_enough(kind: str, most: int) -> None:
    done = with_open_files(kind, most)
    assert done.stdout == f"{kind}\n", done.stderr


@pytest.fixture
def two_large_pages() -> Iterator[Path]:
    """Two free pages of 1 GiB, reserved for this test alone; the directory of their pool."""
    pool = Path("/sys/kernel/mm/hugepages/hugepages-1048576kB")
    try:
        before = int((pool / "nr_hugepages").read_text())
        (pool / "nr_hugepages").write_text(str(before + 2))
    except OSError as error:
        pytest.skip(f"pages of 1 GiB cannot be reserved here: {error}")
    try:
        if int((pool / "free_hugepages").read_text()) < 2:
            pytest.skip("the kernel found no 2 GiB of contiguous memory for two pages of 1 GiB")
        yield pool
    finally:
        (pool / "nr_hugepages").write_text(str(before))


ON_LARGE_PAGES = """
import sys
from pytest_nfvperf.adapters.host.cpus import discover_testbed
from tests.functional.generator_support import embedded_in, hugepages_mib
from tests.functional.ovs_support import clean_run, started_on

with clean_run() as journal, started_on(discover_testbed(), journal, "ovs") as ovs:
    config = ovs.instance.db.root.other_config
    print(ovs.info().kind, config["dpdk-socket-mem"], config["dpdk-socket-limit"], hugepages_mib())
    with embedded_in(journal.directory):
        print(*(open(f"{sys.argv[1]}/{name}_hugepages").read().strip() for name in ("nr", "free")))
"""


def test_on_a_host_with_pages_of_1_gib_alone_ovs_and_generator_take_one_each(
    two_large_pages: Path, tmp_path: Path
) -> None:
    """In a mount namespace whose sysfs lists this pool only, as on a host that has no pages of 2 MiB."""
    planted = tmp_path / two_large_pages.name
    planted.mkdir()
    shown = f"mount --bind {two_large_pages} {planted} && mount --rbind {tmp_path} {two_large_pages.parent}"
    script = f'{shown} && exec "$0" -c "$1" {two_large_pages}'
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, sys.executable, ON_LARGE_PAGES],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["dpdk 1024 1024 128", "2 0"]


def test_a_kept_run_leaves_its_logs(tmp_path: Path) -> None:
    with run_base() as base:
        journal = open_journal(base, keep=True)
        with started(journal, "netdev"):
            pass
        journal.close()
        assert (journal.directory / "ovs" / "ovs-vswitchd.log").exists()
        assert leftovers(journal.tag) == []
