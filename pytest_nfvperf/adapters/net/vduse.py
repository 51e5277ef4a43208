"""VDUSE devices: virtio devices that a process such as vswitchd serves, with the kernel's driver.

The process makes the device by its name (/dev/vduse/NAME, linux/vduse.h). It becomes a network interface on the vDPA
bus (vdpa-dev(8)) by the driver ``virtio_vdpa``, in the machine's first network namespace. A device belongs to the
machine: it outlives the process that made it, which may come back.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from pytest_nfvperf.adapters.process.process import run, wait_until
from pytest_nfvperf.adapters.process.programs import find, install_hint
from pytest_nfvperf.model.errors import DeadlineError, TestbedError

DEVICES = Path("/dev/vduse")
_CONTROL = DEVICES / "control"
_BUS = Path("/sys/bus/vdpa")
_CLASS = Path("/sys/class/vduse")
_DRIVER = "virtio_vdpa"
_SET_API_VERSION, _DESTROY_DEV = 0x40088101, 0x41008103  # linux/vduse.h: _IOW(0x81, 1, __u64), _IOW(0x81, 3, char[256])
_NAME_BYTES = 256
_ADD_DEADLINE_S, _APPEAR_DEADLINE_S, _GONE_DEADLINE_S = 10.0, 10.0, 5.0
_DEAD_ANSWERS_WITHIN_S = 1
_KERNEL = "a kernel with VDUSE, as Debian 13's (6.12); Debian 12's has none"


def lacks_vduse() -> str | None:
    """What this machine lacks for interfaces by VDUSE, and how to provide it; None if nothing is missing."""
    if not _CONTROL.exists():
        return f"no {_CONTROL}: modprobe vduse, which needs {_KERNEL}"
    if not (_BUS / "drivers" / _DRIVER).is_dir():
        return f"the driver {_DRIVER} is not loaded, so a VDUSE device would become no interface: modprobe {_DRIVER}"
    if find("vdpa") is None:
        return f"vdpa is not installed: {install_hint('vdpa')}"
    return None


def device_exists(name: str) -> bool:
    return (DEVICES / name).exists()


def attach(name: str) -> str:
    """Put a served device on the vDPA bus; returns the name of its interface."""
    wait_until(
        lambda: device_exists(name),
        f"{DEVICES / name}, which OVS makes",
        _APPEAR_DEADLINE_S,
        last_seen=lambda: "no such device: OVS and DPDK's own log may say why",
    )
    run(["vdpa", "dev", "add", "name", name, "mgmtdev", "vduse"], deadline_s=_ADD_DEADLINE_S)

    def interface() -> str | None:
        found = sorted((_BUS / "devices" / name).glob("virtio*/net/*"))
        return found[0].name if found else None

    try:
        return wait_until(interface, f"the interface of VDUSE device {name}", _APPEAR_DEADLINE_S)
    except DeadlineError as error:
        raise TestbedError(f"VDUSE device {name!r} became no network interface{_why(name)}") from error


def _why(name: str) -> str:
    driver = _BUS / "devices" / name / "driver"
    if not driver.exists():
        return f": no driver took it; modprobe {_DRIVER}"
    if driver.resolve().name != _DRIVER:
        return (
            f": the driver {driver.resolve().name} took it, not {_DRIVER}; load {_DRIVER} before that, or unload that"
        )
    return (
        " that is seen here: it is in the machine's first network namespace, where nfvperf must run, too; "
        "or the kernel has no virtio_net"
    )


def detach(names: Sequence[str]) -> None:
    """Remove devices from the vDPA bus, and their interfaces with them; others are skipped.

    The process that serves a device must not be frozen: the kernel waits for its answer.
    """
    for name in names:
        if (_BUS / "devices" / name).exists():
            run(["vdpa", "dev", "del", name], deadline_s=_ADD_DEADLINE_S + 30)


def wait_gone(names: Sequence[str]) -> None:
    """Wait until the serving process has removed devices that are off the bus; DeadlineError names the rest."""

    def left() -> list[str]:
        return [name for name in names if device_exists(name)]

    wait_until(lambda: not left(), "OVS to remove its VDUSE devices", _GONE_DEADLINE_S, last_seen=lambda: f"{left()}")


def remove(name: str) -> bool:
    """Remove a device that nobody serves any more, and its interface; False if there is none."""
    if not device_exists(name):
        return False
    # The kernel notifies the serving process, and would wait half a minute for its answer.
    with suppress(OSError):
        (_CLASS / name / "msg_timeout").write_text(f"{_DEAD_ANSWERS_WITHIN_S}\n", encoding="ascii")
    detach([name])
    control = os.open(_CONTROL, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.ioctl(control, _SET_API_VERSION, bytes(ctypes.c_uint64(0)))
        fcntl.ioctl(control, _DESTROY_DEV, name.encode().ljust(_NAME_BYTES, b"\0"))
    except OSError as error:
        if error.errno == errno.EINVAL:  # it is gone meanwhile
            return False
        raise OSError(error.errno, f"{error.strerror}: VDUSE device {name}") from error
    finally:
        os.close(control)
    return True
