"""The guest's first file system: busybox, the modules that reach the host's root over 9p, and two scripts."""

from __future__ import annotations

import shutil
from pathlib import Path

from pytest_nfvperf.adapters.net.process import run
from tests.kernel.kernel_image import Kernel
from tests.kernel.tools import need, run_bytes
from tests.kernel.vmlinux import read_module

MODULES = ("virtio_pci", "9pnet_virtio", "9p", "overlay")
_SCRIPTS = Path(__file__).parent
_DIRECTORIES = ("bin", "dev", "proc", "sys", "modules", "lower", "upper", "root")


def build_initramfs(kernel: Kernel, directory: Path) -> Path:
    """Lay the tree out in this directory, and pack it; returns the archive.

    Not compressed: the guest would unpack it under emulation.
    """
    need("cpio", "modprobe")
    tree = directory / "tree"
    for name in _DIRECTORIES:
        (tree / name).mkdir(parents=True)
    shutil.copy(kernel.busybox, tree / "bin" / "busybox")
    for script in ("init", "second_stage"):
        shutil.copy(_SCRIPTS / f"{script}.sh", tree / script)
        (tree / script).chmod(0o755)
    # insmod takes them in this order; their names carry it
    for number, module in enumerate(insertion_order(kernel)):
        (tree / "modules" / f"{number:02}-{module.name.partition('.')[0]}.ko").write_bytes(read_module(module))
    names = sorted(str(path.relative_to(tree)) for path in tree.rglob("*"))
    archive = directory / "initramfs"
    archive.write_bytes(run_bytes(["cpio", "--quiet", "-o", "-H", "newc"], "\n".join(names).encode(), cwd=tree))
    return archive


def insertion_order(kernel: Kernel) -> list[Path]:
    """The modules' files, each after those that it depends on."""
    files: dict[Path, None] = {}
    for name in MODULES:
        said = run(["modprobe", "-d", kernel.directory, "-S", kernel.release, "--show-depends", name])
        files |= {Path(line.split()[1]): None for line in said.splitlines() if line.startswith("insmod ")}
    return list(files)
