"""The embedded generator: our own engine, nfvperf-gen, behind the Generator port."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pytest_nfvperf.adapters.generators.checks import (
    check_directions,
    check_new_ports,
    check_spec,
    check_traffic,
    readable,
)
from pytest_nfvperf.adapters.generators.embedded.trial_results import (
    CoreSpeed,
    EngineTrial,
    ValidityPolicy,
    trial_result,
    trial_windows,
    undisturbed_end,
)
from pytest_nfvperf.adapters.generators.engine import Engine, StartEngine
from pytest_nfvperf.adapters.generators.frames import streams, trial_request
from pytest_nfvperf.adapters.process.process import held, wait_until
from pytest_nfvperf.adapters.process.wakeups import exchange_volleys
from pytest_nfvperf.model.errors import DeadlineError, GeneratorError
from pytest_nfvperf.model.testbed.testbed import GeneratorInfo
from pytest_nfvperf.model.traffic.cpu_placement import Distance, Poller
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import Direction, InvalidReason, Reason, TrialResult, TrialSpec
from pytest_nfvperf.model.traffic.windows import NearCosts
from pytest_nfvperf.ports.generator import GeneratorPort
from pytest_nfvperf.ports.machine import Kept

PROTOCOL = 1
_START_DEADLINE_S = 20.0
_COMMAND_DEADLINE_S = 10.0
_TRIAL_GRACE_S = 10.0
_LINK_POLL_S = 0.01
_LEARN_FPS = 1000
_LEARN_FRAMES = 10
_LEARN_RESIDUAL_NS = 50_000_000
_ASKED = 4
"""Of the frames that may wait for a full ring, a quarter is no burst any more: then the witnesses are asked why."""


def eal_arguments(
    cpus: Sequence[int], control_cpus: Sequence[int], file_prefix: str, hugepages_mib: int, pci: Sequence[str]
) -> list[str]:
    """DPDK's start-up arguments (DPDK Linux guide, "EAL parameters").

    The control thread is lcore 0, polling threads follow, one a CPU. Memory lives in memfds
    (``--in-memory``), so that even kill -9 leaves no hugepage file; ``--single-file-segments``
    because vhost-user passes at most 8 memory regions. Without hugepages 4 KiB pages serve. Vectors of 512 bits
    are for virtio-user's driver (DPDK virtio guide); those of NICs keep what they choose by themselves.

    Args:
        cpus: of the polling threads.
        control_cpus: of everything else.
        file_prefix: tells instances apart in DPDK's logs.
        hugepages_mib: memory taken at start; 0 means no hugepages at all.
        pci: addresses of NICs to use; none are probed otherwise.
    """
    control = ",".join(str(cpu) for cpu in control_cpus)
    lcores = ",".join([f"0@({control})", *(f"{lcore}@{cpu}" for lcore, cpu in enumerate(cpus, start=1))])
    arguments = ["--lcores", lcores, "--file-prefix", file_prefix, "--no-telemetry"]
    if hugepages_mib:
        arguments += ["--in-memory", "--single-file-segments", "--socket-mem", str(hugepages_mib)]
    else:
        arguments += ["--no-huge", "-m", "256"]
    for address in pci:
        arguments += ["-a", address]
    return arguments if pci else [*arguments, "--no-pci", "--force-max-simd-bitwidth=512"]


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """What seldom needs to be set.

    Attributes:
        pci: addresses of NICs to take; none are probed otherwise.
        attach_timeout_s: how long a server socket waits for its client.
        learn_timeout_s: how long ``learn`` goes on until its frames come through.
        nice: of the polling threads. Where they share a CPU with the rest of the machine, a raised
            priority is what keeps trials valid; it costs the others their CPU during a trial only.
        env: environment variables added to the engine's, such as the tag that a reaper knows it by.
        witness_cpus: of the DUT's polling threads, on which it is watched whether they have their CPU for themselves.
        start: starts the engine; one that records, or that plays a recording.
        kept_speed: where the speed of this machine's cores is kept from run to run.
    """

    pci: tuple[str, ...] = ()
    policy: ValidityPolicy = field(default_factory=ValidityPolicy)
    attach_timeout_s: float = 5.0
    learn_timeout_s: float = 2.0
    nice: int = -15
    env: Mapping[str, str] = field(default_factory=dict)
    witness_cpus: tuple[int, ...] = ()
    start: StartEngine = Engine
    kept_speed: Kept | None = None


class EmbeddedGenerator:
    """Fulfils ports.generator.Generator.

    Args:
        binary: nfvperf-gen, from :func:`pytest_nfvperf.adapters.generators.embedded.build.find`.
        cpus: CPUs of the polling threads; ports are dealt out to them in the order attached.
        control_cpus: CPUs of the thread that takes commands; it sleeps during a trial.
        run_dir: existing directory for the log ``<file_prefix>.log``.
        file_prefix: unique per instance.
        hugepages_mib: memory in MiB; about 10 per port at an MTU of 1500. 0: without hugepages.
        options: the rest.
        on_spawn: told the process id as soon as there is one.

    Start it from the main thread: the engine is killed when the thread that started it ends.
    """

    def __init__(
        self,
        binary: Path,
        *,
        cpus: Sequence[int],
        control_cpus: Sequence[int],
        run_dir: Path,
        file_prefix: str,
        hugepages_mib: int = 128,
        options: EngineOptions | None = None,
        on_spawn: Callable[[int], None] | None = None,
    ) -> None:
        self._cpus = tuple(cpus)
        self._options = options or EngineOptions()
        self._policy = replace(self._options.policy, cpus=self._cpus)
        self._ports: dict[str, GeneratorPort] = {}
        self._back_pressure: dict[str, bool] = {}
        self._speed = CoreSpeed(self._options.kept_speed)
        self._near_costs = NearCosts()
        self._pollers: tuple[Poller, ...] = ()
        self._closed = False
        eal = eal_arguments(cpus, control_cpus, file_prefix, hugepages_mib, self._options.pci)
        argv = [str(binary), "--parent", str(os.getpid()), "--nice", str(self._options.nice), *eal]
        # DPDK makes its runtime directory there (since 21.11), else under /var/run/dpdk, where it would stay.
        env = {"RUNTIME_DIRECTORY": str(run_dir), **self._options.env}
        with held():
            self._engine = self._options.start(argv, run_dir / f"{file_prefix}.log", env)
            if on_spawn is not None:
                on_spawn(self._engine.pid)
        self._hello = self._greet()

    @property
    def pid(self) -> int:
        return self._engine.pid

    def info(self) -> GeneratorInfo:
        detail = f"{self._hello['dpdk']}, TSC {self._hello['tsc_hz'] / 1e9:.3f} GHz"
        return GeneratorInfo(engine="nfvperf-gen", version=self._hello["version"], detail=detail, cpus=self._cpus)

    def attach(self, ports: Sequence[GeneratorPort], *, drop_every: int = 0) -> None:
        """Take the ports, all or none.

        Args:
            ports: what to attach.
            drop_every: forwarders among them drop every n-th frame, for tests; 0: none.
        """
        check_new_ports(self._ports, ports)
        taken: list[str] = []
        try:
            for port in ports:
                self._attach_one(port, drop_every)
                taken.append(port.name)
        except GeneratorError:
            self._let_go(taken)
            raise

    def detach(self, names: Sequence[str]) -> None:
        for name in names:
            if name in self._ports:
                self._command("detach", _COMMAND_DEADLINE_S, name=name)
                del self._ports[name]
                del self._back_pressure[name]

    def wait_links_up(self, deadline_s: float) -> None:
        try:
            wait_until(
                lambda: not self._links_down(),
                "link on the generator's ports",
                deadline_s,
                interval_s=_LINK_POLL_S,
                last_seen=lambda: f"no link on {', '.join(self._links_down())}",
            )
        except DeadlineError as error:
            error.evidence["generator log"] = self._engine.log_tail()
            raise

    def learn(self, traffic: Traffic, directions: Sequence[Direction]) -> None:
        """Send learning frames until they come through each way, for ``learn_timeout_s`` at most.

        A vhost-user link is up before the switch polls it, so the first frames may be lost. Frames
        that never come through are no error here: a DUT may be set up to drop them.
        """
        check_directions(self._ports, directions)
        check_traffic(self._ports, traffic, directions)
        wanted = streams(traffic, directions, self._ports, _LEARN_FPS, _LEARN_FRAMES)
        until = time.monotonic() + self._options.learn_timeout_s
        while True:
            answer = self._command("learn", _COMMAND_DEADLINE_S, streams=wanted, residual_ns=_LEARN_RESIDUAL_NS)
            if all(stream["received"] >= stream["sent"] > 0 for stream in answer["streams"]):
                return
            if time.monotonic() > until:
                return

    def run_trial(self, spec: TrialSpec) -> TrialResult:
        check_spec(self._ports, spec)
        request = self._request(spec)
        deadline_s = spec.duration_s + spec.residual_s + _TRIAL_GRACE_S
        return self._result(spec, self._command("trial", deadline_s, **request))

    def _result(self, spec: TrialSpec, answer: Mapping[str, Any]) -> TrialResult:
        with readable("nfvperf-gen", answer):
            down = self._links_down()
            link = [InvalidReason(Reason.LINK_DOWN, f"no link after the trial on: {', '.join(down)}")] if down else []
            # by the speed and the cost of a frame that this engine has seen so far
            windows = trial_windows(answer, self._speed)
            if windows is not None:
                near_cost_ns = self._near_costs.learn(spec.traffic, spec.load_fps, windows.costs(spec.duration_s))
                windows = replace(windows, near_cost_ns=near_cost_ns)
            return trial_result(spec, answer, self._ports, self._back_pressure, self._policy, link, windows)

    def _request(self, spec: TrialSpec) -> dict[str, Any]:
        request = trial_request(spec, self._ports)
        if spec.window_s is not None:
            request["witnesses"] = self._witnesses()
            if not spec.saturating:
                request["ask_depth"] = min(self._ports[each.tx].queue_depth for each in spec.directions) // _ASKED
            if speed := self._speed.cycles:
                request["undisturbed"] = undisturbed_end(speed, round(spec.window_s * 1e9))
        return request

    def watch(self, pollers: Sequence[Poller]) -> None:
        """From now on, tell of these threads of the DUT how long they waited for their CPUs in each window."""
        self._pollers = tuple(pollers)

    def _witnesses(self) -> list[dict[str, int]]:
        """One for each CPU of the DUT. Threads that share a CPU wait for one another: none of those is watched."""
        on = Counter(poller.cpu for poller in self._pollers)
        alone = {poller.cpu: poller for poller in self._pollers if on[poller.cpu] == 1}
        wanted: list[dict[str, int]] = []
        for cpu in self._options.witness_cpus:
            if cpu in self._cpus:
                continue
            poller = alone.get(cpu)
            watched = {} if poller is None else {"process": poller.process, "thread": poller.thread}
            wanted.append({"cpu": cpu, **watched})
        return wanted

    def start_trial(self, spec: TrialSpec, interval_s: float) -> EngineTrial:
        """Begin a trial that tells its counts every ``interval_s``. Until its end no other command is possible."""
        check_spec(self._ports, spec)
        if self._closed:
            raise GeneratorError("the generator is closed")
        request = self._request(spec) | {"interval_ns": round(interval_s * 1e9)}
        number = self._engine.send("trial", _COMMAND_DEADLINE_S, **request)
        policy = self._options.policy.of(spec)
        return EngineTrial(
            self._engine, number, interval_s, policy.max_skipped_ratio, lambda answer: self._result(spec, answer)
        )

    def distances(self, cpus: Sequence[int]) -> tuple[Distance, ...]:
        """The round trip of a cache line between each polling thread's CPU and each of these, its own left out."""
        own = self.info().cpus
        others = [cpu for cpu in cpus if cpu not in own]
        if not others:
            return ()
        answer = self._command("distance", _COMMAND_DEADLINE_S, cpus=others)
        return tuple(
            Distance(one["worker_cpu"], one["cpu"], one.get("median_ns"), one["preempted"])
            for one in answer["distances"]
        )

    def draw_near(self, cpu: int, other: int) -> None:
        """The two wake one another for a tenth of a second."""
        exchange_volleys(cpu, other)

    def forward(self) -> None:
        """Let the forwarders work without a trial, until :meth:`stop_forwarding`."""
        self._command("forward", _COMMAND_DEADLINE_S, action="start")

    def stop_forwarding(self) -> Mapping[str, Any]:
        ports: Mapping[str, Any] = self._command("forward", _COMMAND_DEADLINE_S, action="stop")["ports"]
        return ports

    def close(self) -> None:
        if not self._closed:
            self._speed.keep()
        self._closed = True
        self._engine.close()
        self._ports.clear()

    def _command(self, command: str, deadline_s: float, /, **arguments: Any) -> dict[str, Any]:
        if self._closed:
            raise GeneratorError("the generator is closed")
        return self._engine.command(command, deadline_s, **arguments)

    def _greet(self) -> dict[str, Any]:
        try:
            hello = self._engine.command("hello", _START_DEADLINE_S)
            if hello["protocol"] != PROTOCOL:
                raise GeneratorError(
                    f"nfvperf-gen speaks protocol {hello['protocol']}, not {PROTOCOL}; run `nfvperf build`"
                )
        except BaseException:
            self.close()
            raise
        return hello

    def _attach_one(self, port: GeneratorPort, drop_every: int) -> None:
        answer = self._command(
            "attach",
            self._options.attach_timeout_s + _COMMAND_DEADLINE_S,
            name=port.name,
            device=port.device,
            mac=port.mac,
            role=str(port.role),
            peer=port.peer or "",
            vnf_mode=str(port.vnf_mode),
            eth_peer=port.eth_peer or "",
            addresses=list(port.addresses),
            unread=port.unread,
            queues=port.queues,
            tx_descriptors=port.tx_descriptors,
            rx_descriptors=port.rx_descriptors,
            mtu=port.mtu,
            vlan=port.vlan or 0,
            drop_every=drop_every,
            timeout_ms=round(self._options.attach_timeout_s * 1000),
        )
        self._ports[port.name] = port
        self._back_pressure[port.name] = answer["back_pressure"]

    def _let_go(self, names: Sequence[str]) -> None:
        """Undo half an attach; when that fails too, the first error is the one worth telling."""
        try:
            self.detach(names)
        except GeneratorError:
            self.close()

    def _links_down(self) -> list[str]:
        links: Mapping[str, bool] = self._command("links", _COMMAND_DEADLINE_S)["links"]
        return [name for name, up in links.items() if not up]
