"""TRex for real: what was sent is counted to the frame, ports are given back at any end, faults have names.

Needs an installed TRex, whose directory NFV_TREX_DIR names; docs/reference/trex.md says what these tests found.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from pyroute2 import IPRoute

from pytest_nfvperf.adapters.process.journal import ProcessId
from pytest_nfvperf.adapters.process.process import wait_until
from pytest_nfvperf.features.trex.generator import TrexGenerator
from pytest_nfvperf.features.trex.stream_plan import latency_frames
from pytest_nfvperf.model.disturbance.trial import Reason, TrialResult
from pytest_nfvperf.model.errors import ConfigError, GeneratorError
from pytest_nfvperf.model.testbed.testbed import TrexRoute, TrexSpec
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import Direction, TrialSpec
from pytest_nfvperf.ports.generator import GeneratorPort
from tests.functional.ovs_support import needs_root
from tests.functional.trex_support import TrexLab, needs_trex, trex_lab

pytestmark = [needs_root, needs_trex]

PORTS = (GeneratorPort("a", "0", "02:00:00:00:00:0a"), GeneratorPort("b", "1", "02:00:00:00:00:0b"))
DIRECTIONS = (Direction("a", "b"), Direction("b", "a"))
RELEASED_WITHIN_S = 15.0


@pytest.fixture(scope="module")
def lab() -> Iterator[TrexLab]:
    with trex_lab() as made:
        yield made


@pytest.fixture
def trex(lab: TrexLab) -> Iterator[TrexGenerator]:
    with closing(lab.generator()) as generator:
        generator.attach(PORTS)
        generator.wait_links_up(5.0)
        generator.learn(Traffic(), DIRECTIONS)
        yield generator


def valid(generator: TrexGenerator, load_fps: int, duration_s: float, **changes: object) -> TrialResult:
    """A trial that the machine did not spoil."""
    traffic = changes.pop("traffic", Traffic())
    for _ in range(5):
        result = generator.run_trial(TrialSpec(traffic, load_fps, duration_s, DIRECTIONS, **changes))  # type: ignore[arg-type]
        if result.valid:
            return result
    pytest.fail(f"no valid trial on this machine: {'; '.join(map(str, result.invalid))}")


def test_ten_thousand_frames_a_second_both_ways_are_counted_to_the_frame(trex: TrexGenerator) -> None:
    for counts in valid(trex, 10_000, 2.0).counts:
        assert (counts.intended, counts.sent, counts.received) == (20_000, 20_000, 20_000)
        assert (counts.sent_bytes, counts.foreign, counts.elsewhere) == (20_000 * 64, 0, ())
        assert (counts.duplicated, counts.out_of_order, counts.corrupted) == (None, None, None), (
            "nine in ten are not looked at"
        )
        assert counts.latency is not None
        assert counts.latency.total == 2000  # one frame in ten, 1000 a second
        assert counts.elapsed_ns == 2_000_000_000


def test_a_trial_has_as_many_samples_as_latency_frames(trex: TrexGenerator) -> None:
    """The server keeps its count of the shortest latencies from trial to trial; ours is of the trial."""
    for number in range(15):
        for counts in valid(trex, 5000 - 200 * number, 0.2).counts:
            assert counts.latency is not None
            sampled = latency_frames(5000 - 200 * number, counts.intended)
            assert counts.latency.total == sampled - counts.lost == sampled


def test_a_server_that_is_too_slow_is_stopped_and_the_time_is_said(trex: TrexGenerator) -> None:
    result = trex.run_trial(TrialSpec(Traffic(), 14_000_000, 1.0, DIRECTIONS, latency=False))
    (told,) = [reason for reason in result.invalid if reason.code is Reason.STRETCHED_TIME]
    stopped = re.search(r"a trial of 1 s was stopped after ([0-9.]+) s", str(told))
    assert stopped
    assert float(stopped[1]) >= 1.25 + 1


def test_the_engine_takes_less_than_300_ms_beside_the_trial(trex: TrexGenerator) -> None:
    result = valid(trex, 1000, 1.0)
    began = time.monotonic()
    again = trex.run_trial(result.spec)
    overhead_s = time.monotonic() - began - result.spec.duration_s
    assert overhead_s < 0.3 or not again.valid


def test_a_port_that_somebody_else_holds_is_not_taken_by_force(lab: TrexLab, trex: TrexGenerator) -> None:
    with closing(lab.generator()) as other, pytest.raises(GeneratorError) as told:
        other.attach(PORTS)
    assert "port is already" in str(told.value)
    assert "write 'force: true' in the generator section" in str(told.value)
    assert trex.run_trial(TrialSpec(Traffic(), 1000, 0.1, DIRECTIONS)).counts[0].sent == 100


def test_it_is_taken_by_force_when_that_is_written(lab: TrexLab, trex: TrexGenerator) -> None:
    with closing(lab.generator(force=True)) as robber:
        robber.attach(PORTS)
        assert valid(robber, 1000, 0.1).counts[0].received == 100
    with pytest.raises(GeneratorError):
        trex.run_trial(TrialSpec(Traffic(), 1000, 0.1, DIRECTIONS))


def test_a_port_that_is_not_there(lab: TrexLab) -> None:
    with (
        closing(lab.generator()) as generator,
        pytest.raises(ConfigError, match=r"generator\.ports: .*the server has ports 0, 1, but no 7"),
    ):
        generator.attach([GeneratorPort("a", "7", "02:00:00:00:00:0a")])


def test_a_load_above_the_line_rate_is_said_before_the_start(trex: TrexGenerator) -> None:
    with pytest.raises(ConfigError, match=r"fill 10\.08 Gbit/s on the wire, and TRex port 0 has 10 Gbit/s"):
        trex.run_trial(TrialSpec(Traffic(), 15_000_000, 0.1, DIRECTIONS))


def test_a_gateway_that_nobody_answers_for(lab: TrexLab) -> None:
    route = TrexRoute(0, "10.9.0.2", "10.9.0.1")
    with closing(lab.generator(trex=TrexSpec(routes=(route,)))) as generator, pytest.raises(GeneratorError) as told:
        generator.attach(PORTS[:1])
    assert "nobody answered ARP: look at generator.trex.routes" in str(told.value)


def test_nobody_listens(lab: TrexLab) -> None:
    with pytest.raises(GeneratorError, match=r"nothing listens on 127\.0\.0\.1:4555"):
        lab.generator(trex=TrexSpec(rpc_port=4555))


def test_a_client_library_that_is_not_there(lab: TrexLab) -> None:
    with pytest.raises(ConfigError, match=r"generator\.client: there is no TRex client library under /nowhere"):
        lab.generator(client="/nowhere")


CLIENT = """
import sys, time
from pathlib import Path
from pytest_nfvperf.features.trex.generator import TrexGenerator
from pytest_nfvperf.model.testbed.testbed import GeneratorSpec
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import TrialSpec
from tests.functional.test_trex_server import PORTS, WAYS
from tests.functional.trex_support import started_in
client, netns, directory = sys.argv[1:]
spec = GeneratorSpec("trex", server="127.0.0.1", client=client)
generator = TrexGenerator(spec, Path(directory), started_in(netns))
generator.attach(PORTS)
print("attached", flush=True)
generator.run_trial(TrialSpec(Traffic(), 1000, 60.0, WAYS))
"""


def test_after_kill_9_traffic_stops_and_ports_are_released(lab: TrexLab, tmp_path: Path) -> None:
    assert lab.spec.client is not None
    victim = subprocess.Popen(
        [sys.executable, "-c", CLIENT, lab.spec.client, lab.namespace.name, str(tmp_path)],
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert victim.stdout is not None
    assert victim.stdout.readline() == b"attached\n"
    wait_until(lambda: sent(lab) > 0, "traffic", 10.0)
    victim.kill()
    victim.wait()
    victim.stdout.close()
    began = time.monotonic()
    with closing(lab.generator()) as next_one:
        wait_until(lambda: taken(next_one), "the ports to be released", RELEASED_WITHIN_S, interval_s=0.5)
        assert time.monotonic() - began < RELEASED_WITHIN_S
        assert valid(next_one, 1000, 0.2).counts[0].foreign == 0


def taken(generator: TrexGenerator) -> bool:
    try:
        generator.attach(PORTS)
    except GeneratorError:
        return False
    return True


def sent(lab: TrexLab) -> int:
    """Frames on the wire, as the kernel counts them."""
    with IPRoute(netns=lab.namespace.name) as links:
        link = links.link("get", ifname="trex0")[0]
    return int(dict(link["attrs"])["IFLA_STATS64"]["tx_packets"])


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_server_that_dies_or_freezes_in_a_trial_is_a_broken_testbed(number: signal.Signals) -> None:
    with trex_lab() as lab, closing(lab.generator()) as generator:
        generator.attach(PORTS)
        server = ProcessId.of(lab.server.pid)
        assert server is not None
        stopper = subprocess.Popen(["sh", "-c", f"sleep 1; kill -{int(number)} {server.pid}"])
        began = time.monotonic()
        with pytest.raises(GeneratorError, match=r"TRex server 127\.0\.0\.1 stopped answering") as told:
            generator.run_trial(TrialSpec(Traffic(), 1000, 20.0, DIRECTIONS))
        assert time.monotonic() - began < 20
        assert "look whether it still runs" in str(told.value)
        assert "Traceback" not in str(told.value)
        stopper.wait()
        if number is signal.SIGSTOP:
            os.kill(server.pid, signal.SIGCONT)
