"""Cisco TRex (STL) as a Generator, and the ceiling of a TRex server."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from pytest_nfvperf.adapters.generators.checks import (
    check_directions,
    check_new_ports,
    check_spec,
    check_traffic,
    parsing_answer,
    refuse_conversations,
    wait_for_links,
)
from pytest_nfvperf.adapters.generators.engine import Engine, EngineRefusedError, StartEngine
from pytest_nfvperf.features.trex.child import connect, explain_refusal, is_of_dead_run
from pytest_nfvperf.features.trex.stream_plan import TrexPort, port_number, port_of, streams
from pytest_nfvperf.features.trex.trial_results import longest_trial, trial_result
from pytest_nfvperf.model.disturbance.trial import TrialResult
from pytest_nfvperf.model.errors import ConfigError, GeneratorError, NfvperfError
from pytest_nfvperf.model.testbed.testbed import GeneratorInfo, GeneratorSpec
from pytest_nfvperf.model.topology.ports import PortRole
from pytest_nfvperf.model.traffic.mix import AnyTraffic, classes_of
from pytest_nfvperf.model.traffic.traffic import MAX_FRAME_SIZE
from pytest_nfvperf.model.traffic.trial import Direction, TrialSpec
from pytest_nfvperf.ports.generator import Generator, GeneratorPort

_COMMAND_DEADLINE_S = 40.0
"""The child notices a frozen server after ten seconds, which can happen twice in one command."""
_LINK_POLL_S, _LINK_DEADLINE_S = 0.1, 10.0
_LEARN_FPS = 1000
_LEARN_S = 0.02
_LEARN_TIMEOUT_S = 3.0
_DURATION_S = 0.3
_START_FPS = 50_000_000
_REACHED_RATIO = 0.97
_MTU = MAX_FRAME_SIZE - 18
_CEILING_MAC = "02:00:00:00:7e:{number:02x}"
"""Of a port that sends only to measure the ceiling: its addresses do not matter."""


class TrexGenerator(Generator):
    """A TRex server as a Generator.

    Args:
        spec: server, client library, ports, force, delays.
        run_dir: existing directory for the child's log.
        start: starts the child; may record the conversation, or replay one.

    Start it from the main thread: the child is killed when the thread that started it ends.
    """

    def __init__(self, spec: GeneratorSpec, run_dir: Path, start: StartEngine = Engine) -> None:
        self.ports: dict[str, TrexPort] = {}
        self._spec = spec
        self._closed = False
        self._child, self._hello = connect(spec, run_dir / "trex-client.log", start)

    def _attached(self) -> dict[str, GeneratorPort]:
        return {name: port.port for name, port in self.ports.items()}

    def info(self) -> GeneratorInfo:
        # Servers list them in any order.
        ports = sorted(self._hello["ports"], key=lambda port: int(port["port"]))
        drivers = ", ".join(f"{port['port']} {port['driver']}" for port in ports)
        detail = f"at {self._spec.server}, ports {drivers}, client {self._hello['library']}"
        return GeneratorInfo(engine="trex", version=self._hello["server"]["version"], detail=detail, cpus=())

    def attach(self, ports: Sequence[GeneratorPort]) -> None:
        check_new_ports(self._attached(), ports)
        for port in ports:
            if port.role is not PortRole.ENDPOINT:
                raise ConfigError(
                    f"port {port.name!r} is a {port.role}, but TRex only sends and receives: topologies with VNFs in "
                    "the generator need the embedded engine"
                )
        attached: list[str] = []
        try:
            for port in ports:
                number = port_number(port)
                route = next((asdict(route) for route in self._spec.trex.routes if route.port == number), None)
                answer = self._command("attach", force=self._spec.force, name=port.name, port=number, route=route)
                self.ports[port.name] = port_of(port, answer)
                attached.append(port.name)
        except NfvperfError:
            self.detach(attached)
            raise

    def detach(self, names: Sequence[str]) -> None:
        for name in names:
            if name in self.ports:
                self._command("detach", name=name)
                del self.ports[name]

    def wait_links_up(self, deadline_s: float) -> None:
        def down() -> list[str]:
            links = self._command("links")["links"]
            return [f"{name} (TRex port {self.ports[name].number})" for name, up in links.items() if not up]

        log = self._child.log_tail
        wait_for_links(down, "link on TRex's ports", deadline_s, interval_s=_LINK_POLL_S, log_tail=log)

    def learn(self, traffic: AnyTraffic, directions: Sequence[Direction]) -> None:
        """Send learning frames until they come through in each direction, for ``_LEARN_TIMEOUT_S`` at most."""
        attached = self._attached()
        check_directions(attached, directions)
        check_traffic(attached, traffic, directions)
        refuse_conversations(traffic, "TRex")
        spec = TrialSpec(
            traffic, _LEARN_FPS, _LEARN_S, tuple(directions), latency=False, residual_s=_LEARN_S, purpose="learning"
        )
        until = time.monotonic() + _LEARN_TIMEOUT_S
        for each in classes_of(traffic):  # by itself: the least share of so few frames may be none
            learned = False
            while not learned:
                counts = self._run(replace(spec, traffic=each.traffic), "learn").counts
                learned = all(count.received >= count.sent > 0 for count in counts) or time.monotonic() > until

    def run_trial(self, spec: TrialSpec) -> TrialResult:
        check_spec(self._attached(), spec)
        return self._run(spec)

    def close(self) -> None:
        self._closed = True
        self._child.close()
        self.ports.clear()

    def _run(self, spec: TrialSpec, command: str = "trial") -> TrialResult:
        refuse_conversations(spec.traffic, "TRex")
        plan = streams(spec, self.ports)
        delay_s = max(spec.residual_s, self._spec.trex.rx_delay_s)
        longest_s = longest_trial(spec.duration_s)
        answer = self._command(
            command,
            deadline_s=longest_s + delay_s + _COMMAND_DEADLINE_S,
            streams=[{key: value for key, value in stream.items() if key != "sent"} for stream in plan],
            duration_s=spec.duration_s,
            longest_s=longest_s,
            rx_delay_s=delay_s,
        )
        with parsing_answer(f"TRex server {self._spec.server}", answer):
            return trial_result(spec, answer, plan, self.ports)

    def _command(self, command: str, /, deadline_s: float = _COMMAND_DEADLINE_S, **arguments: Any) -> dict[str, Any]:
        if self._closed:
            raise GeneratorError("the generator is closed")
        try:
            return self._child.command(command, deadline_s, **arguments)
        except EngineRefusedError as error:
            # Ports that a dead run of ours still holds are taken by force.
            may_force = error.code == "port_taken" and arguments.get("force") is False
            if may_force and is_of_dead_run(error.answer["owner"]):
                return self._command(command, deadline_s, **{**arguments, "force": True})
            raise explain_refusal(error, self._spec) from error


def measure_ceiling(generator: TrexGenerator, numbers: Sequence[int], traffic: AnyTraffic, directions: int) -> float:
    """The most frames/s per direction that the server sends.

    Args:
        generator: connected. Ports that are attached are attached again afterwards.
        numbers: of TRex's ports; the first one or two send.
        traffic: what is sent.
        directions: how many ports send at once.
    """
    held = [attached.port for attached in generator.ports.values()]
    generator.detach([port.name for port in held])
    ports = [
        GeneratorPort(f"ceiling{number}", str(number), _CEILING_MAC.format(number=number), mtu=_MTU)
        for number in numbers[:2]
    ]
    generator.attach(ports)
    try:
        names = [port.name for port in ports]
        both = [Direction(names[0], names[-1]), Direction(names[-1], names[0])][:directions]
        rates = [port.speed_bps for port in generator.ports.values() if port.speed_bps]
        load = int(min([traffic.line_rate_fps(rate) for rate in rates], default=_START_FPS))
        while True:
            spec = TrialSpec(traffic, load, _DURATION_S, tuple(both), latency=False, residual_s=0.0, purpose="ceiling")
            reached = generator.run_trial(replace(spec, saturating=True)).offered_fps or 0.0
            if reached >= load * _REACHED_RATIO:
                return reached
            # A server under far too high a load is slower than it could be: try again just above what it reached.
            load = max(1, int(reached / _REACHED_RATIO))
    finally:
        generator.detach([port.name for port in ports])
        generator.attach(held)
        generator.wait_links_up(_LINK_DEADLINE_S)
