"""The guest's first file system: busybox, two scripts, the modules that reach the host's root over 9p (qemu(1))."""

from __future__ import annotations

import shutil
from pathlib import Path

from pytest_nfvperf.adapters.guest.kernel_image import Kernel, need, read_module, run_bytes
from pytest_nfvperf.adapters.process.process import run

MODULES = ("virtio_pci", "9pnet_virtio", "9p", "overlay")
_INIT = Path(__file__).parent / "init.sh"
_DIRECTORIES = ("bin", "dev", "proc", "sys", "modules", "lower", "upper", "root")


def shared_folder(tag: str, path: Path, *, readonly: bool) -> list[str]:
    """One folder under a 9p tag, as QEMU's arguments.

    remap: the root spans file systems whose inode numbers collide.
    """
    access = "on" if readonly else "off"
    backend = f"local,id={tag},path={_escaped(path)},security_model=none,readonly={access},multidevs=remap"
    return ["-fsdev", backend, "-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}"]


def _escaped(path: Path) -> str:
    """QEMU's options are separated by commas; one in a value is doubled."""
    return str(path).replace(",", ",,")


def build_initramfs(kernel: Kernel, directory: Path, second_stage: Path) -> Path:
    """Lay the tree out in this directory, and pack it; returns the archive.

    Not compressed: the guest would unpack it under emulation.

    Args:
        kernel: whose modules it needs.
        directory: an existing one.
        second_stage: a bash script, the first program in the root that looks like the host's.
    """
    need("cpio", "modprobe")
    tree = directory / "tree"
    for name in _DIRECTORIES:
        (tree / name).mkdir(parents=True)
    shutil.copy(kernel.busybox, tree / "bin" / "busybox")
    for script, name in ((_INIT, "init"), (second_stage, "second_stage")):
        shutil.copy(script, tree / name)
        (tree / name).chmod(0o755)
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
