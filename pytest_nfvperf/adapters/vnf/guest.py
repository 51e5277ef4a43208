"""A VNF that is a QEMU guest (qemu(1)) with vhost-user interfaces, in which testpmd forwards.

A slow guest prints, or uses its CPUs, or waits for the host to give it one. A hung one does none of these. Seen: a QEMU
to whose vhost-user socket nobody connects, and one whose peer connected and sends nothing. Both sleep for ever before
the guest's first instruction, and do not answer their monitor.
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

from pytest_nfvperf.adapters.guest.initramfs import build_initramfs, shared_folder
from pytest_nfvperf.adapters.guest.kernel_image import QEMU, Kernel, need, prepare_kernel
from pytest_nfvperf.adapters.journal.journal import Journal, Kind
from pytest_nfvperf.adapters.process.process import ManagedProcess, read_schedstat, spawn, tail
from pytest_nfvperf.adapters.vnf.testpmd import PROGRAM, PROMPT, Console, forward_counts, forwarding_options, version_in
from pytest_nfvperf.model.errors import ConfigError, TestbedError
from pytest_nfvperf.model.measure.cpu_account import CpuRole
from pytest_nfvperf.model.traffic.trial import VnfCounts
from pytest_nfvperf.ports.vnf import VnfPort, VnfSpec

MEMORY_MIB = 768
_HUGEPAGES = 96
"""Of 2 MiB, in the guest: testpmd's buffers, whose physical addresses the virtio driver needs."""

_FIRST_SLOT = 0x10
_QUEUE_SIZE = 1024
_DEVARGS_PATH = "path="
HUNG_S = 15.0
"""Silent and idle for so long, a guest hangs: emulated and starting, it is idle for less than a second at a time."""
_LOOK_S = 1.0
_IDLE_SHARE = 0.02
"""Of one CPU: QEMU's own timers use less."""
_MONITOR_S = 1.0
_CONNECTED = "03"
"""State of a Unix socket in /proc/net/unix (SS_CONNECTED)."""
_SECOND_STAGE = Path(__file__).parent / "second_stage.sh"
_READY_DEADLINE_S, _ANSWER_DEADLINE_S = 120.0, 20.0
"""Emulated, a boot takes 4 to 10 s on a quiet machine; testpmd's start as long again."""


def has_kvm(device: Path = Path("/dev/kvm"), cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """True when this machine virtualises by its own CPU: the device alone is there also where KVM fails in guests."""
    flags = set(cpuinfo.read_text(encoding="utf-8", errors="replace").split())
    return os.access(device, os.R_OK | os.W_OK) and bool(flags & {"vmx", "svm"})


def qemu_command(
    spec: VnfSpec, kernel: Kernel, initramfs: Path, shared: Path, console: Path, *, kvm: bool
) -> list[str]:
    """The guest; emulated without KVM. Its second serial port is QEMU's own input and output.

    The guest's memory is shared, because the DUT reads and writes frames in it (vhost-user).
    """
    memory = f"memory-backend-memfd,id=memory,size={MEMORY_MIB}M,share=on"
    arguments = [QEMU, "-nodefaults", "-no-user-config", "-display", "none", "-monitor", "none", "-nic", "none"]
    arguments += ["-object", memory, "-machine", "q35,memory-backend=memory", "-m", str(MEMORY_MIB)]
    arguments += ["-cpu", "max", "-smp", "2", "-no-reboot"]
    arguments += ["-accel", "kvm" if kvm else "tcg,thread=multi"]
    arguments += ["-serial", f"file:{console}", "-serial", "stdio", "-device", "virtio-rng-pci"]
    line = f"console=ttyS0 quiet loglevel=3 panic=-1 mitigations=off nokaslr tsc=reliable hugepages={_HUGEPAGES}"
    arguments += ["-kernel", str(kernel.vmlinux), "-initrd", str(initramfs), "-append", line]
    arguments += shared_folder("root", Path("/"), readonly=True)
    arguments += shared_folder("modules", kernel.modules, readonly=True)
    arguments += shared_folder("shared", shared, readonly=False)
    for number, port in enumerate(spec.ports):
        arguments += _interface(number, port)
    return arguments


def _interface(number: int, port: VnfPort) -> list[str]:
    """QEMU listens and the DUT connects, as virtio-user with ``server=1`` does."""
    device = f"virtio-net-pci,netdev=net{number},mac={port.mac},addr={_slot(number)},rx_queue_size={_QUEUE_SIZE}"
    return [
        *("-chardev", f"socket,id=char{number},path={vhost_socket(port)},server=on"),
        *("-netdev", f"vhost-user,id=net{number},chardev=char{number}"),
        *("-device", f"{device},tx_queue_size={_QUEUE_SIZE}"),
    ]


def _slot(number: int) -> str:
    return f"{_FIRST_SLOT + number:02x}.0"


def vhost_socket(port: VnfPort) -> str:
    """Where the port's far end listens, from its devargs; ConfigError where it is not vhost-user."""
    for part in port.device.split(","):
        if part.startswith(_DEVARGS_PATH):
            return part.removeprefix(_DEVARGS_PATH)
    raise ConfigError(f"port {port.name!r} is {port.device!r}: a guest needs vhost-user ports")


def devices(spec: VnfSpec) -> list[str]:
    """PCI addresses of the interfaces in the guest."""
    return [f"0000:00:{_slot(number)}" for number in range(len(spec.ports))]


def testpmd_command(spec: VnfSpec) -> list[str]:
    """What forwards in the guest: testpmd with DPDK's virtio driver."""
    eal = ["--lcores", "0@0,1@1", "--in-memory", "--no-telemetry", "-v"]
    for device in devices(spec):
        eal += ["-a", device]
    return [PROGRAM, *eal, "--", *forwarding_options(spec)]


testpmd_command.__test__ = False  # type: ignore[attr-defined]  # pytest must not collect it for its name


class HungGuestError(TestbedError):
    """The guest hangs. ``printed``: it had said something before."""

    def __init__(self, message: str, evidence: dict[str, str], *, printed: bool) -> None:
        super().__init__(message, evidence=evidence)
        self.printed = printed


class GuestWatch:
    """Watches one boot; call ``look`` often.

    Args:
        outputs: files that the guest writes to.
        sockets: its vhost-user sockets, on which QEMU listens.
        monitor: QEMU's own (QMP).
        hung_s: seconds without any sign of life.
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
        """Look for a sign of life.

        Args:
            printed_bytes: what it has printed elsewhere than in ``outputs`` so far.

        Raises:
            HungGuestError: there was none for too long; with what QEMU is doing.
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
            raise HungGuestError(message, self._evidence(), printed=printed > 0)

    def _evidence(self) -> dict[str, str]:
        connections = "\n".join(f"{path}: {connection(path)}" for path in self._sockets)
        return {
            "vhost-user": connections,
            "QEMU's monitor": ask_status(self._monitor),
            self._process.log.name: self._process.log_tail(),
        }


def wanted_cpu_s(pid: int) -> float:
    """Seconds that its threads ran on a CPU or waited for one (/proc/PID/task/TID/schedstat); 0 when it is gone."""
    total_ns = 0
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):  # ended meanwhile
                counted = read_schedstat(task)
                total_ns += counted.ran_ns + counted.waited_ns
    return total_ns / 1e9


def connection(path: Path, table: Path = Path("/proc/net/unix")) -> str:
    """Who is at the other end of a socket that QEMU listens on, in words."""
    states = [
        fields[5]
        for line in table.read_text(encoding="utf-8").splitlines()
        if (fields := line.split()) and fields[-1] == str(path)
    ]
    if not states:
        return "nobody listens"
    return "connected" if _CONNECTED in states else "nobody has connected"


def ask_status(monitor: Path) -> str:
    """QEMU's answer to ``query-status``; that it does not answer says that its main loop does not run."""
    try:
        with socket.socket(socket.AF_UNIX) as connected:
            connected.settimeout(_MONITOR_S)
            connected.connect(str(monitor))
            with connected.makefile("rw", encoding="utf-8") as lines:
                lines.readline()
                for command in ("qmp_capabilities", "query-status"):
                    lines.write(json.dumps({"execute": command}) + "\n")
                    lines.flush()
                    answer = lines.readline()
                return answer.strip()
    except OSError as error:
        return f"does not answer: {error}"


def _size(path: Path) -> int:
    with suppress(OSError):
        return path.stat().st_size
    return 0


class GuestStartedAgain(UserWarning):
    """A guest hung before it had printed anything, and was started once more."""


class GuestVnf:
    """Fulfils ports.vnf.Vnf."""

    def __init__(self, journal: Journal, spec: VnfSpec, cpus: Sequence[int]) -> None:
        """Boot it.

        Args:
            journal: of this run; the guest's files are in its directory.
            spec: what it shall be.
            cpus: of QEMU's threads.

        Raises:
            TestbedError: QEMU, or what makes a kernel and a first file system for it, is missing; names the package.
        """
        self._spec = spec
        self._directory = journal.directory / f"guest-{spec.name}"
        self._journal = journal
        self._entry = journal.note(Kind.DIRECTORY, str(self._directory))
        self._shared = self._directory / "shared"
        self._shared.mkdir(parents=True)
        (self._shared / "devices").write_text("".join(f"{device}\n" for device in devices(spec)), encoding="ascii")
        command = b"".join(part.encode() + b"\0" for part in testpmd_command(spec))
        (self._shared / "command").write_bytes(command)
        self._cpus = cpus
        self._command = self._make_command()
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

    @property
    def _monitor(self) -> Path:
        return self._directory / "monitor"

    def _make_command(self) -> list[str]:
        try:
            need(QEMU)
            kernel = prepare_kernel()
            initramfs = build_initramfs(kernel, self._directory, _SECOND_STAGE)
        except ConfigError as error:
            raise TestbedError(
                f"VNF {self._spec.name!r} asks for a QEMU guest, which this machine cannot run: {error.message}; "
                'or use kind="testpmd" or "loop"'
            ) from error
        return qemu_command(self._spec, kernel, initramfs, self._shared, self._directory / "console", kvm=has_kvm())

    def processes(self) -> Mapping[int, CpuRole]:
        return {self._process.pid: CpuRole.VNF}

    def wait_ready(self) -> None:
        """Wait for the prompt of the testpmd in it, and let that forward."""
        with self._told():
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
        outputs = [self._directory / "console", self._shared / "stderr"]
        sockets = [Path(vhost_socket(port)) for port in self._spec.ports]
        watch = GuestWatch(self._process, outputs, sockets, self._monitor)
        self._console.wait_prompt("the prompt of the testpmd in the guest", _READY_DEADLINE_S, watch.look)

    def counts(self) -> tuple[VnfCounts, ...]:
        with self._told():
            answer = self._console.ask("show fwd stats all", _ANSWER_DEADLINE_S)
            return forward_counts(self._spec, answer, version_in(self._shared / "stderr"))

    def check_alive(self) -> None:
        self._process.check()

    def close(self) -> None:
        self._process.kill()
        self._journal.discard(self._directory, self._entry)

    @contextmanager
    def _told(self) -> Iterator[None]:
        """What goes wrong meanwhile is told with what the guest said."""
        try:
            yield
        except TestbedError as error:
            error.evidence.setdefault("guest's console", tail(self._directory / "console"))
            error.evidence.setdefault("guest's stderr", tail(self._shared / "stderr"))
            raise
