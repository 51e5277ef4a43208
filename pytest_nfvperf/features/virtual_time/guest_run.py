"""Runs one command, such as pytest, in a guest whose clock counts instructions.

The guest has this machine's files and Debian's kernel. It boots in a few seconds, and mounts the host's root read-only
under a layer in memory. It returns results in one shared folder, and can write to some others in place.
"""

from __future__ import annotations

import os
import secrets
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TextIO

import pytest

from pytest_nfvperf.adapters.generators.embedded import build
from pytest_nfvperf.adapters.machine.fingerprint import INSTRUCTION_NS_PARAMETER, is_virtual
from pytest_nfvperf.adapters.machine.reaper import open_journal, reap
from pytest_nfvperf.adapters.process.journal import Journal, Kind
from pytest_nfvperf.adapters.process.process import describe_exit, spawn, tail
from pytest_nfvperf.adapters.vnf.guest import GuestWatch, HungGuestError
from pytest_nfvperf.adapters.vnf.guest_kernel import (
    QEMU,
    Kernel,
    boot_arguments,
    build_initramfs,
    need,
    nul_separated,
    prepare_kernel,
    shared_folder,
)
from pytest_nfvperf.model.errors import ConfigError, DeadlineError, NfvperfError, TestbedError
from pytest_nfvperf.model.evidence.conclusion import RunResult
from pytest_nfvperf.plugin.options import read_options
from pytest_nfvperf.plugin.output import NOTE, write_noted

_CPU = "max,-erms,-fsrm,model-id=QEMU TCG CPU without ERMS"
"""The emulator executes a copy by "rep movsb" byte by byte, and counts each; a processor with ERMS moves a cache line
at a time. Without ERMS, kernel and libc copy by words. The guest's CPU has a name of its own, which the fingerprint
has (cpu_model): counts of a CPU with ERMS are those of another machine."""
_ICOUNT_SHIFT = 1
_HUGEPAGE_MIB = 2
_INSTRUCTION_NS = 1 << _ICOUNT_SHIFT
"""In virtual time each executed instruction advances the guest's clock by this many ns (qemu(1), -icount shift)."""
_DATAPATH_MODULES = ("openvswitch", "veth", "tun", "bridge", "pktgen")
"""For the kernel datapath, its tests and the reference bridge."""

_BOOT_DEADLINE_S = 60.0
_DEADLINE_S = 7200.0
"""Host time. The guest is emulated: some ten times slower than this machine."""
SHARED = Path("/guest")
"""Path of the shared folder in the guest."""
_SHARED_FILES = ("command", "modules", "writable", "vfio", "started", "status", "stdout", "stderr", "dmesg")
_SECOND_STAGE = Path(__file__).parent / "second_stage.sh"
_POLL_S = 0.05
_CONSOLE_LINES = 80  # a panic with its registers and backtrace

_PASSED_ON = ("HOME", "LANG", "XDG_CACHE_HOME", "PYTHONPATH", "PYTEST_ADDOPTS", "PYTEST_PLUGINS", "COLUMNS")
_NO_CACHE = ("-p", "no:cacheprovider")
_NO_HYPOTHESIS = ("-p", "no:hypothesispytest")
"""At the end of every run this plugin imports all of hypothesis, which takes the guest 40 s. Tests work without it."""
_REPORT_NOTE = "report"
_REFUSED_OPTIONS = (
    ("--nfv-testbed", "nfv_testbed", "the testbed is the guest's own: a private OVS without DPDK"),
    ("--nfv-record", "nfv_record", "its generator has no conversation to record"),
    ("--nfv-resume", "nfv_resume", "what was counted in another guest is counted again"),
    ("--nfv-plan", "nfv_plan", "a plan shows how long trials take by the clock"),
    ("-n", "numprocesses", "instructions are counted on one CPU, by one process"),
)


class GuestTime(StrEnum):
    WALL_CLOCK = "wall clock"
    """The host's clock. Rates are those of an emulated machine: good for relations, not for figures."""
    VIRTUAL = "virtual time"
    """A count of instructions, independent of the host's load. Only costs in instructions may be reported."""


@dataclass(frozen=True, slots=True)
class GuestMachine:
    """The guest's size and time.

    Attributes:
        modules: kernel modules that are loaded before the command runs. Nothing else loads them: there is no udev, so
            even /dev/net/tun needs its module here.
        hugepages_mib: reserved at boot, of its memory.
        autoload: the kernel loads modules on request. Each request runs a program, which takes tenths of a second under
            emulation. Frequent requests, as vswitchd's for interfaces that are elsewhere, block the guest.
        writable: folders of the host that the guest writes to in place, at the same paths.
        hardware: QEMU's arguments for further devices.
        parameters: of the kernel, besides ours.
        vfio: PCI addresses of devices that vfio-pci gets before the command runs ("0000:00:10.0").
        qemu: the command that starts QEMU; its file is the distribution's by default.
        environment: variables that this command needs.
        skips_idle: in virtual time idle time is skipped. That includes waits for the host's files, which then take
            longer than they seem. False: idle time takes as long as on the host.

    Raises:
        ConfigError: virtual time with more than one CPU, where guests of Linux 6.1 hang.
    """

    time: GuestTime = GuestTime.WALL_CLOCK
    cpus: int = 2
    memory_mib: int = 2048
    modules: tuple[str, ...] = _DATAPATH_MODULES
    hugepages_mib: int = 0
    autoload: bool = True
    writable: tuple[Path, ...] = ()
    hardware: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    vfio: tuple[str, ...] = ()
    qemu: tuple[str, ...] = (QEMU,)
    environment: tuple[tuple[str, str], ...] = ()
    skips_idle: bool = True

    def __post_init__(self) -> None:
        if self.time is GuestTime.VIRTUAL and self.cpus != 1:
            raise ConfigError(f"virtual time needs a guest of 1 CPU, not {self.cpus}: instructions are counted on one")


VIRTUAL_TIME = GuestMachine(GuestTime.VIRTUAL, cpus=1)
_PYTEST_GUEST = GuestMachine(GuestTime.VIRTUAL, cpus=1, memory_mib=4096, hugepages_mib=1024, skips_idle=False)
"""For commands with deadlines that read many of the host's files, such as pytest. Its hugepages are for two nodes with
DPDK and the generator; QEMU uses only as much of the host's memory as the guest has touched."""


def qemu_command(machine: GuestMachine, kernel: Kernel, initramfs: Path, shared: Path, console: Path) -> list[str]:
    line = _kernel_command_line(machine)
    arguments = [*machine.qemu, *boot_arguments(kernel, initramfs, line, shared, console), "-machine", "q35"]
    arguments += ["-cpu", _CPU, "-m", str(machine.memory_mib), "-smp", str(machine.cpus)]
    if machine.time is GuestTime.VIRTUAL:
        # Not aligned to the host's clock: while the guest works, only instructions make time pass.
        sleep = "off" if machine.skips_idle else "on"
        arguments += ["-accel", "tcg,thread=single", "-icount", f"shift={_ICOUNT_SHIFT},align=off,sleep={sleep}"]
    else:
        arguments += ["-accel", "tcg,thread=multi"]
    for number, path in enumerate(machine.writable):
        arguments += shared_folder(f"writable{number}", path.resolve(), readonly=False)
    return [*arguments, *machine.hardware]


def _kernel_command_line(machine: GuestMachine) -> str:
    # A panic ends the guest at once; addresses and mitigations are the same in every boot. On a busy host the guest's
    # timer is late for the kernel's check of it, which panics behind an IOMMU.
    parts = [
        "console=ttyS0 quiet loglevel=3 panic=-1 mitigations=off nokaslr net.ifnames=0 tsc=reliable no_timer_check"
    ]
    parts += machine.parameters
    if machine.hugepages_mib:
        parts.append(f"hugepages={machine.hugepages_mib // _HUGEPAGE_MIB}")
    if not machine.autoload:
        parts.append("sysctl.kernel.modprobe=/none")
    if machine.time is GuestTime.VIRTUAL:
        # Idle time is skipped to the next timer, also while the guest waits for the host's files. Ticks limit each skip
        # to 4 ms. Without them one such wait could skip past a deadline of seconds.
        parts += ["nohz=off", f"{INSTRUCTION_NS_PARAMETER}={_INSTRUCTION_NS}"]
    return " ".join(parts)


@dataclass(frozen=True, slots=True)
class GuestRun:
    """A command that ran to its end in a guest.

    Attributes:
        status: its exit status.
        time: the guest's kind of time; figures of the two kinds are never compared.
        boot_s: host seconds from QEMU's start to the command's.
        elapsed_s: host seconds from QEMU's start to its end.
        shared: the folder that was shared, with what the command wrote there and the guest's ``dmesg``.
    """

    command: tuple[str, ...]
    status: int
    stdout: str
    stderr: str
    time: GuestTime
    boot_s: float
    elapsed_s: float
    shared: Path

    def __str__(self) -> str:
        texts = {"stdout": self.stdout, "stderr": self.stderr, "kernel": tail(self.shared / "dmesg")}
        shown = [f"`{shlex.join(self.command)}` {describe_exit(self.status)} in the guest ({self.time})"]
        shown += [f"--- {name} ---\n{text.rstrip()}" for name, text in texts.items() if text.strip()]
        return "\n".join(shown)


def run_in_guest(  # noqa: PLR0913 - all but four are named, and have a default
    journal: Journal,
    kernel: Kernel,
    command: Sequence[str],
    shared: Path,
    *,
    machine: GuestMachine | None = None,
    deadline_s: float = 120.0,
    boot_deadline_s: float = _BOOT_DEADLINE_S,
    stream: TextIO | None = None,
    attend: Callable[[Path], None] | None = None,
) -> GuestRun:
    """Boot a guest, and run a command in it. QEMU is journaled, tagged, and killed with its parent.

    Args:
        journal: of this run; the guest's own files are in its directory.
        kernel: to boot.
        command: an argument list; programs and files have the same paths as on this machine.
        shared: an existing folder for results, /guest in the guest.
        machine: 2 CPUs on the wall clock by default.
        deadline_s: host seconds that the command may take.
        boot_deadline_s: host seconds until it must have begun.
        stream: its output is also written here, as it comes.
        attend: called with the socket of QEMU's monitor, some 20 times a second while the command runs.

    Raises:
        ConfigError: QEMU is not installed; names the package.
        HungGuestError: the guest hangs at its start: it neither prints nor uses a CPU; with QEMU's own state.
        DeadlineError: what was awaited, with the ends of console and output; QEMU has ended by then.
        TestbedError: the guest ended without the command's status (a panic, QEMU died), with the console's end.
    """
    machine = machine or GuestMachine()
    need(machine.qemu[0])
    directory = journal.directory / f"guest-{secrets.token_hex(3)}"
    entry = journal.note(Kind.DIRECTORY, str(directory))
    directory.mkdir()
    try:
        guest = _Guest(journal, kernel, command, shared, machine, directory, stream)
        return guest.run(boot_deadline_s, deadline_s, attend)
    finally:
        journal.discard(directory, entry)


class _Guest:
    def __init__(
        self,
        journal: Journal,
        kernel: Kernel,
        command: Sequence[str],
        shared: Path,
        machine: GuestMachine,
        directory: Path,
        stream: TextIO | None,
    ) -> None:
        self._command = tuple(command)
        self._shared = shared
        self._machine = machine
        self._console = directory / "console"
        for name in _SHARED_FILES:
            (shared / name).unlink(missing_ok=True)
        (shared / "command").write_bytes(nul_separated(self._command))
        (shared / "modules").write_text("".join(f"{name}\n" for name in machine.modules), encoding="ascii")
        (shared / "vfio").write_text("".join(f"{address}\n" for address in machine.vfio), encoding="ascii")
        (shared / "writable").write_bytes(nul_separated(path.resolve() for path in machine.writable))
        self._outputs = [shared / name for name in ("stdout", "stderr")]
        for path in self._outputs:
            path.touch()
        initramfs = build_initramfs(kernel, directory, _SECOND_STAGE)
        argv = qemu_command(machine, kernel, initramfs, shared, self._console)
        self._began = time.monotonic()
        self._monitor = directory / "monitor"
        argv += ["-qmp", f"unix:{self._monitor},server=on,wait=off"]
        self._qemu = spawn(journal, "qemu", argv, log=directory / "qemu.log", env=dict(machine.environment))
        self._watch = GuestWatch(self._qemu, [self._console, *self._outputs], (), self._monitor)
        self._stream = stream

    def run(self, boot_deadline_s: float, deadline_s: float, attend: Callable[[Path], None] | None) -> GuestRun:
        def attended() -> bool:
            if attend is not None:
                attend(self._monitor)
            return False

        with ExitStack() as stack:
            stack.callback(self._qemu.stop)
            opened = (path.open(encoding="utf-8", errors="replace", newline="") for path in self._outputs)
            self._followed = [stack.enter_context(file) for file in opened] if self._stream is not None else []
            self._follow((self._shared / "started").exists, boot_deadline_s, "the guest to boot", boots=True)
            boot_s = time.monotonic() - self._began
            self._follow(attended, deadline_s, f"`{shlex.join(self._command)}` to end in the guest")
        return self._result(boot_s)

    def _follow(self, done: Callable[[], bool], deadline_s: float, awaited: str, *, boots: bool = False) -> None:
        """Pass the output on until ``done``, or QEMU has ended."""
        end = time.monotonic() + deadline_s
        while not done():
            with suppress(subprocess.TimeoutExpired):
                self._qemu.popen.wait(_POLL_S)
            ended = self._qemu.popen.returncode is not None  # read this before the output: no more comes after the end
            for file in self._followed:
                print(file.read(), end="", file=self._stream, flush=True)
            if ended:
                return
            if boots:
                try:
                    self._watch.look(0)  # distinguishes a guest that hangs at its start from a slow one
                except HungGuestError as error:
                    error.evidence.update(self._evidence())
                    raise
            if time.monotonic() >= end:
                raise DeadlineError(
                    f"waited {deadline_s:g} s for {awaited}; QEMU (pid {self._qemu.pid}) still ran, and was killed",
                    evidence=self._evidence(),
                )

    def _result(self, boot_s: float) -> GuestRun:
        status = self._shared / "status"
        if not status.exists() or not status.read_text(encoding="ascii").strip():
            raise TestbedError(
                f"the guest ended without the status of `{shlex.join(self._command)}`; "
                f"QEMU {describe_exit(self._qemu.popen.returncode)}",
                evidence=self._evidence(),
            )
        stdout, stderr = (path.read_text(encoding="utf-8", errors="replace") for path in self._outputs)
        number, elapsed_s = int(status.read_text(encoding="ascii")), time.monotonic() - self._began
        return GuestRun(self._command, number, stdout, stderr, self._machine.time, boot_s, elapsed_s, self._shared)

    def _evidence(self) -> dict[str, str]:
        texts = {"console": tail(self._console, _CONSOLE_LINES), "QEMU": self._qemu.log_tail()}
        return texts | {path.name: tail(path) for path in self._outputs}


# ``--nfv-virtual-time``: run the same pytest in the guest. Its results and the files that other options name appear on
# this machine. Its output appears at once, and its exit status becomes that of this process.


def run_pytest_in_guest(config: pytest.Config) -> int | None:
    """Run pytest in a guest. None: pytest continues here, because this is the guest, or nothing is measured.

    Raises:
        pytest.UsageError: an option that has no meaning in virtual time, or this machine lacks what a guest needs.
    """
    if is_virtual() or config.option.collectonly or config.option.help or config.option.version:
        return None
    for option, name, why in _REFUSED_OPTIONS:
        if config.getoption(name, None):
            raise pytest.UsageError(f"{option} cannot be combined with --nfv-virtual-time: {why}; leave it out")
    if os.geteuid() != 0:
        raise pytest.UsageError("--nfv-virtual-time needs root: the guest reads this machine's files as they are")
    try:
        return _run(config)
    except ConfigError as error:
        raise pytest.UsageError(f"--nfv-virtual-time: {error}") from error
    except NfvperfError as error:
        print(f"nfvperf: no run in virtual time: {error}", file=sys.stderr)
        return RunResult.BROKEN.exit_status
    except KeyboardInterrupt:
        print("nfvperf: interrupted; the guest was ended with its run", file=sys.stderr)
        return RunResult.INTERRUPTED.exit_status


def _run(config: pytest.Config) -> int:
    reap()
    need(QEMU)  # before a kernel is fetched
    kernel = prepare_kernel()
    try:
        build.build(portable=True)  # for the guest's CPU; in the guest it would take minutes
    except TestbedError as error:  # only the datapath dpdk needs it
        print(f"virtual time: without the datapath dpdk: {error}", file=sys.stderr, flush=True)
    print(f"virtual time: a guest with Linux {kernel.release} runs the tests", flush=True)
    base = config.invocation_params.dir
    written = [read_options(config)[0].results]
    if junit := config.getoption("xmlpath", None):
        written.append((base / junit).parent)
    if allure := config.getoption("--alluredir", None):
        written.append(base / allure)
    folders = tuple(dict.fromkeys(written))
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
    with closing(open_journal()) as journal, tempfile.TemporaryDirectory(dir=journal.directory) as shared:
        guest = run_in_guest(
            journal,
            kernel,
            _command(config),
            Path(shared),
            machine=replace(_PYTEST_GUEST, writable=folders),
            deadline_s=_DEADLINE_S,
            stream=sys.stdout,
        )
        write_noted(Path(shared) / _REPORT_NOTE, config.rootpath)
    return guest.status


def _command(config: pytest.Config) -> list[str]:
    """The same pytest with the same arguments, in the same directory, by this Python."""
    variables = [f"{name}={os.environ[name]}" for name in _PASSED_ON if name in os.environ]
    variables.append(f"{NOTE}={SHARED / _REPORT_NOTE}")
    env = ["env", "-C", str(config.invocation_params.dir), "PYTHONUNBUFFERED=1", *variables]
    arguments = [str(argument) for argument in config.invocation_params.args]
    without = [*_NO_CACHE, *(() if any(each.startswith("--hypothesis") for each in arguments) else _NO_HYPOTHESIS)]
    return [*env, sys.executable, "-m", "pytest", *without, *arguments]
