"""Cisco TRex (STL) as a Generator, and the ceiling of a TRex server."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from pytest_nfvperf.adapters.generators.checks import (
    check_directions,
    check_new_ports,
    check_spec,
    check_traffic,
    parsing_answer,
    wait_for_links,
)
from pytest_nfvperf.adapters.generators.engine import EngineRefusedError
from pytest_nfvperf.features.trex.child import ChildOptions, connect, explain_refusal, is_of_dead_run
from pytest_nfvperf.features.trex.stream_plan import TrexPort, port_number, port_of, streams
from pytest_nfvperf.features.trex.trial_results import TrexPolicy, longest_trial, saturating_policy, trial_result
from pytest_nfvperf.model.errors import ConfigError, GeneratorError, NfvperfError
from pytest_nfvperf.model.testbed.testbed import GeneratorInfo, GeneratorSpec
from pytest_nfvperf.model.topology.ports import PortRole
from pytest_nfvperf.model.traffic.traffic import MAX_FRAME_SIZE, Traffic
from pytest_nfvperf.model.traffic.trial import Direction, TrialResult, TrialSpec
from pytest_nfvperf.ports.generator import GeneratorPort

_COMMAND_DEADLINE_S = 40.0
"""The child notices a frozen server after ten seconds, which can happen twice in one command."""
_LINK_POLL_S = 0.1
_LEARN_FPS = 1000
_LEARN_S = 0.02
_LEARN_TIMEOUT_S = 3.0
_DURATION_S = 0.3
_START_FPS = 50_000_000
_ENOUGH = 0.97
_MTU = MAX_FRAME_SIZE - 18


class TrexGenerator:
    """Fulfils ports.generator.Generator; ``run_dir`` is an existing directory for the child's log.

    Start it from the main thread: the child is killed when the thread that started it ends.
    """

    def __init__(
        self,
        spec: GeneratorSpec,
        run_dir: Path,
        *,
        policy: TrexPolicy | None = None,
        options: ChildOptions | None = None,
    ) -> None:
        self._spec = spec
        self._policy = policy or TrexPolicy()
        self._ports: dict[str, TrexPort] = {}
        self._closed = False
        options = options or ChildOptions()
        self._server = options.server
        self._child, self._hello = connect(spec, run_dir / "trex-client.log", options)

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def ports(self) -> Mapping[str, TrexPort]:
        return self._ports

    def _attached(self) -> dict[str, GeneratorPort]:
        return {name: port.port for name, port in self._ports.items()}

    def info(self) -> GeneratorInfo:
        ports = sorted(self._hello["ports"], key=lambda port: int(port["port"]))  # servers name them in any order
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
        taken: list[str] = []
        try:
            for port in ports:
                self._ports[port.name] = port_of(port, self._take(port))
                taken.append(port.name)
        except NfvperfError:
            self.detach(taken)
            raise

    def detach(self, names: Sequence[str]) -> None:
        for name in names:
            if name in self._ports:
                self._command("detach", name=name)
                del self._ports[name]

    def wait_links_up(self, deadline_s: float) -> None:
        def down() -> list[str]:
            links = self._command("links")["links"]
            return [f"{name} (TRex port {self._ports[name].number})" for name, up in links.items() if not up]

        log = self._child.log_tail
        wait_for_links(down, "link on TRex's ports", deadline_s, interval_s=_LINK_POLL_S, log_tail=log)

    def learn(self, traffic: Traffic, directions: Sequence[Direction]) -> None:
        """Send learning frames until they come through in each direction, for ``_LEARN_TIMEOUT_S`` at most."""
        attached = self._attached()
        check_directions(attached, directions)
        check_traffic(attached, traffic, directions)
        spec = TrialSpec(
            traffic, _LEARN_FPS, _LEARN_S, tuple(directions), latency=False, residual_s=_LEARN_S, purpose="learning"
        )
        until = time.monotonic() + _LEARN_TIMEOUT_S
        while True:
            counts = self._run(spec, "learn").counts
            if all(count.received >= count.sent > 0 for count in counts) or time.monotonic() > until:
                return

    def run_trial(self, spec: TrialSpec) -> TrialResult:
        check_spec(self._attached(), spec)
        return self._run(spec)

    def close(self) -> None:
        self._closed = True
        self._child.close()
        self._ports.clear()

    def _run(self, spec: TrialSpec, command: str = "trial") -> TrialResult:
        plan = streams(spec, self._ports)
        delay_s = max(spec.residual_s, self._spec.trex.rx_delay_s)
        longest_s = longest_trial(spec.duration_s)
        answer = self._command(
            command,
            deadline_s=longest_s + delay_s + _COMMAND_DEADLINE_S,
            streams=[{key: value for key, value in stream.items() if key != "direction"} for stream in plan],
            duration_s=spec.duration_s,
            longest_s=longest_s,
            rx_delay_s=delay_s,
        )
        with parsing_answer(f"TRex server {self._spec.server}", answer):
            return trial_result(spec, answer, plan, self._ports, saturating_policy(self._policy, spec))

    def _take(self, port: GeneratorPort) -> dict[str, Any]:
        number = port_number(port)
        route = next((asdict(route) for route in self._spec.trex.routes if route.port == number), None)
        request: dict[str, Any] = {"name": port.name, "port": number, "route": route}
        try:
            return self._command_raw("attach", _COMMAND_DEADLINE_S, force=self._spec.force, **request)
        except EngineRefusedError as error:
            if error.code == "port_taken" and is_of_dead_run(error.answer["owner"]):
                return self._command("attach", force=True, **request)
            raise explain_refusal(error, self._spec, self._server) from error

    def _command(self, command: str, /, deadline_s: float = _COMMAND_DEADLINE_S, **arguments: Any) -> dict[str, Any]:
        try:
            return self._command_raw(command, deadline_s, **arguments)
        except EngineRefusedError as error:
            raise explain_refusal(error, self._spec, self._server) from error

    def _command_raw(self, command: str, deadline_s: float, /, **arguments: Any) -> dict[str, Any]:
        if self._closed:
            raise GeneratorError("the generator is closed")
        return self._child.command(command, deadline_s, **arguments)


def measure_ceiling(generator: TrexGenerator, numbers: Sequence[int], traffic: Traffic, directions: int) -> float:
    """The most frames/s per direction that the server sends.

    Args:
        generator: connected, its ports free.
        numbers: of TRex's ports; the first one or two send.
        traffic: what is sent.
        directions: how many ports send at once.
    """
    ports = [
        GeneratorPort(f"ceiling{number}", str(number), f"02:00:00:00:7e:{number:02x}", mtu=_MTU)
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
            if reached >= load * _ENOUGH:
                return reached
            # A server under far too high a load is slower than it could be: try again just above what it reached.
            load = max(1, int(reached / _ENOUGH))
    finally:
        generator.detach([port.name for port in ports])
