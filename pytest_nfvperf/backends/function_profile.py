"""``nfvperf profile``: a version of Open vSwitch forwards frames under callgrind, which counts each function's part.

OVS's userspace datapath without DPDK, on veth pairs: its main thread forwards. What is told is below the function that
reads a port's frames, so what OVS does beside forwarding is not in it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from pytest_nfvperf.adapters.generators.packet_socket import ENGINE
from pytest_nfvperf.adapters.host.cpus import discover_testbed
from pytest_nfvperf.adapters.ovs.instance.ovs_binaries import locate
from pytest_nfvperf.adapters.ovs.instance.private_ovs import Vswitchd
from pytest_nfvperf.adapters.ovs.ovs_datapath import OvsDatapath
from pytest_nfvperf.adapters.profiling.callgrind import Callgrind
from pytest_nfvperf.adapters.report.terminal_progress import SilentProgress
from pytest_nfvperf.backends.local import LocalBackend
from pytest_nfvperf.backends.packet_socket_side import PacketSocketSide
from pytest_nfvperf.model.errors import ConfigError, TestbedError, UnavailableError
from pytest_nfvperf.model.measure.function_costs import FunctionProfile, below
from pytest_nfvperf.model.testbed.testbed import Dut, GeneratorSpec, OvsSpec, Testbed
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import TrialSpec
from pytest_nfvperf.runs.recorder import Recorder
from pytest_nfvperf.runs.rig import LiveTopology, Rig
from pytest_nfvperf.runs.trials import Context

READS_FRAMES = "dp_netdev_process_rxq_port"
"""The function of lib/dpif-netdev.c that reads a burst of a port and forwards it, in all versions since OVS 2.5."""
_WARM_UP_FRAMES, _MOST_WARM_UP_FRAMES = 1024, 16_384
_RESIDUAL_S = 5.0
"""For a burst. Under callgrind OVS is some fifty times slower."""


@dataclass(frozen=True, slots=True)
class Profiled:
    """What is profiled: so many frames each way through a topology."""

    topology: Topology
    traffic: Traffic
    frames: int


def profile_functions(name: str, prefix: str | None, profiled: Profiled) -> FunctionProfile:
    """Start a version under callgrind, send it frames, and count.

    Args:
        name: of the version.
        prefix: of its installation; None: the distribution's package.
        profiled: what it forwards.

    Raises:
        ConfigError: valgrind is not installed, or the prefix has no Open vSwitch.
        UnavailableError: the version runs in a root, in which there is no valgrind.
        TestbedError: it did not start under callgrind, or lost frames.
    """
    Callgrind.check()
    if locate(prefix, dpdk=False).root is not None:
        raise UnavailableError(
            f"{name} is a root of another release, in which there is no valgrind: profile a build "
            "(`nfvperf ovs add git:REVISION`), a prefix, or the installed version"
        )
    testbed = _testbed(prefix)
    backend = LocalBackend(testbed, PacketSocketSide(_by_callgrind))
    try:
        return _profiled(name, backend, profiled)
    finally:
        backend.close()


def _by_callgrind() -> int:
    """Callgrind counts: nothing goes by the sockets' clock."""
    return 1


def _testbed(prefix: str | None) -> Testbed:
    ovs = OvsSpec(datapath="netdev", prefix=prefix)
    return replace(discover_testbed(), ovs=ovs, generator=GeneratorSpec(engine=ENGINE), ports=(), links=())


def _profiled(name: str, backend: LocalBackend, profiled: Profiled) -> FunctionProfile:
    parts = backend.parts()
    callgrind = Callgrind(backend.journal.directory)
    parts = replace(parts, make_datapath=lambda dut: _start(backend, dut, callgrind))
    rig = Rig(parts, Context(Recorder("profile", [], backend.clock), SilentProgress(), backend.clock))
    try:
        live = rig.live(profiled.topology, 0, Dut("netdev"))
        send = _sender(live, profiled)
        live.learn(profiled.traffic)
        send(min(_WARM_UP_FRAMES * profiled.traffic.flows, _MOST_WARM_UP_FRAMES))
        datapath = rig.datapath()
        assert isinstance(datapath, OvsDatapath)  # it is what _start has made
        found = below(callgrind.counted(datapath.instance.pid, lambda: send(profiled.frames)), READS_FRAMES)
    finally:
        rig.close()
    if not found:
        raise TestbedError(f"no function of {name} is called {READS_FRAMES}: its programs have no symbols")
    return FunctionProfile(name, profiled.frames * len(live.topology.directions), found)


def _start(backend: LocalBackend, dut: Dut, callgrind: Callgrind) -> OvsDatapath:
    return OvsDatapath.start(
        backend.testbed, backend.journal, dut, process=Vswitchd(under=callgrind.words(), counted=True)
    )


def _sender(live: LiveTopology, profiled: Profiled) -> Callable[[int], None]:
    """Sends so many frames each way, and waits until all are through."""
    generator = live.deployment.generator
    if generator is None:
        raise ConfigError(f"topology {live.topology.name!r} has no generator port: there is nothing to send")

    def send(frames: int) -> None:
        spec = TrialSpec(
            profiled.traffic,
            frames,
            1.0,
            live.topology.directions,
            latency=False,
            residual_s=_RESIDUAL_S,
            purpose="profile",
        )
        result = generator.run_trial(spec)
        if result.lost:
            raise TestbedError(f"{result.lost} of {result.offered} frames were lost under callgrind")

    return send
