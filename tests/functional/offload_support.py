"""A private OVS-DPDK whose ports offload flows: tests/native/offloading_nic.c, preloaded, for any installed version."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from pytest_nfvperf.adapters.ovs.installation import OvsBinaries, locate

_SOURCE = Path(__file__).parents[1] / "native/offloading_nic.c"
_FLAGS = ("-std=gnu11", "-O2", "-fPIC", "-shared", "-march=native", "-Wall", "-Wextra", "-Werror")
_SANITIZERS = ("asan", "ubsan")
_SANITIZED = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g")


def build_nic(folder: Path, *, sanitized: bool = False) -> Path:
    """Compile the double against the installed headers of DPDK; it runs with other versions of DPDK too.

    ``sanitized``: with ASan and UBSan, for the installed OVS only.
    """
    found = subprocess.run(["pkg-config", "--cflags-only-I", "libdpdk"], capture_output=True, text=True, check=True)
    library = folder / "offloading_nic.so"
    flags = (*_FLAGS, *_SANITIZED) if sanitized else _FLAGS
    subprocess.run(["cc", *flags, *found.stdout.split(), "-o", library, _SOURCE], check=True)
    return library


def complaints(library: Path) -> str:
    """What the sanitizers said of a double that was built with them: a vswitchd that they ended is started again."""
    return "\n".join(file.read_text() for file in sorted(library.parent.glob("sanitizer.*")))


def _preload(library: Path) -> str:
    """Shell lines; a double that has sanitizers needs their libraries before it."""
    content = library.read_bytes()  # it names what it needs
    names = [f"lib{name}.so" for name in _SANITIZERS if f"lib{name}.so".encode() in content]
    found = [
        subprocess.run(["cc", f"-print-file-name={name}"], capture_output=True, text=True, check=True) for name in names
    ]
    libraries = ":".join([*(str(Path(each.stdout.strip()).resolve()) for each in found), str(library)])
    lines = [f"LD_PRELOAD={shlex.quote(libraries)}"]
    # OVS and DPDK are not built with sanitizers, and free little at their end.
    options = f"detect_leaks=0:log_path={library.parent}/sanitizer"
    lines += [f"{name.upper()}_OPTIONS={shlex.quote(options)}" for name in _SANITIZERS if found]
    return f"export {' '.join(lines)}\n"


def prefix_with_nic(folder: Path, library: Path, behaviour: str, version: str | None, visible: Sequence[Path]) -> Path:
    """Make a prefix whose ovs-vswitchd preloads the double.

    Args:
        folder: gets the prefix.
        library: the double.
        behaviour: the words of OFFLOADING_NIC.
        version: prefix or root of an installation; None for the distribution's.
        visible: directories that programs of a root must see.
    """
    binaries, prefix = locate(version), folder / "ovs"
    seen = (*visible, library.parent)
    for directory in ("sbin", "bin", "share/openvswitch"):
        (prefix / directory).mkdir(parents=True)
    shutil.copyfile(binaries.schema, prefix / "share/openvswitch/vswitch.ovsschema")
    preload = f"export OFFLOADING_NIC={shlex.quote(behaviour)}\n{_preload(library)}"
    _script(prefix / "sbin/ovs-vswitchd", binaries, binaries.vswitchd, seen, preload)
    _script(prefix / "sbin/ovsdb-server", binaries, binaries.ovsdb_server, seen)
    _script(prefix / "bin/ovsdb-tool", binaries, binaries.ovsdb_tool, seen)
    _script(prefix / "bin/ovs-ofctl", binaries, binaries.ofctl, seen)
    return prefix


def _script(path: Path, binaries: OvsBinaries, program: Path, visible: Sequence[Path], before: str = "") -> None:
    path.write_text(f'#!/bin/sh\n{before}exec {shlex.join(binaries.command(program, *visible))} "$@"\n')
    path.chmod(0o755)
