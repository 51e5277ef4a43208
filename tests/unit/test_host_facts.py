"""Fingerprint and doctor on this machine and on made-up ones."""

from __future__ import annotations

import dataclasses
import json
import socket
from pathlib import Path

import pytest

from pytest_nfvperf.adapters.host.hugepages import Hugepages, Pool
from pytest_nfvperf.adapters.machine import machine_checks as machine
from pytest_nfvperf.adapters.machine.fingerprint import fingerprint, running_facts
from pytest_nfvperf.adapters.machine.machine_checks import Check, CheckState, checks
from pytest_nfvperf.model.testbed.testbed import CpuPlan, DutPort, GeneratorSpec, OvsSpec, Testbed, TrexSpec

TESTBED = Testbed(
    name="made-up",
    ovs=OvsSpec(),
    cpus=CpuPlan((0,), (1,), (0,)),
    ports=(DutPort("dpdk0", "pci", pci="ffff:00:00.0", rx_descriptors=2048),),
    generator=GeneratorSpec(),
    links=(),
)


def test_a_fingerprint_is_plain_json_without_empty_facts() -> None:
    facts = fingerprint(TESTBED, {"generator": "nfvperf-gen 1"})
    assert json.loads(json.dumps(facts)) == facts
    assert not [name for name, value in facts.items() if value in (None, "", {})]
    assert {"kernel", "cpus", "cpu_plan", "hugepages_mib", "nfvperf", "generator"} <= facts.keys()
    assert facts["ports"]["dpdk0"] == {"kind": "pci", "rxq": 1, "rx_descriptors": 2048}


def test_two_fingerprints_of_one_machine_are_equal() -> None:
    assert fingerprint(TESTBED) == fingerprint(TESTBED)


def test_an_ovs_that_cannot_be_found_is_absent() -> None:
    nowhere = dataclasses.replace(TESTBED, ovs=OvsSpec(prefix="/no/such/prefix"))
    facts = fingerprint(nowhere)
    assert "ovs" not in facts
    assert facts["datapath"] == "dpdk"


def test_queues_and_configuration_of_a_running_ovs_are_facts_without_the_runs_tag() -> None:
    listing = (
        "Displaying last 60 seconds pmd usage %\n"
        "pmd thread numa_id 0 core_id 1:\n  isolated : false\n"
        "  port: p0                queue-id:  0 (enabled)   pmd usage: NOT AVAIL\n"
        "pmd thread numa_id 0 core_id 2:\n"
        "  port: p1                queue-id:  1 (enabled)   pmd usage:  3 %\n"
    )
    facts = running_facts(listing, {"dpdk-extra": "--no-pci --file-prefix=nfv-abc123-ovs --in-memory"})
    assert facts["rxq_to_pmd"] == {"p0.0": 1, "p1.1": 2}
    assert facts["other_config"] == {"dpdk-extra": "--no-pci  --in-memory"}


def by_name(found: list[Check]) -> dict[str, Check]:
    assert len({check.name for check in found}) == len(found)
    return {check.name: check for check in found}


def test_every_lack_comes_with_advice() -> None:
    for check in checks():
        assert check.seen, check
        assert check.state is CheckState.OK or check.advice, check


def test_a_wrong_prefix_is_a_lack_that_is_needed() -> None:
    found = by_name(checks(dataclasses.replace(TESTBED, ovs=OvsSpec(prefix="/no/such/prefix"))))
    assert (found["Open vSwitch"].state, found["Open vSwitch"].needed) == (CheckState.MISSING, True)
    assert "/no/such/prefix/sbin/ovs-vswitchd" in found["Open vSwitch"].advice
    assert found["DPDK in OVS"].state is CheckState.MISSING


def test_not_being_root_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    root = by_name(checks())["root"]
    assert (root.state, root.seen, root.needed) == (CheckState.MISSING, "uid 1000", True)
    assert "\n" not in root.advice


@pytest.mark.parametrize(
    ("pages", "state"),
    [
        (Hugepages((Pool(2, total=255, free=255),)), CheckState.MISSING),
        (Hugepages((Pool(2, total=1024, free=256),)), CheckState.WARN),
        (Hugepages((Pool(2, total=1024, free=1024),)), CheckState.OK),
        (Hugepages((Pool(2), Pool(1024, total=8, free=1))), CheckState.MISSING),
        (Hugepages((Pool(2), Pool(1024, total=8, free=2))), CheckState.WARN),
        (Hugepages((Pool(2), Pool(1024, total=8, free=8))), CheckState.OK),
    ],
)
def test_hugepages_are_judged_by_what_is_free(
    monkeypatch: pytest.MonkeyPatch, pages: Hugepages, state: CheckState
) -> None:
    monkeypatch.setattr(machine, "read_hugepages", lambda: pages)
    check = by_name(checks())["hugepages"]
    assert check.state is state
    assert ("/nr_hugepages" in check.advice) == (state is not CheckState.OK)


def test_a_host_of_1_gib_pages_is_not_asked_for_2_tib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "read_hugepages", lambda: Hugepages((Pool(1024, total=2, free=0),)))
    check = by_name(checks())["hugepages"]
    assert check.seen == "0 of 2048 MiB free in pages of 1 GiB"
    assert check.advice.startswith(
        "echo 6 > /sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages (6 GiB in pages of 1 GiB); without room"
    )


def test_a_kernel_without_hugepages_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "read_hugepages", Hugepages)
    check = by_name(checks())["hugepages"]
    assert (check.state, check.seen) == (CheckState.MISSING, "not in this kernel")
    assert check.advice.startswith("this kernel has no hugepages (CONFIG_HUGETLBFS)")


def test_one_cpu_is_too_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0})
    assert by_name(checks())["cores"].state is CheckState.MISSING


def trex(server: str, rpc_port: int = 1) -> Testbed:
    return dataclasses.replace(
        TESTBED, generator=GeneratorSpec("trex", server=server, trex=TrexSpec(rpc_port=rpc_port))
    )


def test_trex_is_looked_at_only_when_a_testbed_names_it() -> None:
    assert "not needed" in by_name(checks())["TRex"].seen
    assert "TRex server" in by_name(checks(trex("127.0.0.1")))


def test_a_trex_server_that_listens_is_found() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert by_name(checks(trex("127.0.0.1", server.getsockname()[1])))["TRex server"].state is CheckState.OK
    found = by_name(checks(trex("127.0.0.1")))["TRex server"]
    assert (found.state, found.needed) == (CheckState.MISSING, True)
    assert "./t-rex-64 -i" in found.advice


def test_a_trex_client_is_looked_for_where_it_is_said_to_be(tmp_path: Path) -> None:
    missing = by_name(checks(with_client(tmp_path)))["TRex client"]
    assert (missing.state, missing.seen) == (CheckState.MISSING, f"none in {tmp_path}")
    (tmp_path / "automation" / "trex_control_plane").mkdir(parents=True)
    there = by_name(checks(with_client(tmp_path)))["TRex client"]
    assert there.state is CheckState.WARN
    assert there.seen.endswith("not tried: the server does not answer"), "only a server knows whether it understands it"


def with_client(path: Path) -> Testbed:
    return dataclasses.replace(TESTBED, generator=GeneratorSpec("trex", server="127.0.0.1", client=str(path)))
