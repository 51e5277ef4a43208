"""The embedded generator on real rings: VNF modes, monitors, several threads, its own judgement, its faults."""

from __future__ import annotations

import dataclasses
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from pytest_nfvperf.adapters.generators.embedded import trial_results
from pytest_nfvperf.adapters.generators.embedded.build import build
from pytest_nfvperf.adapters.generators.embedded.ceiling import loop_ports, measure_ceiling
from pytest_nfvperf.adapters.generators.embedded.generator import EmbeddedGenerator, EngineOptions
from pytest_nfvperf.model.disturbance import windows
from pytest_nfvperf.model.disturbance.trial import Reason
from pytest_nfvperf.model.errors import DeadlineError, GeneratorError
from pytest_nfvperf.model.topology.ports import PortRole, VnfMode
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import Direction
from pytest_nfvperf.ports.generator import VIRTIO_RING, GeneratorPort
from tests.functional.generator_support import (
    check_identities,
    embedded_in,
    hugepages_mib,
    loop_in,
    looped_rig,
    run_dir,
    spec,
)

MACS = tuple(f"02:00:00:00:00:{number:02x}" for number in range(1, 7))


@pytest.fixture
def directory() -> Iterator[Path]:
    with run_dir() as made:
        yield made


def until(what: str, condition: Callable[[], bool], deadline_s: float = 5.0) -> None:
    end = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end, f"not within {deadline_s} s: {what}"
        time.sleep(0.01)


def ring(number: int, **changes: object) -> GeneratorPort:
    """A port that loops its own frames back, on a DPDK ring."""
    port = GeneratorPort(f"r{number}", "net_ring", MACS[number], tx_descriptors=512, rx_descriptors=512)
    return dataclasses.replace(port, **changes)  # type: ignore[arg-type]


class TestVnf:
    """A chain p0 - loop - f0 ~ f1 - loop - p1 needs two loops; the forwarders run in the generator's own thread."""

    @pytest.fixture
    def chain(self, directory: Path) -> Iterator[Callable[..., EmbeddedGenerator]]:
        first, second = directory / "a", directory / "b"
        first.mkdir()
        second.mkdir()
        with loop_in(first) as near, loop_in(second) as far, embedded_in(directory) as generator:

            def attach(mode: VnfMode, drop_every: int = 0) -> EmbeddedGenerator:
                ends = [
                    GeneratorPort("p0", near.devices[0], MACS[0]),
                    GeneratorPort("p1", far.devices[1], MACS[1]),
                ]
                vnf = [
                    GeneratorPort(
                        "f0", near.devices[1], MACS[2], PortRole.FORWARDER, "f1", vnf_mode=mode, eth_peer=MACS[1]
                    ),
                    GeneratorPort(
                        "f1", far.devices[0], MACS[3], PortRole.FORWARDER, "f0", vnf_mode=mode, eth_peer=MACS[0]
                    ),
                ]
                generator.attach(ends)
                generator.attach(vnf, drop_every=drop_every)
                generator.wait_links_up(5.0)
                generator.learn(Traffic(), DIRECTIONS)
                return generator

            yield attach

    @pytest.mark.parametrize("mode", list(VnfMode))
    def test_forwards_both_ways_without_loss(self, chain: Callable[..., EmbeddedGenerator], mode: VnfMode) -> None:
        generator = chain(mode)
        result = generator.run_trial(spec(DIRECTIONS))
        for counts in result.counts:
            check_identities(counts)
        assert [vnf.port for vnf in result.vnfs] == ["f0", "f1"]
        assert [f.received for f in result.vnfs] == [f.sent for f in result.vnfs] == [c.sent for c in result.counts]

    def test_drops_what_it_is_asked_to_and_says_so(self, chain: Callable[..., EmbeddedGenerator]) -> None:
        generator = chain(VnfMode.IO, drop_every=100)
        result = generator.run_trial(spec(DIRECTIONS[:1]))
        dropped = result.vnfs[0].dropped
        assert dropped == result.sent // 100 > 0
        assert result.lost - sum(c.refused for c in result.counts) == dropped


DIRECTIONS = (Direction("p0", "p1"), Direction("p1", "p0"))


def test_ring_port_hears_itself(directory: Path) -> None:
    """Frames that pass by reference, without a copy, are counted alike."""
    with embedded_in(directory) as generator:
        generator.attach([ring(0)])
        result = generator.run_trial(spec((Direction("r0", "r0"),)))
        check_identities(result.counts[0])


def test_frames_due_elsewhere_are_misdirected(directory: Path) -> None:
    """A ring brings r0's frames back to r0, while they were due on r1."""
    with embedded_in(directory) as generator:
        generator.attach([ring(0), ring(1)])
        result = generator.run_trial(spec((Direction("r0", "r1"),), residual_s=0.05))
        assert result.counts[0].received == 0
        assert result.counts[0].elsewhere == (("r0", result.sent),)
        assert not [reason for reason in result.invalid if reason.code is Reason.FOREIGN_FRAMES]


def test_monitor_counts_streams_that_are_due_elsewhere(directory: Path) -> None:
    with loop_in(directory) as loop, embedded_in(directory) as generator:
        near, far = loop_ports(loop.devices)
        generator.attach([near, dataclasses.replace(far, name="m", role=PortRole.MONITOR), ring(0)])
        generator.wait_links_up(5.0)
        direction = (Direction(near.name, "r0"),)
        generator.learn(Traffic(), direction)
        result = generator.run_trial(spec(direction, residual_s=0.1))
        (seen,) = result.monitors
        assert (seen.port, seen.direction, seen.address) == ("m", direction[0], "")
        assert (seen.received, seen.duplicated, seen.out_of_order) == (result.sent, 0, 0)
        assert (seen.truncated, seen.corrupted, seen.received_bytes) == (0, 0, result.sent * 64)
        assert result.received == 0


def test_a_monitor_tells_copies_apart_by_their_destination(directory: Path) -> None:
    with loop_in(directory) as loop, embedded_in(directory) as generator:
        near, far = loop_ports(loop.devices)
        mine, other = "02:00:00:00:00:77", "02:00:00:00:00:78"
        watch = dataclasses.replace(far, name="m", role=PortRole.MONITOR, addresses=(other, mine))
        generator.attach([near, watch, ring(0)])
        generator.wait_links_up(5.0)
        direction = (Direction(near.name, "r0"),)
        generator.learn(Traffic(), direction)
        result = generator.run_trial(spec(direction, traffic=Traffic(dst_mac=mine), residual_s=0.1))
        assert [(seen.address, seen.received) for seen in result.monitors] == [(mine, result.sent)]
        elsewhere = generator.run_trial(spec(direction, residual_s=0.1))
        assert [(seen.address, seen.received) for seen in elsewhere.monitors] == [("", elsewhere.sent)]


def test_two_polling_threads(directory: Path) -> None:
    with loop_in(directory) as loop, looped_rig(directory, loop, cpus=(0, 1)) as rig:
        rig.attach()
        for _ in range(3):
            for counts in rig.generator.run_trial(spec(rig.directions)).counts:
                check_identities(counts)


def test_flows_over_two_queues_keep_their_order(directory: Path) -> None:
    """Blocks of 32 flows take turns: 64 flows use both queues, and within a flow nothing overtakes."""
    sockets = [directory / f"{end}.sock" for end in (0, 1)]
    loop = [
        GeneratorPort(f"l{end}", f"net_vhost,iface={path}", MACS[2 + end], PortRole.FORWARDER, f"l{1 - end}", queues=2)
        for end, path in enumerate(sockets)
    ]
    ends = [
        GeneratorPort(f"p{end}", f"net_virtio_user,path={path}", MACS[end], queues=2)
        for end, path in enumerate(sockets)
    ]
    with embedded_in(directory, "loop", cpus=(1,)) as forwarder, embedded_in(directory) as generator:
        forwarder.attach(loop)
        forwarder.forward()
        generator.attach(ends)
        generator.wait_links_up(5.0)
        generator.learn(Traffic(flows=64), DIRECTIONS)
        for flows in (64, 32):  # two queues may overtake one another, with 64; flows may not
            for counts in generator.run_trial(spec(DIRECTIONS, traffic=Traffic(flows=flows))).counts:
                check_identities(counts)


def test_overload_is_refused_or_owned_up_to_never_lost(directory: Path) -> None:
    """Far more than any rig can do: what did not go out is refused or skipped, what went out arrives."""
    with loop_in(directory) as loop, looped_rig(directory, loop) as rig:
        rig.attach()
        result = rig.generator.run_trial(spec(rig.directions, load_fps=100_000_000, duration_s=0.05, residual_s=1.0))
        for counts in result.counts:
            check_identities(counts)
            assert counts.refused + counts.skipped > 0
        assert result.loss_ratio is not None


@pytest.mark.parametrize(("give_up_loss", "given_up"), [(0.0, True), (0.9999, False), (None, False)])
def test_a_trial_that_cannot_pass_any_more_is_given_up_after_a_second(
    directory: Path, give_up_loss: float | None, given_up: bool
) -> None:
    """Whoever drains the rings pauses: what cannot wait is refused, from a quarter of a second on."""
    with loop_in(directory) as loop, looped_rig(directory, loop) as rig:
        rig.attach()
        os.kill(loop.pid, signal.SIGSTOP)
        try:
            wanted = spec(rig.directions, load_fps=20_000, duration_s=1.5, give_up_loss=give_up_loss)
            result = rig.generator.run_trial(wanted)
        finally:
            os.kill(loop.pid, signal.SIGCONT)
    assert result.given_up is given_up
    for counts in result.counts:
        assert counts.refused > 0
        assert counts.intended == counts.sent + counts.refused + counts.skipped
        waiting = rig.ports[0].queue_depth
        assert 20_000 - waiting <= counts.intended < 30_000 - waiting if given_up else counts.intended == 30_000
    assert 0.75 < result.due_s < 1.3 if given_up else result.due_s == 1.5


def test_what_undisturbed_windows_refused_gives_a_trial_up(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever drains the rings pauses, which no witness explains: the frames of those windows count."""
    for module in (trial_results, windows):  # a host may share its cores for the whole of the test
        monkeypatch.setattr(module, "FULL_SPEED", 100.0)
    with loop_in(directory) as loop, looped_rig(directory, loop) as rig:
        rig.attach()
        windowed = spec(rig.directions, load_fps=20_000, duration_s=1.5, give_up_loss=0.0, window_s=0.01)
        before = rig.generator.run_trial(windowed)  # from here on the generator knows its full speed
        os.kill(loop.pid, signal.SIGSTOP)
        try:
            result = rig.generator.run_trial(windowed)
        finally:
            os.kill(loop.pid, signal.SIGCONT)
    assert not before.given_up
    assert result.given_up
    assert result.judgement.undisturbed is not None
    refused = sum(counts.refused for counts in result.counts)
    # Beside what was refused, frames are lost that were sent last and never drained from the rings.
    assert 0 < refused <= result.lost
    assert 0 < result.judgement.undisturbed.lost <= result.lost


def test_a_trial_without_loss_is_not_given_up(directory: Path) -> None:
    with loop_in(directory) as loop, looped_rig(directory, loop) as rig:
        rig.attach()
        result = rig.generator.run_trial(spec(rig.directions, duration_s=1.2, give_up_loss=0.0))
    assert not result.given_up
    assert [counts.intended for counts in result.counts] == [24_000, 24_000]


def test_ceiling(directory: Path) -> None:
    settled = []
    shared = {"control_cpus": (0,), "run_dir": directory, "hugepages_mib": hugepages_mib()}
    settle = lambda generator: settled.extend(generator.distances((1,)))  # noqa: E731
    rate = measure_ceiling(Traffic(), settle, binary=build(), cpus=(0,), loop_cpu=1, **shared)
    assert [(distance.cpu, distance.other) for distance in settled] == [(0, 1)]
    assert rate > 1000


class TestFaults:
    def test_a_stop_during_a_trial_spoils_it(self, directory: Path) -> None:
        with loop_in(directory) as loop, looped_rig(directory, loop) as rig:
            generator = rig.attach()
            assert isinstance(generator, EmbeddedGenerator)
            stopper = threading.Thread(target=_stop_for_a_second, args=(generator.pid,))
            stopper.start()
            result = generator.run_trial(spec(rig.directions, load_fps=10_000, duration_s=1.5))
            stopper.join()
        assert {Reason.SKIPPED_FRAMES, Reason.LATE_POLL} <= {reason.code for reason in result.invalid}
        for counts in result.counts:
            assert counts.skipped > 5000
            assert counts.intended == counts.sent + counts.refused + counts.skipped

    def test_a_killed_engine_is_named_with_its_log(self, directory: Path) -> None:
        with embedded_in(directory) as generator:
            generator.attach([ring(0)])
            threading.Timer(0.3, os.kill, (generator.pid, signal.SIGKILL)).start()
            with pytest.raises(GeneratorError, match="it was killed by SIGKILL during trial") as caught:
                generator.run_trial(spec((Direction("r0", "r0"),), duration_s=30.0))
            assert "EAL: " in caught.value.evidence["generator log"]
            with pytest.raises(GeneratorError, match="the generator is gone: it was killed by SIGKILL during trial"):
                generator.detach(["r0"])

    def test_a_hanging_engine_is_killed_when_its_time_is_up(
        self, directory: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("pytest_nfvperf.adapters.generators.embedded.generator._COMMAND_DEADLINE_S", 0.5)
        with embedded_in(directory) as generator:
            os.kill(generator.pid, signal.SIGSTOP)
            with pytest.raises(GeneratorError, match=r"did not answer links within 0.5 s \(process state: T"):
                generator.wait_links_up(5.0)
            until("the engine is gone", lambda: not psutil.pid_exists(generator.pid))

    def test_it_dies_with_its_parent(self, directory: Path) -> None:
        """kill -9 of the process that started it ends it, and leaves no hugepage file and no runtime directory."""
        before = {path.name for path in Path("/var/run/dpdk").glob("*")}
        code = (
            "import sys, time; from pathlib import Path; "
            "from tests.functional.generator_support import embedded_in; "
            "held = embedded_in(Path(sys.argv[1])); print(held.__enter__().pid, flush=True); time.sleep(60)"
        )
        with subprocess.Popen(
            [sys.executable, "-c", code, str(directory)], stdout=subprocess.PIPE, text=True
        ) as parent:
            assert parent.stdout is not None
            engine = psutil.Process(int(parent.stdout.readline()))
            parent.kill()
        until("the engine is gone", lambda: not engine.is_running() or engine.status() == psutil.STATUS_ZOMBIE)
        assert {path.name for path in Path("/var/run/dpdk").glob("*")} - before == set()

    def test_a_program_that_is_none(self, directory: Path) -> None:
        with pytest.raises(GeneratorError, match=r"cannot start /nowhere/nfvperf-gen: .*run `nfvperf build`"):
            EmbeddedGenerator(
                Path("/nowhere/nfvperf-gen"), cpus=[0], control_cpus=[0], run_dir=directory, file_prefix="none"
            )

    def test_dpdk_that_does_not_start_says_why(self, directory: Path) -> None:
        with pytest.raises(GeneratorError, match="ended with exit code 1 during hello") as caught:
            EmbeddedGenerator(build(), cpus=[4095], control_cpus=[0], run_dir=directory, file_prefix="none")
        assert "DPDK did not start" in caught.value.evidence["generator log"]


class TestAttaching:
    def test_a_server_socket_without_a_client_is_given_up(self, directory: Path) -> None:
        with embedded_in(directory, options=EngineOptions(attach_timeout_s=0.3)) as generator:
            port = GeneratorPort("p0", f"net_virtio_user,path={directory}/s,server=1", MACS[0])
            with pytest.raises(GeneratorError, match=r"cannot attach p0 .*nobody connected to its socket"):
                generator.attach([port])
            assert generator.info().version

    def test_a_socket_left_by_a_killed_process_is_no_obstacle(self, directory: Path) -> None:
        path = directory / "s"
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(path))
        port = GeneratorPort("p0", f"net_virtio_user,path={path},server=1", MACS[0])
        options = EngineOptions(attach_timeout_s=0.3)
        with (
            embedded_in(directory, options=options) as generator,
            pytest.raises(GeneratorError, match="nobody connected to its socket"),
        ):
            generator.attach([port])

    def test_a_socket_path_may_be_as_long_as_unix_takes_it(self, directory: Path) -> None:
        path = directory / ("s" * (107 - len(f"{directory}/")))
        with embedded_in(directory) as generator:
            generator.attach(
                [
                    GeneratorPort("p0", f"net_vhost,iface={path}", MACS[0]),
                    GeneratorPort("p1", f"net_virtio_user,path={path},{VIRTIO_RING}", MACS[1]),
                ]
            )
            generator.wait_links_up(5.0)
            generator.detach(["p0", "p1"])
            generator.attach([ring(0)])

    def test_half_an_attach_is_undone(self, directory: Path) -> None:
        with embedded_in(directory) as generator:
            broken = GeneratorPort("p1", f"net_virtio_user,path={directory}/nobody", MACS[1])
            with pytest.raises(GeneratorError, match="cannot attach p1"):
                generator.attach([ring(0), broken])
            generator.attach([ring(0)])

    def test_a_link_that_stays_down_is_named(self, directory: Path) -> None:
        with embedded_in(directory) as generator:
            generator.attach([ring(0), GeneratorPort("p1", f"net_vhost,iface={directory}/s", MACS[1])])
            with pytest.raises(
                DeadlineError, match=r"waited 0\.1 s for link on the generator's ports; last seen: no link on p1"
            ):
                generator.wait_links_up(0.1)


def _stop_for_a_second(pid: int) -> None:
    time.sleep(0.3)
    os.kill(pid, signal.SIGSTOP)
    time.sleep(1.0)
    os.kill(pid, signal.SIGCONT)
