"""VNFs that are dpdk-testpmd processes: frames go through them, their counters add up, and their faults are told."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.adapters.vnf import testpmd
from pytest_nfvperf.adapters.vnf.guest import GuestVnf
from pytest_nfvperf.adapters.vnf.testpmd import TestpmdVnf
from pytest_nfvperf.model.errors import ConfigError, DeadlineError, TestbedError
from pytest_nfvperf.model.topology.compose import compose
from pytest_nfvperf.model.topology.parts import endpoint, path, vnf
from pytest_nfvperf.model.topology.ports import VnfMode
from pytest_nfvperf.model.topology.workloads import vm_chain
from pytest_nfvperf.model.traffic.trial import Direction
from pytest_nfvperf.ports.generator import GeneratorPort, VnfSpec
from tests.functional.ovs_support import needs_hugepages, needs_root
from tests.functional.vnf_support import VnfRig, vnf_rig

pytestmark = [needs_root, needs_hugepages]

CALM_FPS = 5_000
SPEC = VnfSpec(
    "vm1", (GeneratorPort("vm1", "net_null,copy=0", "02:00:00:00:00:01", eth_peer="02:00:00:00:00:02"),), VnfMode.MAC
)
RESOURCES = {"cpu": 0, "control_cpus": (0,), "hugepages": True}


@pytest.fixture(scope="module")
def rig() -> Iterator[VnfRig]:
    with vnf_rig() as made:
        yield made


def pid_of(rig: VnfRig, vnf: str) -> int:
    (entry,) = [entry for entry in rig.journal.entries if entry.name == f"dpdk-testpmd of VNF {vnf}"]
    return int(entry.details["pid"])


def test_two_vms_forward_and_count_every_frame(rig: VnfRig) -> None:
    """S4's chain. On two cores they share the generator's CPU: frames are skipped, those that were sent all arrive."""
    trial = rig.trial(rig.deployment(vm_chain(2, kind="testpmd")), CALM_FPS)
    sent = trial.result.sent
    assert trial.result.received == sent > 0
    assert [(vm.port, vm.received, vm.sent) for vm in trial.result.vnfs] == [("vm1", sent, sent), ("vm2", sent, sent)]
    assert trial.ledger is not None
    assert {hop.left for hop in trial.ledger.paths[0].hops} == {sent}


@pytest.mark.parametrize("mode", [pytest.param("io", marks=pytest.mark.thorough("another mode")), "mac"])
def test_a_vnf_between_two_ports_forwards_both_ways(rig: VnfRig, mode: str) -> None:
    ends = (endpoint("p0", "br0"), endpoint("p1", "br0"))
    topology = compose("pvp", *ends, vnf("v1", "br0", mode=mode, kind="testpmd"), path("p0", "v1", "p1"))
    trial = rig.trial(rig.deployment(topology), CALM_FPS)
    counted = {vm.port: (vm.received, vm.sent) for vm in trial.result.vnfs}
    there, back = trial.result.counts
    assert (there.direction, there.received) == (Direction("p0", "p1"), there.sent)
    assert counted == {"v1a": (there.sent, there.sent), "v1b": (back.sent, back.sent)}


def test_one_that_dies_during_a_trial_is_named(rig: VnfRig) -> None:
    live = rig.deployment(vm_chain(1, kind="testpmd"))
    pid = pid_of(rig, "vm1")
    killer = threading.Timer(0.1, os.kill, (pid, signal.SIGKILL))
    killer.start()
    with pytest.raises(TestbedError, match=rf"^dpdk-testpmd of VNF vm1 \(pid {pid}\) was killed by SIGKILL"):
        rig.trial(live, CALM_FPS)
    killer.join()
    rig.rig.remove_topology()
    assert rig.trial(rig.deployment(vm_chain(1, kind="testpmd")), CALM_FPS).result.received > 0


@pytest.mark.thorough("more of the same")
def test_one_that_hangs_is_named_with_its_state(rig: VnfRig, monkeypatch: pytest.MonkeyPatch) -> None:
    live = rig.deployment(vm_chain(1, kind="testpmd"))
    monkeypatch.setattr(testpmd, "ANSWER_DEADLINE_S", 0.3)
    os.kill(pid_of(rig, "vm1"), signal.SIGSTOP)
    with pytest.raises(DeadlineError) as caught:
        rig.trial(live, CALM_FPS)
    assert caught.value.message.startswith(
        "dpdk-testpmd of VNF vm1: waited 0.3 s for an answer to 'show fwd stats all'; last seen: "
    )
    assert "(process state: T (stopped))" in caught.value.message
    rig.rig.remove_topology()


def test_ports_that_are_not_vhost_user_are_refused() -> None:
    with vnf_rig("netdev") as rig, pytest.raises(ConfigError) as caught:
        rig.deployment(vm_chain(1, kind="testpmd"))
    assert str(caught.value) == (
        "VNF 'vm1' is of kind testpmd, which needs vhost-user ports; 'vm1' is net_af_packet: "
        'use Dut("dpdk"), or kind="loop"'
    )


def test_without_testpmd_the_package_is_named(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TestbedError) as caught:
        TestpmdVnf(journal, SPEC, **RESOURCES)
    assert str(caught.value) == (
        "VNF 'vm1' asks for a dpdk-testpmd process, and this machine has no dpdk-testpmd: "
        'apt-get install dpdk-dev, or use kind="loop"'
    )


def test_without_qemu_the_package_is_named(journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TestbedError) as caught:
        GuestVnf(journal, SPEC, (0,))
    assert str(caught.value) == (
        "VNF 'vm1' asks for a QEMU guest, which this machine cannot run: the guest needs qemu-system-x86_64: apt-get "
        'install qemu-system-x86 (or `make test-kernel`, which does it); or use kind="testpmd" or "loop"'
    )


def test_another_version_with_other_statistics_is_an_error_never_0(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in that prints what testpmd printed before DPDK 2.0."""
    program = tmp_path / "dpdk-testpmd"
    program.write_text(
        """#!/bin/sh
echo "EAL: RTE Version: 'DPDK 1.8.0'" >&2
printf 'testpmd> '
while read -r command; do
    printf '%s\\n  RX-packets = 12 for port 0\\ntestpmd> ' "$command"
done
"""
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    old = TestpmdVnf(journal, SPEC, **RESOURCES)
    old.wait_ready()
    with pytest.raises(TestbedError) as caught:
        old.counts()
    old.close()
    assert caught.value.message == (
        "dpdk-testpmd of DPDK 1.8.0 prints statistics that are not understood: 'RX-packets = 12 for port 0'; the "
        'formats of DPDK 20.11 to 25.11 are known. Take one of them; a VNF of kind "loop" needs none'
    )


def test_one_that_cannot_start_is_told_with_its_own_words(journal: Journal) -> None:
    broken = VnfSpec("vm1", (GeneratorPort("vm1", "net_nothing_of_this_name", "02:00:00:00:00:01"),))
    wrong = TestpmdVnf(journal, broken, **RESOURCES)
    with pytest.raises(TestbedError, match=r"^dpdk-testpmd of VNF vm1 \(pid \d+\) exited with status 1") as caught:
        wrong.wait_ready()
    wrong.close()
    assert "net_nothing_of_this_name" in caught.value.evidence["testpmd-vm1.log"]
