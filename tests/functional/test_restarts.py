"""Events that restart, upgrade or break OVS: what it has afterwards, what it did when, and what it refuses."""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pytest_nfvperf.adapters.machine.reaper import open_journal
from pytest_nfvperf.adapters.ovs import private_ovs
from pytest_nfvperf.adapters.ovs.built_topology import BuiltOvsTopology
from pytest_nfvperf.adapters.ovs.installation import locate
from pytest_nfvperf.adapters.ovs.ovs_datapath import OvsDatapath
from pytest_nfvperf.adapters.ovs.private_ovs import OvsInstance
from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.adapters.process.process import ManagedProcess, run, spawn
from pytest_nfvperf.features.versions.registry import Registry
from pytest_nfvperf.measure.rig import generator_ports
from pytest_nfvperf.model.errors import TestbedError, UnavailableError
from pytest_nfvperf.model.testbed.ovs_settings import CachedVersion, NamedOvs
from pytest_nfvperf.model.topology.bridges import rules
from pytest_nfvperf.model.topology.compose import compose
from pytest_nfvperf.model.topology.parts import endpoint, path
from pytest_nfvperf.model.topology.topology import Topology
from tests.delayed_ovs import delayed_prefix
from tests.functional.generator_support import embedded_in, forwards_whole, run_dir
from tests.functional.ovs_support import (
    MACS,
    far_ends,
    frame,
    frames_on,
    leftovers,
    needs_hugepages,
    needs_root,
    phy2phy,
    run_base,
    started_on,
    testbed,
    until,
)

pytestmark = needs_root

KEPT = [version for version in Registry().all() if version.datapath == "ovs"]
_NONE = pytest.param(None, marks=pytest.mark.skip("no version is kept here: `nfvperf ovs add debian:trixie` adds one"))

METERED = "meter=3,kbps,bands=type=drop,rate=100000\npriority=200,in_port=p1,actions=meter:3,p0"
TIMES = "cookie", "duration", "n_packets", "n_bytes", "idle_age"


def plain(flows: str = "") -> Topology:
    ends = (endpoint(name, "br0", mac=mac) for name, mac in zip(("p0", "p1"), MACS, strict=True))
    own = [rules("br0", flows=flows)] if flows else []
    return compose("plain", *ends, path("p0", "p1"), *own)


@pytest.fixture(scope="module")
def newer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The installed OVS as another version: its schema has a newer version, and a column more."""
    prefix = delayed_prefix(tmp_path_factory.mktemp("versions") / "newer", 0)
    file = prefix / "share/openvswitch/vswitch.ovsschema"
    schema = json.loads(file.read_text())
    schema["version"] = "99.0.0"
    schema["tables"]["Bridge"]["columns"]["fresh"] = {"type": {"key": "string", "min": 0, "max": 1}}
    del schema["cksum"]
    file.write_text(json.dumps(schema))
    return prefix


@pytest.fixture(scope="module")
def ovs(journal: Journal, newer: Path) -> Iterator[OvsDatapath]:
    bed = testbed("netdev")
    named = (NamedOvs("newer", str(newer), str(newer)), NamedOvs("none", "/no/such", "/no/such"))
    with started_on(dataclasses.replace(bed, ovs=dataclasses.replace(bed.ovs, versions=named)), journal, "own") as made:
        yield made


@pytest.fixture
def built(ovs: OvsDatapath) -> Iterator[BuiltOvsTopology]:
    made = ovs.build(plain())
    made.wait_ready(10)
    yield made
    made.close()


def passes(built: BuiltOvsTopology, deadline_s: float = 5) -> bool:
    p0, p1 = far_ends(built)
    sent = frame(MACS[1], MACS[0], b"own")
    end = time.monotonic() + deadline_s
    with frames_on(p0) as sender, frames_on(p1) as receiver:
        receiver.settimeout(0.1)
        while time.monotonic() < end:
            sender.send(sent)
            try:
                if receiver.recv(100) == sent:
                    return True
            except TimeoutError:
                continue
    return False


def flows(built: BuiltOvsTopology) -> list[str]:
    lines = built.ovs("ofctl", "dump-flows", "br0").splitlines()
    found = [",".join(part for part in line.strip().split(", ") if not part.startswith(TIMES)) for line in lines]
    return sorted(line for line in found if "actions=" in line)


def texts(ovs: OvsDatapath, since_ns: int) -> dict[str, str]:
    found: dict[str, str] = {}
    for event in ovs.log_since(since_ns):
        found[event.source] = found.get(event.source, "") + event.text + "\n"
    return found


def test_a_restart_as_ovs_ctl_does_it_keeps_flows(ovs: OvsDatapath, built: BuiltOvsTopology) -> None:
    built.ovs("ofctl", "add-flow", "br0", "priority=7,udp,actions=p1")
    before, pid, since = flows(built), ovs.instance.pid, time.monotonic_ns()
    ovs.operation("restart", flows="restored").act()
    assert ovs.instance.pid != pid
    assert flows(built) == before
    assert any("priority=7" in line for line in before)
    assert passes(built)
    told = texts(ovs, since)
    assert "ovs-save has saved the flows\n" in told["nfvperf"]
    assert "printed" not in told["nfvperf"]
    assert "flow-restore-wait" in told["database"]
    assert "opened log file" in told["ovs-vswitchd"]
    assert "opened log file" in told["ovsdb-server"]
    assert "flow-restore-wait" not in built.ovs("vsctl", "get", "Open_vSwitch", ".", "other_config")
    ovs.check_alive()


def test_what_ovs_did_is_in_order_on_our_clock(ovs: OvsDatapath, built: BuiltOvsTopology) -> None:
    began = time.monotonic_ns()
    ovs.operation("restart", flows="lost").act()
    ended = time.monotonic_ns()
    found = ovs.log_since(began)
    assert [event.ns for event in found] == sorted(event.ns for event in found)
    assert {event.source for event in found} >= {"nfvperf", "ovs-vswitchd", "database"}
    assert all(event.ns <= ended + 1_000_000 for event in found)
    at = {event.text: event.ns for event in found if event.source == "nfvperf"}
    (opened,) = [event.ns for event in found if event.source == "ovs-vswitchd" and "opened log file" in event.text]
    assert at["ovs-vswitchd has ended"] - 1_000_000 <= opened <= at["ovs-vswitchd has taken its configuration"]
    assert passes(built)


def test_one_flow_with_a_meter_loses_all_flows_until_undone(ovs: OvsDatapath) -> None:
    built = ovs.build(plain(METERED))
    try:
        built.wait_ready(10)
        before, since = flows(built), time.monotonic_ns()
        done = ovs.operation("restart", flows="restored")
        done.act()
        assert flows(built) == []
        assert not passes(built, 0.5)
        assert "it printed: " in texts(ovs, since)["nfvperf"]
        assert done.undo is not None
        done.undo()
        assert flows(built) == before
        assert passes(built)
    finally:
        built.close()


def test_who_is_killed_is_started_again_with_its_flows(ovs: OvsDatapath, built: BuiltOvsTopology) -> None:
    before, since = flows(built), time.monotonic_ns()
    ovs.operation("kill").act()
    assert flows(built) == before
    assert passes(built)
    assert "kills ovs-vswitchd" in texts(ovs, since)["nfvperf"]


def test_the_database_is_restarted_under_a_vswitchd_that_goes_on(ovs: OvsDatapath, built: BuiltOvsTopology) -> None:
    instance = ovs.instance
    assert isinstance(instance, OvsInstance)
    pids = {name: process.pid for name, process in instance._processes.items()}
    before = flows(built)
    ovs.operation("restart the database of").act()
    now = {name: process.pid for name, process in instance._processes.items()}
    assert now["ovs-vswitchd"] == pids["ovs-vswitchd"]
    assert now["ovsdb-server"] != pids["ovsdb-server"]
    built.ovs("vsctl", "set", "bridge", "br0", "other_config:mac-aging-time=77")  # vswitchd applies it
    assert flows(built) == before
    assert passes(built)


def schema_of(ovs: OvsDatapath) -> str:
    assert isinstance(ovs.instance, OvsInstance)
    return run(["ovsdb-tool", "db-version", ovs.instance.database_file]).strip()


def test_an_upgrade_converts_the_database_and_a_downgrade_goes_back(
    ovs: OvsDatapath, built: BuiltOvsTopology, newer: Path
) -> None:
    was, schema, before, since = ovs.info(), schema_of(ovs), flows(built), time.monotonic_ns()
    ports = built.ofports()
    done = ovs.operation("upgrade", to="newer")
    assert ovs.info() == was  # prepared, and nothing done
    done.act()
    assert schema_of(ovs) == "99.0.0"
    assert ovs.info().installation == str(newer / "sbin/ovs-vswitchd")
    assert str(newer) in ovs.info().detail
    assert (flows(built), built.ofports()) == (before, ports)
    assert passes(built)
    assert f"converted from schema {schema} to 99.0.0" in texts(ovs, since)["nfvperf"]
    assert [collector.snapshot() for collector in ovs.collectors()]
    assert done.undo is not None
    done.undo()
    assert (ovs.info(), schema_of(ovs)) == (was, schema)
    assert (flows(built), built.ofports()) == (before, ports)
    assert passes(built)


def test_what_cannot_be_done_is_refused_before(ovs: OvsDatapath, tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match=r"no version is called 'absent' \(named: newer, none\)"):
        ovs.operation("upgrade", to="absent")
    with pytest.raises(UnavailableError, match="nobody here can polish the datapath 'netdev'"):
        ovs.operation("polish")
    bare = delayed_prefix(tmp_path / "bare", 0)
    shutil.rmtree(bare / "share/openvswitch/scripts")
    bed = testbed("netdev")
    bed = dataclasses.replace(bed, ovs=dataclasses.replace(bed.ovs, versions=(NamedOvs("bare", str(bare), str(bare)),)))
    asked = (bed, ovs._asked[1])
    whole, ovs._asked = ovs._asked, asked
    try:
        with pytest.raises(UnavailableError, match=r"has no .*scripts/ovs-save: use a complete installation"):
            ovs.operation("upgrade", to="bare")
    finally:
        ovs._asked = whole


def test_a_dead_vswitchd_is_evidence(journal: Journal) -> None:
    with started_on(testbed("netdev"), journal, "dead") as running:
        built = running.build(plain())
        instance = running.instance
        assert isinstance(instance, OvsInstance)
        done = running.operation("restart", flows="lost")
        instance.vswitchd.popen.kill()
        instance.vswitchd.popen.wait()
        with pytest.raises(TestbedError, match=r"ovs-vswitchd \(pid \d+\) was killed by SIGKILL") as caught:
            done.act()
        assert "ovs-vswitchd.log" in caught.value.evidence
        began = time.monotonic()
        built.close()
        assert time.monotonic() - began < 5


def test_a_locked_database_is_evidence(journal: Journal) -> None:
    """Steps: while the server is restarted, another process has the database's lock."""
    with started_on(testbed("netdev"), journal, "locked") as running:
        running.build(plain())
        instance = running.instance
        assert isinstance(instance, OvsInstance)
        with (instance.directory / ".conf.db.~lock~").open("a") as lock:

            def hold() -> None:
                fcntl.lockf(lock, fcntl.LOCK_EX)

            with pytest.raises(TestbedError, match=r"ovsdb-server \(pid \d+\) exited with status 1") as caught:
                instance.restart_database(hold)
        assert "failed to lock lockfile" in caught.value.evidence["ovsdb-server.log"]


def test_a_full_disk_is_evidence(journal: Journal) -> None:
    """Steps: the run's directory fills up; restart with saved flows. Verify: an error that says so."""
    with run_base() as small:
        run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", small])
        try:
            with started_on(testbed("netdev"), journal, "full") as running:
                running.build(plain())
                instance = running.instance
                assert isinstance(instance, OvsInstance)
                done = running.operation("restart", flows="restored")
                (instance.directory / "tools").symlink_to(small)
                (small / "filler").write_bytes(bytes(2 << 20))
                with pytest.raises(TestbedError, match="No space left on device"):
                    done.act()
                running.check_alive()  # nothing was stopped yet
        finally:
            run(["umount", small])


def test_a_planted_delay_is_in_each_nth_restart(journal: Journal, tmp_path: Path) -> None:
    slow = delayed_prefix(tmp_path / "slow", 400, every=2)
    bed = testbed("netdev")
    took = []
    with started_on(dataclasses.replace(bed, ovs=dataclasses.replace(bed.ovs, prefix=str(slow))), journal, "x") as made:
        assert made.info().version == locate().version
        for _ in range(2):
            began = time.monotonic()
            made.restart()
            took.append(time.monotonic() - began)
    assert took[0] - took[1] > 0.3


def test_a_controller_that_is_lost_leaves_a_secure_bridge_its_flows(ovs: OvsDatapath, built: BuiltOvsTopology) -> None:
    before = flows(built)
    done = ovs.operation("take the controller from", fail_mode="secure")
    assert flows(built) == before
    assert built.ovs("vsctl", "get-fail-mode", "br0").strip() == "secure"
    done.act()
    time.sleep(3.5)  # as long as a standalone bridge waits
    assert flows(built) == before
    assert passes(built)
    assert done.undo is not None
    done.undo()
    assert flows(built) == before


def test_a_standalone_bridge_learns_once_its_controller_is_lost(ovs: OvsDatapath, built: BuiltOvsTopology) -> None:
    before = flows(built)
    done = ovs.operation("take the controller from", fail_mode="standalone")
    time.sleep(4)  # while it is connected nothing changes, though it says nothing but echoes
    assert flows(built) == before
    done.act()
    assert flows(built) != before
    assert passes(built)  # by NORMAL
    assert done.undo is not None
    done.undo()
    assert flows(built) == before


def test_a_bridge_with_a_controller_loses_the_restored_flows(ovs: OvsDatapath, built: BuiltOvsTopology) -> None:
    before = flows(built)
    ovs.operation("give a controller to", fail_mode="secure").act()
    assert flows(built) == before
    done = ovs.operation("restart", flows="restored")
    done.act()
    assert until(lambda: flows(built) == [], 5)
    assert done.undo is not None
    done.undo()
    assert flows(built) == before


@needs_hugepages
@pytest.mark.parametrize("version", KEPT or [_NONE], ids=lambda version: version.name if version else "none")
def test_a_kept_version_takes_over_ports_and_flows_and_gives_them_back(
    journal: Journal, version: CachedVersion
) -> None:
    """Steps: the installed OVS-DPDK forwards; upgrade it to a kept version; forward; go back; forward."""
    bed, topology = testbed("dpdk"), phy2phy()
    named = (NamedOvs("kept", version.name, version.place, version.origin, version.checksum, version.build),)
    bed = dataclasses.replace(bed, ovs=dataclasses.replace(bed.ovs, versions=named))
    with started_on(bed, journal, "up") as running, run_dir() as directory, embedded_in(directory) as generator:
        built = running.build(topology)
        generator.attach(generator_ports(topology, built))
        forwards_whole(generator, topology)
        was, schema, done = running.info(), schema_of(running), running.operation("upgrade", to="kept")
        done.act()
        now = running.info()
        assert (now.version, now.dpdk_version, now.origin) == (version.version, version.dpdk_version, version.origin)
        assert running.instance.ctl.call("version").splitlines()[0].endswith(version.version)
        forwards_whole(generator, topology)
        assert [sampler.read() for sampler in running.samplers()]
        assert done.undo is not None
        done.undo()
        assert (running.info(), schema_of(running)) == (was, schema)
        forwards_whole(generator, topology)


def threads(running: OvsDatapath) -> list[tuple[str, list[int]]]:
    """The names of vswitchd's threads, without their numbers, and their CPUs."""
    found = [(task.name, (task / "comm").read_text()) for task in Path(f"/proc/{running.instance.pid}/task").iterdir()]
    return sorted((re.sub(r"\d+", "", name), sorted(os.sched_getaffinity(int(thread)))) for thread, name in found)


@needs_hugepages
@pytest.mark.parametrize("flows", ["lost", "restored"])
def test_a_restart_leaves_the_generators_cpu_alone_and_then_the_pmds(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, flows: str
) -> None:
    """Steps: restart without and with vhost-user ports. Verify: where vswitchd starts; each thread's CPUs as before."""
    bed, topology, started_cpus = testbed("dpdk"), phy2phy(), []
    bed = dataclasses.replace(bed, cpus=dataclasses.replace(bed.cpus, generator=bed.cpus.housekeeping))

    def note_cpus(journal: Journal, name: str, *arguments: object, **options: Any) -> ManagedProcess:
        if name == "ovs-vswitchd":
            started_cpus.append(options["cpus"])
        return spawn(journal, name, *arguments, **options)

    monkeypatch.setattr(private_ovs, "spawn", note_cpus)
    with started_on(bed, journal, "cpus") as running, run_dir() as directory, embedded_in(directory) as generator:
        running.operation("restart", flows=flows).act()
        built = running.build(topology)
        generator.attach(generator_ports(topology, built))
        built.wait_ready(20)
        before = threads(running)
        running.operation("restart", flows=flows).act()
        assert threads(running) == before
        forwards_whole(generator, topology)
        cpus = {name.startswith("pmd-"): tuple(on) for name, on in before}
        assert cpus == {True: bed.cpus.pmd, False: bed.cpus.housekeeping}
    assert started_cpus == [bed.cpus.housekeeping, bed.cpus.housekeeping, bed.cpus.pmd]


def test_a_vswitchd_that_dies_before_its_flows_are_back_is_evidence(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    with started_on(testbed("netdev"), journal, "dies") as running:
        running.build(plain())
        instance = running.instance
        assert isinstance(instance, OvsInstance)
        monkeypatch.setattr(running, "_serve", lambda **_: instance.vswitchd.popen.kill())
        with pytest.raises(TestbedError, match=r"ovs-vswitchd \(pid \d+\) was killed by SIGKILL"):
            running.operation("restart", flows="restored").act()


def fill_up(running: OvsDatapath, filler: Path) -> None:
    """Fill the disk, and the last block of the database's file by changes that are no larger than a restart's."""

    def change(_: object) -> None:
        running.instance.db.root.next_cfg += 1

    with suppress(OSError):
        filler.write_bytes(bytes(8 << 20))
    with suppress(TestbedError):
        for number in range(100):
            running.instance.db.transact(change, f"change {number}", 5, applied=False)


def test_a_database_on_a_full_disk_is_evidence() -> None:
    """Steps: the run's disk fills up; restart. Verify: an error with what the database said, and nothing is left."""
    with run_base() as base:
        run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", base])
        try:
            journal = open_journal(base)
            filler = base / "filler"
            try:
                with started_on(testbed("netdev"), journal, "full") as running:
                    running.build(plain())
                    fill_up(running, filler)
                    with pytest.raises(TestbedError, match="the OVS database refused") as caught:
                        running.operation("restart", flows="lost").act()
                    assert "No space left on device" in caught.value.evidence["ovsdb-server"]
                    filler.unlink()
            finally:
                filler.unlink(missing_ok=True)
                journal.close()
            assert leftovers(journal.tag) == []
        finally:
            run(["umount", base])
