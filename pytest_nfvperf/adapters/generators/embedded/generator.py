"""The embedded generator: our own engine, nfvperf-gen, behind the Generator port."""

from __future__ import annotations

import math
import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pytest_nfvperf.adapters.generators.checks import (
    carrier_losses,
    carrier_reasons,
    check_directions,
    check_new_ports,
    check_spec,
    check_traffic,
    link_reasons,
    parsing_answer,
    wait_for_links,
)
from pytest_nfvperf.adapters.generators.embedded.trial_results import (
    CoreSpeed,
    EngineTrial,
    trial_result,
    trial_windows,
    undisturbed_limits,
)
from pytest_nfvperf.adapters.generators.engine import Engine, StartEngine
from pytest_nfvperf.adapters.generators.frames import frames_of, lacp_streams, streams, trial_request
from pytest_nfvperf.adapters.host.nic import pci_address
from pytest_nfvperf.adapters.process.journal import TAG_VARIABLE, Journal, Kind, note_process
from pytest_nfvperf.adapters.process.process import deferred_signals
from pytest_nfvperf.adapters.process.wakeups import exchange_wakeups
from pytest_nfvperf.model.disturbance.cpu_distance import Distance, Poller
from pytest_nfvperf.model.disturbance.policy import POLICY
from pytest_nfvperf.model.disturbance.trial import TrialResult
from pytest_nfvperf.model.disturbance.validity import most_skipped
from pytest_nfvperf.model.disturbance.windows import FULL_SPEED
from pytest_nfvperf.model.errors import GeneratorError
from pytest_nfvperf.model.testbed.testbed import CpuPlan, GeneratorInfo
from pytest_nfvperf.model.traffic.mix import AnyTraffic
from pytest_nfvperf.model.traffic.trial import Direction, TrialSpec, streams_of
from pytest_nfvperf.ports.datapath import LinkOutage
from pytest_nfvperf.ports.generator import OWN_RING, Generator, GeneratorPort
from pytest_nfvperf.ports.machine import StoredValue

PROTOCOL = 1
_START_DEADLINE_S = 20.0
_COMMAND_DEADLINE_S = 10.0
_TRIAL_GRACE_S = 10.0
_LEAST_HANDED_PER_S = 10_000_000
"""Digits of templates that an engine takes, even on a busy machine: it took 200 MB in 5 s."""
_LINK_POLL_S = 0.01
_LEARN_FPS = 1000
_LEARN_FRAMES = 10
_LEARN_RESIDUAL_NS = 50_000_000
_ASK_SHARE = 4
"""When a quarter of the frames that may wait for a full ring are waiting, it is no burst: the witnesses are asked."""


def eal_arguments(
    cpus: Sequence[int], control_cpus: Sequence[int], file_prefix: str, hugepages_mib: int, pci: Sequence[str]
) -> list[str]:
    """DPDK's start-up arguments (DPDK Linux guide, "EAL parameters").

    The control thread is lcore 0; polling threads follow, one a CPU. Memory is in memfds (``--in-memory``), so even
    kill -9 leaves no hugepage file. ``--single-file-segments``: vhost-user passes at most 8 memory regions. Without
    hugepages 4 KiB pages serve. Vectors of 512 bits are for virtio-user's driver (DPDK virtio guide); drivers of NICs
    choose their own.

    Args:
        cpus: of the polling threads.
        control_cpus: of all other threads.
        file_prefix: distinguishes instances in DPDK's logs.
        hugepages_mib: memory taken at the start; 0: no hugepages at all.
        pci: addresses of NICs to use; no others are probed.
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
    """Rarely changed settings.

    Attributes:
        pci: addresses of NICs to take; no others are probed.
        skipped_share: of a direction's frames that may be skipped in a trial (``most_skipped``).
        attach_timeout_s: how long a server socket waits for its client.
        learn_timeout_s: how long ``learn`` repeats until its frames come through.
        nice: of the polling threads. Where they share a CPU with the rest of the machine, trials are valid only with a
            raised priority; others lose that CPU during a trial only.
        env: added to the engine's environment, such as the tag by which a reaper finds it.
        witness_cpus: CPUs of the DUT's polling threads, where witnesses observe whether these have their CPU alone.
        start: starts the engine; may also record the conversation, or replay one.
        own_rings: drive the rings of vhost-user sockets ourselves; False leaves them to DPDK's virtio driver.
        stored_speed: stores the speed of this machine's cores from run to run.
    """

    pci: tuple[str, ...] = ()
    skipped_share: float = POLICY.most_skipped
    attach_timeout_s: float = 5.0
    learn_timeout_s: float = 2.0
    nice: int = -15
    env: Mapping[str, str] = field(default_factory=dict)
    witness_cpus: tuple[int, ...] = ()
    start: StartEngine = Engine
    own_rings: bool = True
    stored_speed: StoredValue | None = None


class EmbeddedGenerator(Generator):
    """nfvperf-gen as a Generator.

    Args:
        binary: nfvperf-gen, from :func:`pytest_nfvperf.adapters.generators.embedded.build.find`.
        cpus: CPUs of the polling threads, which take the ports in turn.
        control_cpus: CPUs of the thread that takes commands; it sleeps during a trial.
        run_dir: existing directory for the log ``<file_prefix>.log``.
        file_prefix: unique per instance.
        hugepages_mib: memory in MiB; about 10 per port at an MTU of 1500. 0: without hugepages.
        on_spawn: receives the process id as soon as there is one.

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
        self._ports: dict[str, GeneratorPort] = {}
        self._back_pressure: dict[str, bool] = {}
        self._sending: dict[str, str] = {}
        self._devices: dict[str, Mapping[str, Any]] = {}
        self._speed = CoreSpeed(self._options.stored_speed)
        self._pollers: tuple[Poller, ...] = ()
        self._carrier_losses: Mapping[str, int] = {}
        self._closed = False
        self._running: EngineTrial | None = None
        eal = eal_arguments(cpus, control_cpus, file_prefix, hugepages_mib, self._options.pci)
        argv = [str(binary), "--parent", str(os.getpid()), "--nice", str(self._options.nice), *eal]
        # DPDK makes its runtime directory there (since 21.11), otherwise under /var/run/dpdk, where it would stay.
        env = {"RUNTIME_DIRECTORY": str(run_dir), **self._options.env}
        with deferred_signals():
            self._engine = self._options.start(argv, run_dir / f"{file_prefix}.log", env)
            if on_spawn is not None:
                on_spawn(self._engine.pid)
        try:
            self._hello = self._engine.command("hello", _START_DEADLINE_S)
            if self._hello["protocol"] != PROTOCOL:
                raise GeneratorError(
                    f"nfvperf-gen speaks protocol {self._hello['protocol']}, not {PROTOCOL}; run `nfvperf build`"
                )
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        return self._engine.pid

    def info(self) -> GeneratorInfo:
        detail = f"{self._hello['dpdk']}, TSC {self._hello['tsc_hz'] / 1e9:.3f} GHz"
        return GeneratorInfo(engine="nfvperf-gen", version=self._hello["version"], detail=detail, cpus=self._cpus)

    def sending(self) -> Mapping[str, str]:
        return dict(self._sending)

    def nics(self) -> Mapping[str, Mapping[str, Any]]:
        """What drivers granted to the attached NICs, by port: answers to ``attach`` (engine-protocol.md)."""
        return dict(self._devices)

    def attach(self, ports: Sequence[GeneratorPort], *, drop_every: int = 0) -> None:
        """Take the ports, all or none.

        Args:
            ports: what to attach.
            drop_every: forwarders among them drop every n-th frame, for tests; 0: none.
        """
        check_new_ports(self._ports, ports)
        attached: list[str] = []
        try:
            for port in ports:
                for name, device in zip(port.members, port.device.split(" "), strict=False):
                    self._attach_one(replace(port, name=name, device=device, members=()), drop_every, port.name)
                    attached.append(name)
                if port.members:
                    self._ports[port.name] = port
                    self._back_pressure[port.name] = all(self._back_pressure[name] for name in port.members)
                else:
                    self._attach_one(port, drop_every)
                attached.append(port.name)
        except GeneratorError:
            self._let_go(attached)
            raise

    def detach(self, names: Sequence[str]) -> None:
        for name in names:
            port = self._ports.pop(name, None)
            if port is None:
                continue
            self.detach(port.members)
            if not port.members:
                self._command("detach", _COMMAND_DEADLINE_S, name=name)
            del self._back_pressure[name]
            self._sending.pop(name, None)
            self._devices.pop(name, None)

    def wait_links_up(self, deadline_s: float) -> None:
        awaited, log = "link on the generator's ports", self._engine.log_tail
        wait_for_links(self._links_down, awaited, deadline_s, interval_s=_LINK_POLL_S, log_tail=log)

    def learn(self, traffic: AnyTraffic, directions: Sequence[Direction]) -> None:
        """Send learning frames until they come through in each direction, for ``learn_timeout_s`` at most.

        A vhost-user link is up before the switch polls it, so the first frames may be lost. Frames that never come
        through are no error here: a DUT may be configured to drop them.
        """
        check_directions(self._ports, directions, to_many=True)
        check_traffic(self._ports, traffic, directions)
        wanted = streams_of(traffic.without_hold(), directions, _LEARN_FPS, _LEARN_FRAMES, learning=True)
        sent = streams(wanted, directions, self._ports) + lacp_streams(self._ports, 1)
        until = time.monotonic() + self._options.learn_timeout_s
        while True:
            answer = self._command("learn", _COMMAND_DEADLINE_S, streams=sent, residual_ns=_LEARN_RESIDUAL_NS)
            own = answer["streams"][: sum(max(1, len(stream.steps)) for stream in wanted)]
            received_all = all(stream["received"] >= stream["sent"] > 0 for stream in own)
            if received_all or time.monotonic() > until:
                return

    def run_trial(self, spec: TrialSpec) -> TrialResult:
        check_spec(self._ports, spec, to_many=True)
        request = self._request(spec)
        handed = sum(len(template) for stream in request["streams"] for template in stream["templates"])
        deadline_s = spec.lasts_s + spec.residual_s + _TRIAL_GRACE_S + handed / _LEAST_HANDED_PER_S
        return self._result(spec, self._command("trial", deadline_s, **request))

    def _result(self, spec: TrialSpec, answer: Mapping[str, Any]) -> TrialResult:
        with parsing_answer("nfvperf-gen", answer):
            outages = self._outages(answer)
            still_down = {outage.port for outage in outages if outage.restored_ns is None}
            links = [outage.reason("the generator's", answer["started_ns"]) for outage in outages]
            links += link_reasons([name for name in self._links_down() if name not in still_down])
            links += carrier_reasons(self._carrier_losses, carrier_losses(self._ports))
            windows = trial_windows(answer, self._speed)  # by the speed that this engine has observed so far
            share = self._options.skipped_share
            found = trial_result(spec, answer, self._ports, self._back_pressure, windows, share, self._cpus)
            return replace(found, invalid=(*links, *found.invalid))

    def _outages(self, answer: Mapping[str, Any]) -> list[LinkOutage]:
        """Times in which a NIC had no link. The engine counts them from the trial's start."""
        began_ns = answer["started_ns"]
        return [
            LinkOutage(
                name,
                self._devices.get(name, {}).get("pci") or name,
                began_ns + outage["lost_ns"],
                began_ns + outage["restored_ns"] if "restored_ns" in outage else None,
            )
            for name, port in answer["ports"].items()
            for outage in port.get("link_outages", ())
        ]

    def _request(self, spec: TrialSpec) -> dict[str, Any]:
        self._carrier_losses = carrier_losses(self._ports)
        request = trial_request(spec, self._ports)
        if spec.window_s is not None:
            request["witnesses"] = self._witnesses()
            if not spec.saturating:
                request["ask_depth"] = min(self._ports[each.tx].queue_depth for each in spec.directions) // _ASK_SHARE
            if speed := self._speed.cycles:
                request["undisturbed"] = undisturbed_limits(speed, round(spec.window_s * 1e9))
        return request

    def watch(self, pollers: Sequence[Poller]) -> None:
        """Have later trials say how long these threads of the DUT waited for their CPUs in each window."""
        self._pollers = tuple(pollers)

    def _witnesses(self) -> list[dict[str, int]]:
        """One for each CPU of the DUT. Threads that share a CPU wait for one another and are not watched."""
        on = Counter(poller.cpu for poller in self._pollers)
        alone = {poller.cpu: poller for poller in self._pollers if on[poller.cpu] == 1}
        watched = {cpu: {"process": poller.process, "thread": poller.thread} for cpu, poller in alone.items()}
        return [{"cpu": cpu, **watched.get(cpu, {})} for cpu in self._options.witness_cpus if cpu not in self._cpus]

    def start_trial(self, spec: TrialSpec, interval_s: float) -> EngineTrial:
        """Begin a trial that reports counts every ``interval_s``; until it ends, other commands fail."""
        check_spec(self._ports, spec)
        if self._closed:
            raise GeneratorError("the generator is closed")
        request = self._request(spec) | {"interval_ns": round(interval_s * 1e9)}
        number = self._engine.send("trial", _COMMAND_DEADLINE_S, **request)
        skipped, sent = most_skipped(spec, self._options.skipped_share), spec.streams(frames_of(spec))
        self._running = EngineTrial(
            self._engine, number, interval_s, skipped, sent, lambda answer: self._result(spec, answer)
        )
        return self._running

    def set_link(self, port: str, *, up: bool) -> None:
        if self._running is not None:
            self._running.set_link(port, up=up)

    def distances(self, cpus: Sequence[int]) -> tuple[Distance, ...]:
        """Measure a cache line's round trip between each polling thread's CPU and each of these others."""
        own = self.info().cpus
        others = [cpu for cpu in cpus if cpu not in own]
        if not others:
            return ()
        answer = self._command("distance", _COMMAND_DEADLINE_S, cpus=others)
        slow = FULL_SPEED * self._speed.cycles or math.inf
        return tuple(
            Distance(
                one["worker_cpu"],
                one["cpu"],
                one.get("median_ns"),
                one["preempted"],
                slow=min(one.get("speed", 0), one.get("other_speed", 0)) > slow,
            )
            for one in answer["distances"]
        )

    def move_cpus_closer(self, cpu: int, other: int) -> None:
        """Have the two CPUs wake one another for a tenth of a second."""
        exchange_wakeups(cpu, other)

    def forward(self) -> None:
        self._command("forward", _COMMAND_DEADLINE_S, action="start")

    def close(self) -> None:
        closed, self._closed = self._closed, True
        self._engine.close()
        self._ports.clear()
        if not closed:
            self._speed.keep()

    def _command(self, command: str, deadline_s: float, /, **arguments: Any) -> dict[str, Any]:
        if self._closed:
            raise GeneratorError("the generator is closed")
        return self._engine.command(command, deadline_s, **arguments)

    def _attach_one(self, port: GeneratorPort, drop_every: int, bond: str = "") -> None:
        answer = self._command(
            "attach",
            self._options.attach_timeout_s + _COMMAND_DEADLINE_S,
            name=port.name,
            device=pci_address(port.device),
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
            # Only where it is not the default: recordings of earlier versions have the same request otherwise.
            **({} if self._options.own_rings else {"own_ring": False}),
            **({"bond": bond, "learns": port.learns} if bond else {}),
        )
        self._ports[port.name] = port
        self._back_pressure[port.name] = answer["back_pressure"]
        if answer.get("own_ring"):
            self._sending[port.name] = OWN_RING
        elif "why_dpdk" in answer:
            self._sending[port.name] = f"DPDK's virtio-user: {answer['why_dpdk']}"
        elif "driver" in answer:
            self._note_device(port, answer)

    def _note_device(self, port: GeneratorPort, answer: Mapping[str, Any]) -> None:
        """Remember what the driver granted. A port with other rings than asked for says so in the evidence."""
        self._devices[port.name] = answer
        received, sent = answer["rx_descriptors"], answer["tx_descriptors"]
        self._ports[port.name] = replace(port, rx_descriptors=received, tx_descriptors=sent)
        others = [
            f"{granted} {side} descriptors, {asked} were asked for"
            for side, granted, asked in (
                ("receive", received, port.rx_descriptors),
                ("transmit", sent, port.tx_descriptors),
            )
            if granted != asked
        ]
        if others:
            self._sending[port.name] = f"DPDK's {answer['driver']}: {'; '.join(others)}"

    def _let_go(self, names: Sequence[str]) -> None:
        """Undo half an attach. If that fails, too, close: the first error is the one to report."""
        try:
            self.detach(names)
        except GeneratorError:
            self.close()

    def _links_down(self) -> list[str]:
        links: Mapping[str, bool] = self._command("links", _COMMAND_DEADLINE_S)["links"]
        return [name for name, up in links.items() if not up]


def start_generator(
    journal: Journal, binary: Path, name: str, cpus: CpuPlan, hugepages_mib: int, options: EngineOptions | None = None
) -> EmbeddedGenerator:
    """Start it as a process of this run: journaled first, and tagged. ``name``: of this instance in the run."""
    entry = journal.note(Kind.PROCESS, binary.name)
    return EmbeddedGenerator(
        binary,
        cpus=cpus.generator,
        control_cpus=cpus.housekeeping,
        run_dir=journal.directory,
        file_prefix=f"nfv-{journal.tag}-{name}",
        hugepages_mib=hugepages_mib,
        options=replace(options or EngineOptions(), env={TAG_VARIABLE: journal.tag}),
        on_spawn=lambda pid: note_process(journal, entry, pid),
    )
