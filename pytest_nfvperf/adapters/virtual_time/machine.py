"""What the guest is made of, and the two kinds of time it can live in. Pure data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from pytest_nfvperf.adapters.guest.initramfs import shared_folder
from pytest_nfvperf.adapters.guest.kernel_image import QEMU, Kernel
from pytest_nfvperf.adapters.host.virtual_clock import INSTRUCTION_NS_PARAMETER
from pytest_nfvperf.model.errors import ConfigError

_CPU = "max,-erms,-fsrm,model-id=QEMU TCG CPU without ERMS"
"""The emulator executes a copy by "rep movsb" byte by byte, and counts each; a processor with ERMS moves a cache line
at a time. Kernel and libc that do not see ERMS copy by words. The guest's CPU has a name of its own,
and the fingerprint has it (cpu_model): what was counted on a CPU with ERMS is another machine's."""
_ICOUNT_SHIFT = 1
_HUGEPAGE_MIB = 2
INSTRUCTION_NS = 1 << _ICOUNT_SHIFT
"""In virtual time each executed instruction advances the guest's clock by so many ns (qemu(1), -icount shift)."""


class Time(StrEnum):
    """What a second is in the guest."""

    WALL_CLOCK = "wall clock"
    """The host's second. Rates are those of an emulated machine: good for relations, not for figures."""
    VIRTUAL = "virtual time"
    """A count of instructions: the host's load does not show. Only costs in instructions may be told."""


DATAPATH_MODULES = ("openvswitch", "veth", "tun", "bridge", "pktgen")
"""What the kernel datapath, its tests and the reference bridge need."""


@dataclass(frozen=True, slots=True)
class GuestMachine:
    """The guest's size and time.

    Attributes:
        modules: kernel modules that are loaded, by name, before the command runs. Nothing else loads them: there
            is no udev, so even /dev/net/tun is there only once its module is.
        hugepages_mib: reserved at boot, of its memory.
        autoload: the kernel loads modules that it is asked for. Each asking runs a program, which takes tenths of a
            second under emulation: whoever asks often, as vswitchd for interfaces that are elsewhere, stands still.
        skips_idle: in virtual time idle time is skipped, also that of a wait for the host's files, which then takes
            longer than it seems. False: it takes as long as on the host.

    Raises:
        ConfigError: virtual time with more than one CPU, where guests of Linux 6.1 hang.
    """

    time: Time = Time.WALL_CLOCK
    cpus: int = 2
    memory_mib: int = 2048
    modules: tuple[str, ...] = DATAPATH_MODULES
    hugepages_mib: int = 0
    autoload: bool = True
    skips_idle: bool = True

    def __post_init__(self) -> None:
        if self.time is Time.VIRTUAL and self.cpus != 1:
            raise ConfigError(f"virtual time needs a guest of 1 CPU, not {self.cpus}: instructions are counted on one")


VIRTUAL_TIME = GuestMachine(Time.VIRTUAL, cpus=1)
COUNTING = GuestMachine(Time.VIRTUAL, cpus=1, memory_mib=4096, hugepages_mib=1024, skips_idle=False)
"""For what reads many of the host's files and has deadlines, as a run of pytest does. Its hugepages are for two nodes
with DPDK and the generator; QEMU takes of the host's memory what the guest has touched."""


@dataclass(frozen=True, slots=True)
class Shared:
    """Folders of the host that the guest writes to. ``results``: /guest there; ``writable``: have the same paths."""

    results: Path
    writable: tuple[Path, ...] = ()


def qemu_command(machine: GuestMachine, kernel: Kernel, initramfs: Path, shared: Shared, console: Path) -> list[str]:
    """The argument list that boots this machine."""
    arguments = [QEMU, "-nodefaults", "-no-user-config", "-display", "none", "-monitor", "none", "-nic", "none"]
    arguments += ["-machine", "q35", "-cpu", _CPU, "-m", str(machine.memory_mib), "-smp", str(machine.cpus)]
    arguments += _accelerator(machine)
    arguments += ["-no-reboot", "-serial", f"file:{console}", "-device", "virtio-rng-pci"]
    arguments += [
        "-kernel",
        str(kernel.vmlinux),
        "-initrd",
        str(initramfs),
        "-append",
        _kernel_command_line(machine),
    ]
    arguments += shared_folder("root", Path("/"), readonly=True)
    arguments += shared_folder("modules", kernel.modules, readonly=True)
    arguments += shared_folder("shared", shared.results.resolve(), readonly=False)
    for number, path in enumerate(shared.writable):
        arguments += shared_folder(f"writable{number}", path.resolve(), readonly=False)
    return arguments


def _kernel_command_line(machine: GuestMachine) -> str:
    # A panic ends the guest at once; addresses and mitigations are the same in every boot.
    parts = ["console=ttyS0 quiet loglevel=3 panic=-1 mitigations=off nokaslr net.ifnames=0 tsc=reliable"]
    if machine.hugepages_mib:
        parts.append(f"hugepages={machine.hugepages_mib // _HUGEPAGE_MIB}")
    if not machine.autoload:
        parts.append("sysctl.kernel.modprobe=/none")
    if machine.time is Time.VIRTUAL:
        # Idle time is skipped to the next timer, also while the guest waits for the host's files. Ticks make that 4 ms,
        # where without them one such wait could skip past a deadline of seconds.
        parts += ["nohz=off", f"{INSTRUCTION_NS_PARAMETER}={INSTRUCTION_NS}"]
    return " ".join(parts)


def _accelerator(machine: GuestMachine) -> list[str]:
    if machine.time is Time.VIRTUAL:
        # Not aligned to the host's clock: while the guest works, only instructions make time pass.
        sleep = "off" if machine.skips_idle else "on"
        return ["-accel", "tcg,thread=single", "-icount", f"shift={_ICOUNT_SHIFT},align=off,sleep={sleep}"]
    return ["-accel", "tcg,thread=multi"]
