"""Tests that run inside the virtual lab, on its PCI NICs: tests/kernel/test_pci_lab.py boots it and reads the results.

Counts are asserted, never rates: an emulated NIC carries some 9,000 frames a second. Tests that need no rig come first;
the first of them kills one, so whatever comes after it shows that the NICs still work.
"""

from __future__ import annotations

import dataclasses
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from pytest_nfvperf.adapters.host.cpus import complete_testbed
from pytest_nfvperf.adapters.machine.reaper import reap
from pytest_nfvperf.adapters.ovs.ovs_datapath import OvsDatapath
from pytest_nfvperf.adapters.process.journal import base_directory
from pytest_nfvperf.backends.embedded_side import EmbeddedSide
from pytest_nfvperf.backends.local import LocalBackend
from pytest_nfvperf.features.virtual_lab import ADDRESSES, LabNics, ask_host
from pytest_nfvperf.measure.rig import LiveTopology, Rig
from pytest_nfvperf.measure.trials import Context, Recorder, Trial
from pytest_nfvperf.model.disturbance.trial import Reason
from pytest_nfvperf.model.errors import ConfigError, TestbedError
from pytest_nfvperf.model.testbed.testbed import CableSpec, Testbed
from pytest_nfvperf.model.topology.compose import phy2phy
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import TrialSpec
from pytest_nfvperf.ports.machine import Progress
from tests.config_support import parse_testbed
from tests.functional.ovs_support import leftovers

LOAD_FPS = 1000
SIZES = (64, 1518, 9018)
JUMBO_MTU = 9000
DESCRIPTORS = 128
"""So few that a switch that is stopped for a quarter of a second misses frames."""
OVS_LINK_WATCH_S = 5.0
"""OVS looks at the links of its DPDK ports this often (lib/netdev-dpdk.c, DPDK_PORT_WATCHDOG_INTERVAL)."""
PCI = Path("/sys/bus/pci")


def lab_testbed(*, reversed_roles: bool = False) -> Testbed:
    testbed, _ = parse_testbed(LabNics().testbed(reversed_roles=reversed_roles), "lab.yaml")
    testbed = complete_testbed(testbed)
    ports = tuple(dataclasses.replace(port, mtu=JUMBO_MTU, rx_descriptors=DESCRIPTORS) for port in testbed.ports)
    return dataclasses.replace(testbed, ports=ports)


@contextmanager
def rig_of(testbed: Testbed) -> Iterator[Rig]:
    with closing(LocalBackend(testbed, EmbeddedSide(testbed))) as backend:
        backend.check()
        context = Context(Recorder("lab", [], backend.clock), Progress(), backend.clock)
        with closing(Rig(backend.parts(), context)) as rig:
            yield rig


def live_on(rig: Rig, mtu: int = JUMBO_MTU) -> LiveTopology:
    live = rig.live(phy2phy(mtu=mtu), 0)
    live.learn(Traffic())
    return live


def run_trial(
    live: LiveTopology,
    size: int = 64,
    duration_s: float = 1.0,
    meanwhile: Callable[[], object] | None = None,
    traffic: Traffic | None = None,
) -> Trial:
    """One trial. ``meanwhile``: runs in a thread that starts with it. ``traffic``: other than frames of this size."""
    traffic = traffic or Traffic(frame_size=size)
    spec = TrialSpec(traffic, LOAD_FPS, duration_s, live.topology.directions, residual_s=1.0)
    thread = threading.Thread(target=meanwhile) if meanwhile is not None else None
    trial = live.runner.run_once(spec, begins=thread.start if thread is not None else None)
    if thread is not None:
        thread.join()
    return trial


def run_and_be_killed() -> None:
    """For a process of its own: build everything, say so, and wait."""
    with rig_of(lab_testbed()) as rig:
        live_on(rig)
        print("ready", flush=True)
        signal.pause()


def test_a_killed_run_leaves_nothing() -> None:
    code = "from tests.kernel.pci_scenarios import run_and_be_killed as run; run()"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == "ready\n"
        (directory,) = [path for path in base_directory().iterdir() if path.is_dir()]
        assert leftovers(directory.name)
        run.kill()
    reaped = reap()
    assert reaped.failed == ()
    assert leftovers(directory.name) == []
    assert not directory.exists()


def problem_of(testbed: Testbed) -> str:
    """What the check before a run says."""
    with (
        pytest.raises((ConfigError, TestbedError)) as caught,
        closing(LocalBackend(testbed, EmbeddedSide(testbed))) as backend,
    ):
        backend.check()
    return str(caught.value)


def test_a_nic_that_is_absent_is_named() -> None:
    testbed = lab_testbed()
    absent = dataclasses.replace(testbed.ports[1], pci="0000:00:1e.0")
    said = problem_of(dataclasses.replace(testbed, ports=(testbed.ports[0], absent)))
    assert "dut.ports[1].pci" in said
    assert "this machine has no PCI device 0000:00:1e.0" in said


def test_a_nic_that_nobody_has_bound_is_named() -> None:
    address = ADDRESSES[0]
    device = PCI / "devices" / address
    (device / "driver/unbind").write_text(address)
    try:
        said = problem_of(lab_testbed())
    finally:
        (PCI / "drivers_probe").write_text(address)
    assert (device / "driver").resolve().name == "vfio-pci"
    assert f"DPDK cannot take PCI device {address}" in said
    assert "vfio-pci" in said


def test_crossed_cables_are_found() -> None:
    testbed = lab_testbed()
    crossed = dataclasses.replace(testbed, links=(CableSpec("0", "dpdk1"), CableSpec("1", "dpdk0")))
    with rig_of(crossed) as rig, pytest.raises(TestbedError) as caught:
        live_on(rig)
    assert "port 0 of the generator is not connected to dpdk1 but to dpdk0" in caught.value.message
    assert "links: [[generator.0, dut.dpdk0], [generator.1, dut.dpdk1]]" in caught.value.message


@pytest.mark.parametrize("end", ["dut1", "gen1"])
def test_a_cut_cable_is_found(end: str) -> None:
    ask_host(f"set_link {end} off")
    try:
        with rig_of(lab_testbed()) as rig, pytest.raises(TestbedError) as caught:
            live_on(rig)
    finally:
        ask_host(f"set_link {end} on")
    assert "a cable of the testbed file has no link" in caught.value.message


@pytest.fixture(scope="module", params=["vmxnet3", "virtio"])
def rig(request: pytest.FixtureRequest) -> Iterator[Rig]:
    """Of a DUT on NICs of this model, with a generator on those of the other."""
    with rig_of(lab_testbed(reversed_roles=request.param == "virtio")) as made:
        yield made


@pytest.mark.parametrize("size", SIZES)
def test_every_frame_comes_through(rig: Rig, size: int) -> None:
    result = run_trial(live_on(rig), size).result
    assert [counts.received for counts in result.counts] == [counts.sent for counts in result.counts], result
    assert result.received > 0
    assert all(counts.corrupted == counts.foreign == counts.duplicated == 0 for counts in result.counts), result


def stop_switch(rig: Rig, after_s: float, seconds: float) -> None:
    datapath = rig.datapath()
    assert isinstance(datapath, OvsDatapath)
    time.sleep(after_s)
    os.kill(datapath.instance.pid, signal.SIGSTOP)
    time.sleep(seconds)
    os.kill(datapath.instance.pid, signal.SIGCONT)


def model_of_dut(request: pytest.FixtureRequest) -> str:
    return str(request.node.callspec.params["rig"])


def test_frames_that_a_nic_missed_are_in_the_ledger_once(rig: Rig, request: pytest.FixtureRequest) -> None:
    """A virtio device waits for buffers and misses none: its ring holds a second's frames, whatever OVS asked for."""
    trial = run_trial(live_on(rig), duration_s=2, meanwhile=lambda: stop_switch(rig, 0.5, 1.0))
    ledger = trial.ledger
    assert ledger is not None
    missed = sum(line.frames for line in ledger.lines if line.reason == "rx_missed_errors")
    assert (missed > 0) == (model_of_dut(request) == "vmxnet3"), ledger
    assert missed <= trial.result.lost, ledger
    assert sum(line.frames for line in ledger.lines) == trial.result.lost, ledger
    assert (ledger.unaccounted, ledger.foreign) == (0, 0), ledger


def flap(name: str, after_s: float, seconds: float) -> None:
    time.sleep(after_s)
    ask_host(f"set_link {name} off")
    time.sleep(seconds)
    ask_host(f"set_link {name} on")


def test_a_link_that_goes_and_comes_in_a_trial_is_nobodys_loss(rig: Rig, request: pytest.FixtureRequest) -> None:
    seconds = OVS_LINK_WATCH_S + 1
    near = {"vmxnet3": "dut0", "virtio": "gen0"}[model_of_dut(request)]
    trial = run_trial(live_on(rig), duration_s=seconds + 3, meanwhile=lambda: flap(near, 0.5, seconds))
    reasons = [reason.detail for reason in trial.result.invalid if reason.code is Reason.LINK_DOWN]
    assert any(re.search(r"\bdpdk0\b", reason) for reason in reasons), reasons
    assert trial.result.lost > 0


def test_a_link_of_the_generators_that_goes_and_comes_in_a_trial_is_nobodys_loss(
    rig: Rig, request: pytest.FixtureRequest
) -> None:
    """The kernel counts no link of a NIC that vfio has, and after the trial it is up."""
    far = {"vmxnet3": "gen1", "virtio": "dut1"}[model_of_dut(request)]
    trial = run_trial(live_on(rig), duration_s=2, meanwhile=lambda: flap(far, 0.5, 0.5))
    reasons = [reason.detail for reason in trial.result.invalid if reason.code is Reason.LINK_DOWN]
    assert len(reasons) == 1, trial.result.invalid
    when = r"the generator's port p1 \([0-9a-f:.]+\) lost its link \d\.\d s after the trial began, for \d\.\d s"
    assert re.fullmatch(when, reasons[0]), reasons
    assert trial.result.lost > 0
