"""nfvperf profile, and profiles of a run's measurements by perf."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_nfvperf.adapters.generators.packet_socket import ENGINE
from pytest_nfvperf.adapters.host.cpus import discover_testbed
from pytest_nfvperf.adapters.ovs.installation import locate
from pytest_nfvperf.adapters.ovs.ovs_datapath import OvsDatapath
from pytest_nfvperf.adapters.ovs.private_ovs import Vswitchd
from pytest_nfvperf.backends.local import LocalBackend
from pytest_nfvperf.cli.command import Command, path_like
from pytest_nfvperf.features.profile.callgrind import Callgrind
from pytest_nfvperf.features.profile.costs import FunctionProfile, below, difference_lines, profile_lines
from pytest_nfvperf.features.profile.flame_graph import differential_flame_graph, flame_graph, function_flame_graph
from pytest_nfvperf.features.versions.registry import Registry, resolve_version
from pytest_nfvperf.features.virtual_time.counting_generators import PacketSocketSide
from pytest_nfvperf.measure.rig import LiveTopology, Rig, RigParts
from pytest_nfvperf.measure.streams import Profiling
from pytest_nfvperf.measure.trials import Context, Recorder
from pytest_nfvperf.model.errors import ConfigError, TestbedError, UnavailableError
from pytest_nfvperf.model.evidence.records import AttachmentData
from pytest_nfvperf.model.measure.cpu_profile import profiled_run
from pytest_nfvperf.model.measure.outcome import Outcome
from pytest_nfvperf.model.testbed.ovs_settings import NamedOvs
from pytest_nfvperf.model.testbed.testbed import Dut, GeneratorSpec, OvsSpec
from pytest_nfvperf.model.topology.compose import bridge_chain, phy2phy
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import TrialSpec
from pytest_nfvperf.ports.evidence import Progress
from pytest_nfvperf.ports.machine import Profiler

if TYPE_CHECKING:
    from pytest_nfvperf.cli.command import Commands

_FOLDER = "profiles"
_READS_FRAMES = "dp_netdev_process_rxq_port"
"""The function of lib/dpif-netdev.c that reads a burst of a port and forwards it, in all versions since OVS 2.5."""
_WARM_UP_FRAMES, _MOST_WARM_UP_FRAMES = 1024, 16_384
_RESIDUAL_S = 5.0
"""For a burst. Under callgrind OVS is some fifty times slower."""
_TEXT = (
    "Which functions of Open vSwitch's userspace datapath spend a packet's instructions, counted by valgrind's "
    "callgrind; of two versions, in which functions they differ. Prints a table and draws flame graphs."
)

# Counting under callgrind. OVS's userspace datapath without DPDK runs on veth pairs, so its main thread forwards.
# The profile holds only what is below the function that reads a port's frames.


@dataclass(frozen=True, slots=True)
class ProfileWorkload:
    """What a profiled version forwards. ``frames``: in each direction."""

    topology: Topology
    traffic: Traffic
    frames: int


def profile_functions(name: str, prefix: str | None, workload: ProfileWorkload) -> FunctionProfile:
    """Start a version under callgrind, send it frames, and count instructions by function.

    ``prefix``: of its installation; None: the distribution's package.

    Raises:
        ConfigError: valgrind is not installed, or the prefix has no Open vSwitch.
        UnavailableError: the version runs in a root, which has no valgrind.
        TestbedError: it did not start under callgrind, or lost frames.
    """
    Callgrind.check()
    if locate(prefix, dpdk=False).root is not None:
        raise UnavailableError(
            f"{name} is a root of another release, in which there is no valgrind: profile a build "
            "(`nfvperf ovs add git:REVISION`), a prefix, or the installed version"
        )
    ovs = OvsSpec(datapath="netdev", prefix=prefix)
    testbed = replace(discover_testbed(), ovs=ovs, generator=GeneratorSpec(engine=ENGINE), ports=(), links=())
    # Callgrind counts, so no figure depends on the sockets' clock: any constant will do.
    with closing(LocalBackend(testbed, PacketSocketSide(testbed, lambda: 1))) as backend:
        parts = backend.parts()
        callgrind = Callgrind(backend.journal.directory)
        parts.process = Vswitchd(under=callgrind.words(), counted=True)
        context = Context(Recorder("profile", [], backend.clock), Progress(), backend.clock)
        with closing(Rig(parts, context)) as rig:
            live = rig.live(workload.topology, 0, Dut("netdev"))
            if live.deployment.generator is None:
                raise ConfigError(f"topology {live.topology.name!r} has no generator port: there is nothing to send")
            traffic = workload.traffic
            live.learn(traffic)
            _send(live, traffic, min(_WARM_UP_FRAMES * traffic.combinations, _MOST_WARM_UP_FRAMES))
            datapath = rig.datapath()
            assert isinstance(datapath, OvsDatapath)
            counted = callgrind.counted(datapath.instance.pid, lambda: _send(live, traffic, workload.frames))
            found = below(counted, _READS_FRAMES)
            packets = workload.frames * len(live.topology.directions)
    if not found:
        raise TestbedError(f"no function of {name} is called {_READS_FRAMES}: its programs have no symbols")
    return FunctionProfile(name, packets, found)


def _send(live: LiveTopology, traffic: Traffic, frames: int) -> None:
    generator = live.deployment.generator
    assert generator is not None
    spec = TrialSpec(
        traffic, frames, 1.0, live.topology.directions, latency=False, residual_s=_RESIDUAL_S, purpose="profile"
    )
    result = generator.run_trial(spec)
    if result.lost:
        raise TestbedError(f"{result.lost} of {result.offered} frames were lost under callgrind")


class Profiles:
    """``--nfv-profile-cpu``: repeats measurements under a profiler, and writes profiles next to the evidence.

    A profile has folded stacks, a flame graph, and the functions that ran most. In a comparison each subject also gets
    a differential flame graph against the baseline. ``make_profiler``: UnavailableError if this testbed has none.
    """

    def __init__(self, make_profiler: Callable[[], Profiler], run_dir: Path, context: Context) -> None:
        self._make_profiler = make_profiler
        self._run_dir = run_dir
        self._recorder = context.recorder
        self._taken = context.profiles

    def __call__(self, name: str, what: str, work: Callable[[], object]) -> None:
        """Do ``work`` once more under the profiler; if that is impossible the evidence says why.

        ``name``: of the record that it repeats, such as "stream-0004", and of the files. ``what``: the measurement.
        """
        shown = f"{name}, {what}"
        title = f"CPU profile of {shown}"
        try:
            profile = self._make_profiler()(work)
        except UnavailableError as error:
            self._recorder.emit(AttachmentData(title, text=f"not possible here: {error}"))
            return
        self._taken[name] = profile
        self._recorder.emit(AttachmentData(title, text=profile.summary()))
        self._picture(f"flame graph of {shown}", f"{name}.svg", flame_graph(profile, shown))
        self._write(f"{name}.folded", profile.text())
        self._recorder.emit(AttachmentData(f"folded stacks of {shown}", path=f"{_FOLDER}/{name}.folded"))

    def compare(self, per: str, outcomes: Sequence[Outcome]) -> None:
        """Compare each subject's profile with the baseline's; skips subjects without one.

        ``per``: the label that they differ in. ``outcomes``: the baseline's first.
        """
        found = [(outcome.label[per], profiled_run(outcome, self._taken)) for outcome in outcomes]
        before_name, before = found[0]
        for after_name, after in found[1:]:
            if before is not None and after is not None:
                title = f"{per}: {after_name} against {before_name}"
                (first, old), (second, new) = before, after
                self._recorder.emit(AttachmentData(f"what changed, {title}", text=new.changes_text(old)))
                picture = differential_flame_graph(old, new, title)
                self._picture(f"differential flame graph, {title}", f"{second}-against-{first}.svg", picture)

    def _picture(self, title: str, file: str, picture: str) -> None:
        self._write(file, picture)
        self._recorder.emit(AttachmentData(title, path=f"{_FOLDER}/{file}", media_type="image/svg+xml"))

    def _write(self, file: str, text: str) -> None:
        folder = self._run_dir / _FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(text, encoding="utf-8")


def profiles(parts: RigParts, run_dir: Path, context: Context) -> Profiling:
    return Profiles(parts.make_profiler, run_dir, context)


def _add_parser(commands: Commands) -> None:
    text = "which functions of Open vSwitch spend a packet's instructions, and in which two versions differ"
    parser = commands.add_parser("profile", help=text, description=_TEXT)
    parser.add_argument(
        "versions", nargs="+", metavar="VERSION", help="one or two, as for --nfv-ovs; the baseline first"
    )
    parser.add_argument("--frame-size", type=int, default=64, metavar="BYTES", help="with FCS (default: %(default)s)")
    parser.add_argument("--flows", type=int, default=1, help="default: %(default)s")
    parser.add_argument("--bridges", type=int, default=1, help="joined by patch ports (default: %(default)s)")
    parser.add_argument("--frames", type=int, default=1024, help="counted each way (default: %(default)s)")
    parser.add_argument("--most", type=int, default=20, metavar="N", help="functions listed (default: %(default)s)")
    parser.add_argument(
        "--output", type=path_like, default=Path("reports/profile"), metavar="DIR", help="default: %(default)s"
    )
    parser.set_defaults(command=_profile)


PROFILE = Command(_add_parser)


def _profile(arguments: argparse.Namespace) -> int:
    names: list[str] = arguments.versions
    if len(names) > 2 or len(set(names)) < len(names):
        raise ConfigError(f"name one version, or two that differ, not {', '.join(names)}")
    for name in ("bridges", "frames", "most"):
        if getattr(arguments, name) < 1:
            raise ConfigError(f"--{name} must be 1 or more, not {getattr(arguments, name)}")
    topology = phy2phy() if arguments.bridges == 1 else bridge_chain(arguments.bridges, link="patch")
    try:
        traffic = Traffic(frame_size=arguments.frame_size, flows=arguments.flows)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    registry, workload = Registry(), ProfileWorkload(topology, traffic, arguments.frames)
    places = [resolve_version(NamedOvs(name, name), registry).prefix for name in names]
    arguments.output.mkdir(parents=True, exist_ok=True)
    found = [profile_functions(name, place, workload) for name, place in zip(names, places, strict=True)]
    if len(found) == 1:
        lines = profile_lines(found[0], arguments.most)
    else:
        lines = difference_lines(found[0], found[1], arguments.most)
    print("\n".join(lines))
    for path in _write(arguments.output, found):
        print(path)
    return 0


def _write(directory: Path, found: list[FunctionProfile]) -> list[Path]:
    """Write folded stacks and a flame graph of each version; the second's is coloured by the difference."""
    written = []
    try:
        for number, profile in enumerate(found):
            stem = profile.name.strip("/").replace("/", "-").replace(":", "-")
            picture = function_flame_graph(profile, found[0] if number else None)
            for suffix, text in (("folded", profile.text()), ("svg", picture)):
                path = directory / f"{stem}.{suffix}"
                path.write_text(text, encoding="utf-8")
                written.append(path)
    except OSError as error:
        raise TestbedError(f"the profile cannot be written to {directory}: {error.strerror}") from error
    return written
