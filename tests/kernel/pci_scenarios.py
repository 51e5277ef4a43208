"""Tests that run inside the virtual lab, on its PCI NICs: tests/kernel/test_pci_lab.py boots it and reads the results.

Counts are asserted, never rates: an emulated NIC carries some 9,000 frames a second.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import pytest

from pytest_nfvperf.adapters.host.cpus import complete_testbed
from pytest_nfvperf.adapters.report.terminal_progress import SilentProgress
from pytest_nfvperf.backends.embedded_side import EmbeddedSide
from pytest_nfvperf.backends.local import LocalBackend
from pytest_nfvperf.config.testbed_file import parse_testbed
from pytest_nfvperf.features.virtual_lab.lab import LabNics
from pytest_nfvperf.measure.rig import LiveTopology, Rig
from pytest_nfvperf.measure.trials import Context, Recorder, Trial
from pytest_nfvperf.model.testbed.testbed import Testbed
from pytest_nfvperf.model.topology.compose import phy2phy
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import TrialSpec

LOAD_FPS = 1000
SIZES = (64, 1518, 9018)
JUMBO_MTU = 9000


def lab_testbed(*, reversed_roles: bool = False) -> Testbed:
    testbed, _ = parse_testbed(LabNics().testbed(reversed_roles=reversed_roles), "lab.yaml")
    testbed = complete_testbed(testbed)
    ports = tuple(dataclasses.replace(port, mtu=JUMBO_MTU) for port in testbed.ports)
    return dataclasses.replace(testbed, ports=ports)


@contextmanager
def rig_of(testbed: Testbed) -> Iterator[Rig]:
    with closing(LocalBackend(testbed, EmbeddedSide(testbed))) as backend:
        backend.check()
        context = Context(Recorder("lab", [], backend.clock), SilentProgress(), backend.clock)
        with closing(Rig(backend.parts(), context)) as rig:
            yield rig


@pytest.fixture(scope="module", params=["vmxnet3"])
def rig(request: pytest.FixtureRequest) -> Iterator[Rig]:
    """Of a DUT on NICs of this model, with a generator on those of the other."""
    with rig_of(lab_testbed(reversed_roles=request.param == "virtio")) as made:
        yield made


def live_on(rig: Rig) -> LiveTopology:
    live = rig.live(phy2phy(mtu=JUMBO_MTU), 0)
    live.learn(Traffic())
    return live


def run_trial(
    live: LiveTopology, size: int = 64, duration_s: float = 1.0, meanwhile: Callable[[], None] | None = None
) -> Trial:
    """One trial. ``meanwhile``: runs in a thread that starts with it."""
    spec = TrialSpec(Traffic(frame_size=size), LOAD_FPS, duration_s, live.topology.directions, residual_s=1.0)
    thread = threading.Thread(target=meanwhile) if meanwhile is not None else None
    trial = live.runner.run_once(spec, begins=thread.start if thread is not None else None)
    if thread is not None:
        thread.join()
    return trial


@pytest.mark.parametrize("size", SIZES)
def test_every_frame_comes_through(rig: Rig, size: int) -> None:
    result = run_trial(live_on(rig), size).result
    assert [counts.received for counts in result.counts] == [counts.sent for counts in result.counts], result
    assert result.received > 0
    assert all(counts.corrupted == counts.foreign == counts.duplicated == 0 for counts in result.counts), result
