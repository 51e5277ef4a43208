"""A VNF that is a QEMU guest (qemu(1)) with vhost-user interfaces, in which testpmd forwards.

A slow guest prints, or uses its CPUs, or waits for the host to give it one. A hung guest does none of these. Seen: a
QEMU to whose vhost-user socket nobody connects, and one whose peer connected and sends nothing. Both sleep for ever
before the guest's first instruction, and do not answer on their monitor.
"""

from __future__ import annotations

import json
import os
import socket
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from pytest_nfvperf.adapters.process.journal import Journal, Kind
from pytest_nfvperf.adapters.process.process import ManagedProcess, read_schedstat, spawn, tail
from pytest_nfvperf.adapters.testpmd.console import PROGRAM, PROMPT, Console, version_in
from pytest_nfvperf.adapters.vnf.guest_kernel import (
    QEMU,
    Kernel,
    boot_arguments,
    build_initramfs,
    need,
    nul_separated,
    prepare_kernel,
)
from pytest_nfvperf.adapters.vnf.testpmd import forward_counts, vnf_options
from pytest_nfvperf.model.errors import ConfigError, TestbedError
from pytest_nfvperf.model.measure.cpu_account import CpuRole
from pytest_nfvperf.model.traffic.trial import VnfCounts
from pytest_nfvperf.ports.generator import GeneratorPort, Vnf, VnfSpec

MEMORY_MIB = 768
_HUGEPAGES = 96
"""Of 2 MiB, in the guest: testpmd's buffers, whose physical addresses the virtio driver needs."""

_FIRST_SLOT = 0x10
_QUEUE_SIZE = 1024
_DEVARGS_PATH = "path="
HUNG_S = 15.0
"""A guest that is silent and idle for this long hangs: while an emulated one boots, it is idle for less than 1 s."""
_LOOK_S = 1.0
_IDLE_SHARE = 0.02
"""Share of one CPU; QEMU's own timers use less."""
_MONITOR_S = 1.0
_CONNECTED = "03"
"""State of a Unix socket in /proc/net/unix (SS_CONNECTED)."""
_SECOND_STAGE = Path(__file__).parent / "second_stage.sh"
_READY_DEADLINE_S, _ANSWER_DEADLINE_S = 120.0, 20.0
"""An emulated boot takes 4 to 10 s on a quiet machine, and the start of testpmd the same time again."""


def has_kvm(device: Path = Path("/dev/kvm"), cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    flags = set(cpuinfo.read_text(encoding="utf-8", errors="replace").split())
    return os.access(device, os.R_OK | os.W_OK) and bool(flags & {"vmx", "svm"})


def qemu_command(
    spec: VnfSpec, kernel: Kernel, initramfs: Path, shared: Path, console: Path, *, kvm: bool
) -> list[str]:
    """Return the guest's command; emulated without KVM. Its second serial port is QEMU's own input and output.

    The guest's memory is shared, because the DUT reads and writes frames in it (vhost-user).
    """
    memory = f"memory-backend-memfd,id=memory,size={MEMORY_MIB}M,share=on"
    line = f"console=ttyS0 quiet loglevel=3 panic=-1 mitigations=off nokaslr tsc=reliable hugepages={_HUGEPAGES}"
    arguments = [QEMU, *boot_arguments(kernel, initramfs, line, shared, console), "-serial", "stdio"]
    arguments += ["-object", memory, "-machine", "q35,memory-backend=memory", "-m", str(MEMORY_MIB)]
    arguments += ["-cpu", "max", "-smp", "2", "-accel", "kvm" if kvm else "tcg,thread=multi"]
    for number, port in enumerate(spec.ports):
        # QEMU listens and the DUT connects, as with virtio-user's ``server=1``.
        device = f"virtio-net-pci,netdev=net{number},mac={port.mac},addr={_slot(number)}"
        arguments += ["-chardev", f"socket,id=char{number},path={vhost_socket(port)},server=on"]
        arguments += ["-netdev", f"vhost-user,id=net{number},chardev=char{number}"]
        arguments += ["-device", f"{device},rx_queue_size={_QUEUE_SIZE},tx_queue_size={_QUEUE_SIZE}"]
    return arguments


def _slot(number: int) -> str:
    return f"{_FIRST_SLOT + number:02x}.0"


def vhost_socket(port: GeneratorPort) -> str:
    """Return the socket of the port's far end, from its devargs; ConfigError if the port is not vhost-user."""
    for part in port.device.split(","):
        if part.startswith(_DEVARGS_PATH):
            return part.removeprefix(_DEVARGS_PATH)
    raise ConfigError(f"port {port.name!r} is {port.device!r}: a guest needs vhost-user ports")


def devices(spec: VnfSpec) -> list[str]:
    return [f"0000:00:{_slot(number)}" for number in range(len(spec.ports))]


def command_of_testpmd(spec: VnfSpec) -> list[str]:
    allowed = [word for device in devices(spec) for word in ("-a", device)]
    eal = ["--lcores", "0@0,1@1", "--in-memory", "--no-telemetry", "-v", *allowed]
    return [PROGRAM, *eal, "--", *vnf_options(spec)]


class HungGuestError(TestbedError):
    """The guest hangs. ``printed``: it had printed something before."""

    def __init__(self, message: str, evidence: dict[str, str], *, printed: bool) -> None:
        super().__init__(message, evidence=evidence)
        self.printed = printed


class GuestWatch:
    """Watches one boot; call ``look`` often.

    ``outputs``: files that the guest writes to. ``sockets``: vhost-user sockets on which QEMU listens. ``monitor``:
    QEMU's own socket (QMP). ``hung_s``: seconds without any sign of life.
    """

    def __init__(
        self,
        process: ManagedProcess,
        outputs: Sequence[Path],
        sockets: Sequence[Path],
        monitor: Path,
        hung_s: float = HUNG_S,
    ) -> None:
        self._process = process
        self._outputs = tuple(outputs)
        self._sockets = tuple(sockets)
        self._monitor = monitor
        self._hung_s = hung_s
        self._seen_at = self._alive_at = time.monotonic()
        self._printed, self._cpu_s = 0, 0.0

    def look(self, printed_bytes: int) -> None:
        """Look for a sign of life. ``printed_bytes``: what it printed so far outside ``outputs``.

        Raises:
            HungGuestError: there was none for too long; with QEMU's state.
        """
        now = time.monotonic()
        if now - self._seen_at < _LOOK_S:
            return
        printed = printed_bytes + sum(_size(path) for path in self._outputs)
        cpu_s = wanted_cpu_s(self._process.pid)
        if printed > self._printed or cpu_s - self._cpu_s > _IDLE_SHARE * (now - self._seen_at):
            self._alive_at = now
        self._seen_at, self._printed, self._cpu_s = now, printed, cpu_s
        if now - self._alive_at > self._hung_s:
            message = (
                f"{self._process.name} hangs: for {self._hung_s:g} s it printed nothing and used no CPU "
                f"({cpu_s:.1f} s since its start)"
            )
            evidence = {
                "vhost-user": "\n".join(f"{path}: {connection(path)}" for path in self._sockets),
                "QEMU's monitor": ask_status(self._monitor),
                self._process.log.name: self._process.log_tail(),
            }
            raise HungGuestError(message, evidence, printed=printed > 0)


def wanted_cpu_s(pid: int) -> float:
    """Seconds that a process's threads ran or waited for a CPU (/proc/PID/task/TID/schedstat); 0 if it is gone."""
    total_ns = 0
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):  # ended meanwhile
                counted = read_schedstat(task)
                total_ns += counted.ran_ns + counted.waited_ns
    return total_ns / 1e9


def connection(path: Path) -> str:
    """Describe the state of a socket on which QEMU listens."""
    states = [
        fields[5]
        for line in Path("/proc/net/unix").read_text(encoding="utf-8").splitlines()
        if (fields := line.split()) and fields[-1] == str(path)
    ]
    if not states:
        return "nobody listens"
    return "connected" if _CONNECTED in states else "nobody has connected"


def ask_status(monitor: Path) -> str:
    """Return QEMU's answer to ``query-status``; without an answer its main loop does not run."""
    try:
        return ask_monitor(monitor, "query-status")
    except OSError as error:
        return f"does not answer: {error}"


def ask_monitor(monitor: Path, command: str, **arguments: str) -> str:
    """Return QEMU's answer to a command of its QMP, a line of JSON; OSError without an answer in time."""
    with socket.socket(socket.AF_UNIX) as connected:
        connected.settimeout(_MONITOR_S)
        connected.connect(str(monitor))
        with connected.makefile("rw", encoding="utf-8") as lines:
            lines.readline()
            for name, given in (("qmp_capabilities", {}), (command, arguments)):
                lines.write(json.dumps({"execute": name, "arguments": given}) + "\n")
                lines.flush()
                answer = lines.readline()
                while '"event"' in answer and '"return"' not in answer:  # events come between answers
                    answer = lines.readline()
            return answer.strip()


def _size(path: Path) -> int:
    with suppress(OSError):
        return path.stat().st_size
    return 0


class GuestStartedAgain(UserWarning):
    """A guest hung before it had printed anything, and was started again."""


class GuestVnf(Vnf):
    def __init__(self, journal: Journal, spec: VnfSpec, cpus: Sequence[int]) -> None:
        """Boot it. ``cpus``: of QEMU's threads.

        Raises:
            TestbedError: a program for booting it or for making its kernel is missing; names the package.
        """
        self._spec = spec
        self._directory = journal.directory / f"guest-{spec.name}"
        self._journal = journal
        self._entry = journal.note(Kind.DIRECTORY, str(self._directory))
        self._shared = self._directory / "shared"
        self._shared.mkdir(parents=True)
        (self._shared / "devices").write_text("".join(f"{device}\n" for device in devices(spec)), encoding="ascii")
        (self._shared / "command").write_bytes(nul_separated(command_of_testpmd(spec)))
        self._cpus = cpus
        self._monitor = self._directory / "monitor"
        self._console_file = self._directory / "console"
        try:
            need(QEMU)
            kernel = prepare_kernel()
            initramfs = build_initramfs(kernel, self._directory, _SECOND_STAGE)
        except ConfigError as error:
            raise TestbedError(
                f"VNF {spec.name!r} asks for a QEMU guest, which this machine cannot run: {error.message}; "
                'or use kind="testpmd" or "loop"'
            ) from error
        self._command = qemu_command(spec, kernel, initramfs, self._shared, self._console_file, kvm=has_kvm())
        self._boot()

    def _boot(self) -> None:
        self._process = spawn(
            self._journal,
            f"{QEMU} of VNF {self._spec.name}",
            [*self._command, "-qmp", f"unix:{self._monitor},server=on,wait=off"],
            log=self._directory / "qemu.log",
            cpus=self._cpus,
            pipes=True,
        )
        self._console = Console(self._process, PROMPT)

    def processes(self) -> Mapping[int, CpuRole]:
        return {self._process.pid: CpuRole.VNF}

    def wait_ready(self) -> None:
        with self._with_output():
            try:
                self._wait_prompt()
            except HungGuestError as error:
                if error.printed:
                    raise
                warnings.warn(f"VNF {self._spec.name!r} was started again: {error}", GuestStartedAgain, stacklevel=2)
                self._process.kill()
                self._boot()
                self._wait_prompt()
            self._console.ask("start", _ANSWER_DEADLINE_S)

    def _wait_prompt(self) -> None:
        outputs = [self._console_file, self._shared / "stderr"]
        sockets = [Path(vhost_socket(port)) for port in self._spec.ports]
        watch = GuestWatch(self._process, outputs, sockets, self._monitor)
        self._console.wait_prompt("the prompt of the testpmd in the guest", _READY_DEADLINE_S, watch.look)

    def counts(self) -> tuple[VnfCounts, ...]:
        with self._with_output():
            answer = self._console.ask("show fwd stats all", _ANSWER_DEADLINE_S)
            return forward_counts(self._spec, answer, version_in(self._shared / "stderr"))

    def check_alive(self) -> None:
        self._process.check()

    def close(self) -> None:
        self._process.kill()
        self._journal.discard(self._directory, self._entry)

    @contextmanager
    def _with_output(self) -> Iterator[None]:
        try:
            yield
        except TestbedError as error:
            error.evidence.setdefault("guest's console", tail(self._console_file))
            error.evidence.setdefault("guest's stderr", tail(self._shared / "stderr"))
            raise
