"""QEMU's command line for a VNF that is a guest with vhost-user interfaces (qemu(1)). Pure."""

from __future__ import annotations

import os
from pathlib import Path

from pytest_nfvperf.adapters.guest.folders import shared_folder
from pytest_nfvperf.adapters.guest.kernel_image import Kernel
from pytest_nfvperf.adapters.guest.tools import QEMU
from pytest_nfvperf.adapters.vnf.testpmd_command import PROGRAM, forwarding_options
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.ports.vnf import VnfPort, VnfSpec

MEMORY_MIB = 768
_HUGEPAGES = 96
"""Of 2 MiB, in the guest: testpmd's buffers, whose physical addresses the virtio driver needs."""

_FIRST_SLOT = 0x10
_QUEUE_SIZE = 1024
_DEVARGS_PATH = "path="


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
