"""NICs of the generator's ports as they were seen to behave: what they lose or do not let in is never the DUT's loss.

A real engine on a veth pair, with a driver that stands in front of DPDK's (tests/native/nic_double.c). The wire between
the two ports loses nothing, so every missing frame is the rig's.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from pytest_nfvperf.adapters.generators.embedded.generator import EmbeddedGenerator, EngineOptions
from pytest_nfvperf.adapters.generators.engine import Engine
from pytest_nfvperf.adapters.net.namespaces import LiveNamespace
from pytest_nfvperf.model.disturbance.trial import Reason, TrialResult
from pytest_nfvperf.model.errors import GeneratorError
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import Direction, TrialSpec
from pytest_nfvperf.ports.generator import GeneratorPort
from tests.functional.generator_support import embedded_in, run_dir
from tests.functional.ovs_support import clean_run, needs_root
from tests.functional.trex_support import veth

pytestmark = needs_root

MACS = {"a": "02:00:00:00:00:0a", "b": "02:00:00:00:00:0b"}
THERE = Direction("a", "b")
FRAMES = 2000
Wire = Callable[..., AbstractContextManager[tuple[EmbeddedGenerator, str]]]


@pytest.fixture(scope="module")
def double(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = tmp_path_factory.mktemp("double") / "nic_double.so"
    source = Path(__file__).parents[1] / "native/nic_double.c"
    flags = subprocess.check_output(["pkg-config", "--cflags", "libdpdk"], text=True).split()
    warnings = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-DALLOW_EXPERIMENTAL_API"]
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-O2", *warnings, *flags, "-o", str(library), str(source), "-ldl"], check=True
    )
    return library


@pytest.fixture
def wire(double: Path) -> Wire:
    @contextmanager
    def made(how: str) -> Iterator[tuple[EmbeddedGenerator, str]]:
        with clean_run() as journal, run_dir() as directory:
            space = LiveNamespace(journal, "wire")
            veth(space, 1500, "nic0", "nic1")
            inside = ["nsenter", f"--net=/run/netns/{space.name}", "env", f"LD_PRELOAD={double}", f"NIC_DOUBLE={how}"]
            options = EngineOptions(start=lambda argv, log, env: Engine([*inside, *argv], log, env))
            with embedded_in(directory, options=options) as generator:
                yield generator, space.name

    return made


def ports(bus: str = "") -> list[GeneratorPort]:
    """``bus``: "vdev:" makes the engine take the devices for ones on a bus, as NICs are."""
    devices = [f"{bus}net_af_packet{at if bus else ''},iface=nic{at}" for at in (0, 1)]
    return [GeneratorPort(name, device, mac) for device, (name, mac) in zip(devices, MACS.items(), strict=True)]


def trial(generator: EmbeddedGenerator, interval_s: float | None = None, seconds: float = 0.5) -> TrialResult:
    generator.wait_links_up(5.0)
    spec = TrialSpec(Traffic(frame_size=64), FRAMES * 2, seconds, (THERE,), residual_s=0.3)
    if interval_s is None:
        return generator.run_trial(spec)
    running = generator.start_trial(spec, interval_s)
    while running.next_interval() is not None:
        pass
    return running.result()


def mac_of(namespace: str, interface: str) -> str:
    command = ["nsenter", f"--net=/run/netns/{namespace}", "ip", "-o", "link", "show", interface]
    return subprocess.check_output(command, text=True).split("link/ether ")[1].split()[0]


def test_a_driver_with_two_rings_a_queue_is_not_deaf(wire: Wire) -> None:
    """Its rings took all of the 1,152 buffers, and the DUT was blamed: "1,871 lost, unexplained"."""
    with wire("two_rings") as (generator, _):
        generator.attach(ports())
        result = trial(generator, seconds=1.5)  # 6,000 frames, of which a busy machine may keep most from being sent
    (counts,) = result.counts
    assert counts.received == counts.sent > 1_871
    assert {nic.rx_nombuf for nic in result.nics} == {0}


def test_frames_that_the_nic_missed_are_the_rigs_loss(wire: Wire) -> None:
    with wire("misses") as (generator, _):
        generator.attach(ports())
        result = trial(generator)
    (counts,) = result.counts
    missed = next(nic.rx_missed for nic in result.nics if nic.port == "b")
    assert missed is not None
    assert missed > 0.05 * counts.sent
    assert counts.sent - counts.received == missed, "of the DUT's loss nothing is left"
    reasons = {reason.code: reason.detail for reason in result.invalid}
    assert (
        f"the generator's own NIC lost frames (b rx_missed {missed}), {missed} are missing"
        in (reasons[Reason.TESTER_DROPS])
    )


@pytest.mark.parametrize("interval_s", [None, 0.1], ids=["", "with intervals"])
def test_a_link_that_goes_and_comes_within_a_trial_makes_it_invalid(wire: Wire, interval_s: float | None) -> None:
    """The kernel counts no link of a NIC that DPDK took, and after the trial it is up."""
    with wire("flaps") as (generator, _):
        generator.attach(ports("vdev:"))
        result = trial(generator, interval_s)
    reasons = [reason.detail for reason in result.invalid if reason.code is Reason.LINK_DOWN]
    when = re.compile(
        r"the generator's port (\w) \(net_af_packet\d\) lost its link 0\.\d s after the trial began, for 0\.\d s"
    )
    assert [found[1] for reason in reasons if (found := when.fullmatch(reason))] == ["a", "b"], reasons
    assert len(reasons) == 2


def test_a_link_that_stays_up_is_no_reason(wire: Wire) -> None:
    with wire("") as (generator, _):
        generator.attach(ports("vdev:"))
        result = trial(generator)
    assert [reason for reason in result.invalid if reason.code is Reason.LINK_DOWN] == []


def test_counters_of_a_trial_do_not_hold_those_of_the_one_before(wire: Wire) -> None:
    with wire("misses") as (generator, _):
        generator.attach(ports())
        results = [trial(generator), trial(generator)]
    missed = [next(nic.rx_missed for nic in result.nics if nic.port == "b") for result in results]
    assert missed == [result.sent - result.received for result in results]


def test_a_nic_gets_the_ports_address_and_gives_it_back(wire: Wire) -> None:
    """A VF without trust: promiscuous mode is refused, but its filter lets in its own address."""
    with wire("closed") as (generator, namespace):
        own = mac_of(namespace, "nic1")
        generator.attach(ports("vdev:"))
        device = generator.nics()["b"]
        assert (device["driver"], device["promiscuous"], device["mac"]) == ("net_double", False, MACS["b"])
        assert mac_of(namespace, "nic1") == MACS["b"] != own
        (counts,) = trial(generator).counts
        assert counts.received == counts.sent > 0
        generator.detach(["a", "b"])
        assert mac_of(namespace, "nic1") == own


@pytest.mark.parametrize("bus", ["vdev:", ""], ids=["NIC", "virtual"])
def test_a_nic_that_would_let_in_nothing_is_named_before_anything_is_measured(wire: Wire, bus: str) -> None:
    with wire("closed,fixed_mac") as (generator, namespace):
        own = mac_of(namespace, "nic0")
        with pytest.raises(GeneratorError) as refused:
            generator.attach(ports(bus))
        assert generator.nics() == {}
    expected = (
        f"would receive nothing: driver net_double refuses promiscuous mode (Operation not permitted), and its MAC "
        f"filter lets in {own}, not {MACS['a']}"
    )
    assert "a (" in refused.value.message
    assert expected in refused.value.message
    assert "ip link set PF vf NUMBER trust on" in refused.value.message


def test_fewer_queues_than_asked_for_are_refused(wire: Wire) -> None:
    first, _ = ports()
    with wire("") as (generator, _), pytest.raises(GeneratorError, match="has 1 receive and 1 transmit queues"):
        generator.attach([GeneratorPort(first.name, first.device, first.mac, queues=4)])


def test_fewer_descriptors_than_asked_for_are_said(wire: Wire) -> None:
    with wire("few") as (generator, _):
        generator.attach(ports())
        assert generator.nics()["b"]["rx_descriptors"] == 512
        assert generator.sending()["b"] == "DPDK's net_double: 512 receive descriptors, 1024 were asked for"
        (counts,) = trial(generator).counts
        assert counts.received == counts.sent > 0


def test_an_engine_that_is_slow_at_its_end_is_killed(wire: Wire) -> None:
    """It had answered ``quit``: the run ended in a traceback (TimeoutExpired), and nothing closed the DUT."""
    with wire("slow_end") as (generator, _):
        generator.attach(ports())
        pid = generator.pid
        generator.close()
        assert not Path(f"/proc/{pid}").exists()
