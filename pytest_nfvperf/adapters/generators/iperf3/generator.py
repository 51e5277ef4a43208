"""iperf3 as a load generator: UDP at a fixed load between namespaces, behind the Generator port.

What it can measure: frames of one size, up to 128 flows that differ in their source port, a load that is
kept on average (bursts each millisecond), and exact counts of frames sent and arrived. What it cannot, it
refuses or leaves out: no latency, no mixes, no header fields, no telling of late from duplicated
frames, nothing about its own lateness (``RigHealth`` is empty). A loss search over TCP does not exist: TCP's load
is its own; that is what ``Iperf3Engine`` measures.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

from pytest_nfvperf.adapters.generators.checks import check_directions, check_new_ports, check_spec, check_traffic
from pytest_nfvperf.adapters.generators.iperf3.command import FINE_INTERVAL_S
from pytest_nfvperf.adapters.generators.iperf3.end_counters import EndState, read_end
from pytest_nfvperf.adapters.generators.iperf3.engine import Iperf3Options, find_iperf3
from pytest_nfvperf.adapters.generators.iperf3.load_traffic import check_traffic_kind, load_options, stream_end
from pytest_nfvperf.adapters.generators.iperf3.session import Ended, Job, Session
from pytest_nfvperf.adapters.generators.iperf3.stream_results import interface_reasons, process_reasons
from pytest_nfvperf.adapters.generators.iperf3.udp_counts import (
    arrived,
    direction_counts,
    frames_of,
    load_reasons,
    packets,
    read_changes,
    sequence_reasons,
)
from pytest_nfvperf.adapters.journal.journal import Journal
from pytest_nfvperf.adapters.process.wait import wait_until
from pytest_nfvperf.model.errors import ConfigError, GeneratorError
from pytest_nfvperf.model.testbed.equipment import GeneratorInfo
from pytest_nfvperf.model.topology.topology import PortRole
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import Direction, InvalidReason, RigHealth, TrialResult, TrialSpec
from pytest_nfvperf.ports.generator import GeneratorPort
from pytest_nfvperf.ports.stream_engine import StreamEnd

_LEARN_FPS = 1000
_LEARN_FRAMES = 10
_SLOWEST = 20
"""How many times longer than it should a trial may take before it is given up: iperf3 sends all, however late."""
_RESIDUAL_POLL_S = 0.005


class Iperf3Generator:
    """Fulfils ports.generator.Generator.

    A port's device is ``namespace=NAME,address=IPV4,interface=NAME``; each port has a namespace of its own,
    because the kernel counts by namespace. MAC addresses are the interfaces' own.
    """

    def __init__(self, journal: Journal, options: Iperf3Options | None = None) -> None:
        """Find iperf3; GeneratorError when it is not installed.

        Args:
            journal: of the run.
            options: the rest.
        """
        self._journal = journal
        self._options = options or Iperf3Options()
        self._iperf3 = find_iperf3(self._options.binary)
        self._ports: dict[str, GeneratorPort] = {}
        self._ends: dict[str, StreamEnd] = {}
        self._runs = 0
        self._closed = False

    def info(self) -> GeneratorInfo:
        """Engine, version, how it serves parallel streams."""
        return self._iperf3.info

    def attach(self, ports: Sequence[GeneratorPort]) -> None:
        """Take the ports: their interfaces must be there and carry the MTU."""
        self._check_open()
        check_new_ports(self._ports, ports)
        ends = {port.name: stream_end(port) for port in ports}
        for port in ports:
            _check_port(port, ends[port.name])
        _check_own_namespaces({**self._ends, **ends})
        self._ports.update((port.name, port) for port in ports)
        self._ends |= ends

    def detach(self, names: Sequence[str]) -> None:
        """Let go of ports; unknown names are ignored."""
        self._check_open()
        for name in names:
            self._ports.pop(name, None)
            self._ends.pop(name, None)

    def wait_links_up(self, deadline_s: float) -> None:
        """Wait until every attached interface is up with a carrier."""
        self._check_open()
        wait_until(lambda: not self._down(), "all interfaces to be up", deadline_s, last_seen=self._down_text)

    def learn(self, traffic: Traffic, directions: Sequence[Direction]) -> None:
        """Send a few frames each way: neighbours and bridges learn the MACs. GeneratorError when none come through."""
        self._check_open()
        check_directions(self._ports, directions)
        check_traffic_kind(traffic)
        check_traffic(self._ports, traffic, directions)
        spec = TrialSpec(traffic, _LEARN_FPS, _LEARN_FRAMES / _LEARN_FPS, tuple(directions), purpose="learn")
        for counts in self.run_trial(spec).counts:
            if counts.received < 1:
                raise GeneratorError(f"none of {counts.sent} learning frames {counts.direction} came through")

    def run_trial(self, spec: TrialSpec) -> TrialResult:
        """Send the frames of each direction with a client and a server of its own, all at once."""
        self._check_open()
        check_spec(self._ports, spec)
        check_traffic_kind(spec.traffic)
        used = {name for direction in spec.directions for name in (direction.tx, direction.rx)}
        with ExitStack() as stack:
            sessions = [self._session(spec, direction, stack) for direction in spec.directions]
            before = self._states(used)
            for session in sessions:
                session.start()
            deadline_s = spec.duration_s * _SLOWEST + self._options.margin_s
            ended = [session.finish(deadline_s) for session in sessions]
        after = self._settled(spec, ended, before)
        return self._result(spec, ended, before, after)

    def close(self) -> None:
        """Can be called twice."""
        self._closed = True
        self._ports.clear()
        self._ends.clear()

    def _check_open(self) -> None:
        if self._closed:
            raise GeneratorError("the generator is closed")

    def _session(self, spec: TrialSpec, direction: Direction, stack: ExitStack) -> Session:
        """A server that listens, and a client ready to start."""
        self._runs += 1
        job = Job(
            client=self._ends[direction.tx],
            server=self._ends[direction.rx],
            options=load_options(spec.traffic, spec.load_fps, frames_of(spec)),
            interval_s=FINE_INTERVAL_S,
            client_cpus=(),
            server_cpus=(),
            ports=self._options.ports,
        )
        session = Session(self._journal, self._iperf3.binary, job, f"iperf3-udp-{self._runs}")
        stack.callback(session.stop)
        session.listen()
        return session

    def _states(self, names: Sequence[str] | set[str]) -> dict[str, EndState]:
        return {name: read_end(self._ends[name].namespace) for name in sorted(names)}

    def _settled(
        self, spec: TrialSpec, ended: Sequence[tuple[Ended, Ended]], before: Mapping[str, EndState]
    ) -> dict[str, EndState]:
        """The counters once all frames arrived, or the residual wait is over (RFC 2544 section 23)."""
        until = time.monotonic() + spec.residual_s
        while True:
            after = self._states(set(before))
            if time.monotonic() >= until or self._all_arrived(spec, ended, before, after):
                return after
            time.sleep(_RESIDUAL_POLL_S)

    def _all_arrived(
        self,
        spec: TrialSpec,
        ended: Sequence[tuple[Ended, Ended]],
        before: Mapping[str, EndState],
        after: Mapping[str, EndState],
    ) -> bool:
        changes = read_changes(before, after)
        for direction, (client, _) in zip(spec.directions, ended, strict=True):
            sent = packets(client.report, sender=True) if client.report is not None else 0
            if arrived(sent, changes[direction.tx], changes[direction.rx]) < sent:
                return False
        return True

    def _result(
        self,
        spec: TrialSpec,
        ended: Sequence[tuple[Ended, Ended]],
        before: Mapping[str, EndState],
        after: Mapping[str, EndState],
    ) -> TrialResult:
        changes = read_changes(before, after)
        reasons: list[InvalidReason] = []
        for name in before:
            reasons += interface_reasons(self._ends[name], before[name], after[name])
        counts = []
        for direction, (client, server) in zip(spec.directions, ended, strict=True):
            reasons += process_reasons({"client": client, "server": server})
            if client.report is None or (client.error is not None and not reasons):
                raise _failed(direction, client, server)
            interface = self._ends[direction.rx].interface
            count = direction_counts(
                spec, direction, client.report, changes[direction.tx], changes[direction.rx], interface
            )
            reasons += [*load_reasons(spec, count), *sequence_reasons(count, server)]
            counts.append(count)
        return TrialResult(spec=spec, counts=tuple(counts), health=RigHealth(), invalid=tuple(reasons))

    def _down(self) -> list[str]:
        return [name for name, end in self._ends.items() if not _is_up(end)]

    def _down_text(self) -> str:
        return f"down: {', '.join(self._down())}"


def _is_up(end: StreamEnd) -> bool:
    found = read_end(end.namespace).interfaces.get(end.interface)
    return found is not None and found.up


def _failed(direction: Direction, client: Ended, server: Ended) -> GeneratorError:
    evidence = {"iperf3 client": client.log, "iperf3 server": server.error or server.log}
    return GeneratorError(f"iperf3 could not send {direction}: its client says: {client.error}", evidence=evidence)


def _check_port(port: GeneratorPort, end: StreamEnd) -> None:
    if port.role is not PortRole.ENDPOINT:
        raise ConfigError(f"port {port.name!r} is a {port.role}: iperf3 has endpoints only; use the embedded generator")
    there = read_end(end.namespace).interfaces
    found = there.get(end.interface)
    if found is None:
        listed = ", ".join(sorted(there))
        raise ConfigError(
            f"port {port.name!r}: no interface {end.interface!r} in namespace {end.namespace} (there: {listed})"
        )
    if port.mtu > found.mtu:
        raise ConfigError(f"port {port.name!r}: MTU {port.mtu}, but interface {end.interface} has {found.mtu}")


def _check_own_namespaces(ends: Mapping[str, StreamEnd]) -> None:
    owners: dict[str, str] = {}
    for name, end in ends.items():
        other = owners.setdefault(end.namespace, name)
        if other != name:
            raise ConfigError(
                f"ports {other!r} and {name!r} share namespace {end.namespace}: the kernel counts by namespace, "
                "so give each port its own"
            )
