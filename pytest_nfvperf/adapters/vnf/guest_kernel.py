"""A guest's kernel and first file system: Debian's packages, fetched by apt and unpacked into a cache, not installed.

The package, not an installed kernel: the guest needs the openvswitch module and 9p (the cloud flavour has no 9p), and
the machine's own kernel may be any. apt checks its downloads against signed lists.

Layout of the cache: ``6.1.0-56-amd64/`` is a kernel, ``trixie`` a link to the one of that release of Debian.

The kernel is extracted from its bzImage, so QEMU boots it by PVH and nothing is unpacked under emulation. The first
file system has busybox, two scripts, and the modules that reach the host's root over 9p (qemu(1)).
"""

from __future__ import annotations

import fcntl
import lzma
import os
import platform
import shutil
import struct
import subprocess
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pytest_nfvperf.adapters.generators.embedded.build import default_cache_dir
from pytest_nfvperf.adapters.process.process import describe_exit, run
from pytest_nfvperf.adapters.process.programs import install_hint
from pytest_nfvperf.model.errors import ConfigError, TestbedError

QEMU = "qemu-system-x86_64"
# Documentation/arch/x86/boot.rst, "The Real-Mode Kernel Header"
_SETUP_SECTORS = 0x1F1
_MAGIC = 0x202
_PAYLOAD = 0x248  # offset and length, 32 bits each; the offset counts from the protected-mode code
_SECTOR = 512
_SIZE_TRAILER = 4  # the kernel's build appends the size where the format does not carry it (xz, zstd, lz4)
_XZ, _ZSTD, _GZIP, _ELF = b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd", b"\x1f\x8b", b"\x7fELF"
_METAPACKAGE = "linux-image-amd64"
_BUSYBOX = "busybox-static"  # unpacked, too: installing it would remove a machine's own busybox
_PARTIAL = ".partial-"
_DOWNLOAD_DEADLINE_S = 300.0
_UNPACK_DEADLINE_S = 120.0
_FILTER_S = 60.0

MODULES = ("virtio_pci", "9pnet_virtio", "9p", "overlay")
_INIT = Path(__file__).parent / "init.sh"
_DIRECTORIES = ("bin", "dev", "proc", "sys", "modules", "lower", "upper", "root")


def need(*programs: str) -> None:
    """Raise ConfigError for missing programs, with the names of their packages."""
    if platform.machine() != "x86_64":
        raise ConfigError(f"the guest is an x86_64 machine, this one is {platform.machine()}: no guest here")
    absent = [program for program in programs if shutil.which(program) is None]
    if absent:
        raise ConfigError(
            f"the guest needs {', '.join(absent)}: {install_hint(*absent)} (or `make test-kernel`, which does it)"
        )


def can_boot() -> bool:
    return platform.machine() == "x86_64" and all(shutil.which(program) for program in (QEMU, "cpio", "modprobe"))


def run_bytes(argv: Sequence[str], stdin: bytes, *, cwd: Path | None = None) -> bytes:
    """Run a filter and return its output; ConfigError if it is missing, TestbedError with its stderr if it failed."""
    need(argv[0])
    done = subprocess.run(argv, input=stdin, capture_output=True, cwd=cwd, check=False, timeout=_FILTER_S)
    if done.returncode != 0:
        stderr = done.stderr.decode(errors="replace")
        raise TestbedError(f"{' '.join(argv)} {describe_exit(done.returncode)}", evidence={"stderr": stderr})
    return done.stdout


def extract_vmlinux(image: bytes) -> bytes:
    """Return the ELF file in a bzImage; TestbedError if it is no bzImage, or its compression is unknown."""
    if image[_MAGIC : _MAGIC + 4] != b"HdrS":
        raise TestbedError(f"no Linux bzImage: {image[_MAGIC : _MAGIC + 4]!r} where 'HdrS' should be")
    offset, length = struct.unpack_from("<II", image, _PAYLOAD)
    start = ((image[_SETUP_SECTORS] or 4) + 1) * _SECTOR + offset
    payload = image[start : start + length]
    if payload.startswith(_XZ):
        kernel = lzma.LZMADecompressor(lzma.FORMAT_XZ).decompress(payload)
    elif payload.startswith(_GZIP):
        kernel = zlib.decompressobj(wbits=31).decompress(payload)
    elif payload.startswith(_ZSTD):
        kernel = _unzstd(payload[:-_SIZE_TRAILER])
    else:
        raise TestbedError(f"the bzImage's payload begins with {payload[:6]!r}: neither xz, zstd nor gzip")
    if not kernel.startswith(_ELF):
        raise TestbedError(f"the bzImage's payload unpacks to {kernel[:4]!r}, not to an ELF file")
    return kernel


def _unzstd(packed: bytes) -> bytes:
    return run_bytes(["zstd", "-qdc"], packed)  # Python has a module for it from 3.14


def read_module(path: Path) -> bytes:
    packed = path.read_bytes()
    if path.suffix == ".xz":
        return lzma.decompress(packed)
    return _unzstd(packed) if path.suffix == ".zst" else packed


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel that can be booted.

    Attributes:
        directory: with the package's own layout, and ``vmlinux``.
        release: as in ``uname -r``: "6.1.0-56-amd64".
    """

    directory: Path
    release: str

    @property
    def vmlinux(self) -> Path:
        return self.directory / "vmlinux"

    @property
    def modules(self) -> Path:
        return self.directory / "lib" / "modules"

    @property
    def busybox(self) -> Path:
        return self.directory / "bin" / "busybox"


def prepare_kernel(cache: Path | None = None) -> Kernel:
    """Return the kernel that this machine's apt offers, from the cache or downloaded.

    Raises:
        ConfigError: apt knows no such kernel, or a program is missing; with instructions.
        TestbedError: download or unpacking failed, with the program's message.
    """
    need("apt-get", "dpkg-deb", "depmod")
    package = newest_package()
    release = package.removeprefix("linux-image-")
    cache = cache or default_cache_dir() / "kernel"
    kernel = Kernel(cache / release, release)
    if not kernel.directory.is_dir():
        with _locked(cache):
            if not kernel.directory.is_dir():  # the previous holder of the lock may have made it
                _make(kernel, cache, partial(_fetch, [package, _BUSYBOX]))
    return kernel


def newest_package() -> str:
    """Return the package of the metapackage's kernel, "linux-image-6.1.0-56-amd64"; ConfigError if apt has none."""
    try:
        return _kernel_package(run(["apt-cache", "depends", _METAPACKAGE], deadline_s=30.0))
    except TestbedError as error:
        raise ConfigError(
            f"apt knows no package {_METAPACKAGE}: the guest's kernel is Debian's; run apt-get update, or add a Debian "
            f"source to apt's\n{error}"
        ) from error


def _kernel_package(depends: str) -> str:
    names = [line.split()[-1] for line in depends.splitlines() if line.strip().startswith("Depends: linux-image-")]
    if len(names) != 1:
        raise ConfigError(f"{_METAPACKAGE} should depend on one kernel; apt-cache depends says:\n{depends}")
    return names[0]


@contextmanager
def _locked(cache: Path) -> Iterator[None]:
    """Lock the cache for this process, and remove what a killed one left incomplete."""
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with (cache / "lock").open("w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for left in cache.glob(f"{_PARTIAL}*"):
                shutil.rmtree(left)
            yield
    except OSError as error:
        raise TestbedError(
            f"the guest's kernel cannot be kept in {cache}: {error.strerror}; set XDG_CACHE_HOME to a directory that "
            "can be written, on a file system with symbolic links and locks"
        ) from error


def _make(kernel: Kernel, cache: Path, unpack: Callable[[Path], None]) -> None:
    """Build a kernel under another name, then rename: a directory with a release's name is always complete."""
    partial_kernel = Kernel(cache / f"{_PARTIAL}{kernel.release}", kernel.release)
    directory = partial_kernel.directory
    directory.mkdir()
    try:
        unpack(directory)
        partial_kernel.vmlinux.write_bytes(extract_vmlinux((directory / f"boot/vmlinuz-{kernel.release}").read_bytes()))
        for name in ("bin", "lib"):  # packages since Debian 13 have all below usr/; the layout here is Debian 12's
            if not (directory / name).exists():
                (directory / name).symlink_to(f"usr/{name}")
        run(["depmod", "-b", directory, kernel.release], deadline_s=_UNPACK_DEADLINE_S)
        directory.rename(kernel.directory)
    except BaseException:
        shutil.rmtree(directory)
        raise


def _fetch(packages: list[str], directory: Path) -> None:
    apt = ["apt-get", "--quiet", "-o", "APT::Sandbox::User=root", "download", *packages]
    try:
        run(["env", "-C", str(directory), *apt], deadline_s=_DOWNLOAD_DEADLINE_S)
    except TestbedError as error:
        raise TestbedError(
            f"cannot download the guest's kernel: {error.message}; if apt's lists are old, run apt-get update",
            evidence=error.evidence,
        ) from error
    _unpack(directory.glob("*.deb"), directory)


def _unpack(archives: Iterable[Path], directory: Path) -> None:
    for archive in archives:
        run(["dpkg-deb", "--extract", archive, directory], deadline_s=_UNPACK_DEADLINE_S)
        archive.unlink()


def shared_folder(tag: str, path: Path, *, readonly: bool) -> list[str]:
    access = "on" if readonly else "off"
    escaped = str(path).replace(",", ",,")  # commas separate QEMU's options
    # remap: the root spans file systems whose inode numbers collide
    backend = f"local,id={tag},path={escaped},security_model=none,readonly={access},multidevs=remap"
    return ["-fsdev", backend, "-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}"]


def boot_arguments(kernel: Kernel, initramfs: Path, line: str, shared: Path, console: Path) -> list[str]:
    """QEMU's arguments that all guests have: no devices but ours, a kernel with its command line, and shared folders.

    The first serial port is the file ``console``.
    """
    arguments = ["-nodefaults", "-no-user-config", "-display", "none", "-monitor", "none", "-nic", "none", "-no-reboot"]
    arguments += ["-serial", f"file:{console}", "-device", "virtio-rng-pci"]
    arguments += ["-kernel", str(kernel.vmlinux), "-initrd", str(initramfs), "-append", line]
    arguments += shared_folder("root", Path("/"), readonly=True)
    arguments += shared_folder("modules", kernel.modules, readonly=True)
    return [*arguments, *shared_folder("shared", shared.resolve(), readonly=False)]


def nul_separated(words: Iterable[str | os.PathLike[str]]) -> bytes:
    """Words as the scripts in a guest read them."""
    return b"".join(os.fsencode(word) + b"\0" for word in words)


def build_initramfs(kernel: Kernel, directory: Path, second_stage: Path) -> Path:
    """Build the first file system's tree in an existing directory, and pack it; return the archive.

    ``second_stage``: a bash script, the first program in a root that looks like the host's.
    """
    need("cpio", "modprobe")
    tree = directory / "tree"
    for name in _DIRECTORIES:
        (tree / name).mkdir(parents=True)
    shutil.copy(kernel.busybox, tree / "bin" / "busybox")
    for script, name in ((_INIT, "init"), (second_stage, "second_stage")):
        shutil.copy(script, tree / name)
        (tree / name).chmod(0o755)
    # init inserts them in the order of their names
    for number, module in enumerate(_insertion_order(kernel)):
        (tree / "modules" / f"{number:02}-{module.name.partition('.')[0]}.ko").write_bytes(read_module(module))
    names = sorted(str(path.relative_to(tree)) for path in tree.rglob("*"))
    archive = directory / "initramfs"
    # Not compressed: the guest would unpack it under emulation.
    archive.write_bytes(run_bytes(["cpio", "--quiet", "-o", "-H", "newc"], "\n".join(names).encode(), cwd=tree))
    return archive


def _insertion_order(kernel: Kernel) -> list[Path]:
    files: dict[Path, None] = {}
    for name in MODULES:
        listing = run(["modprobe", "-d", kernel.directory, "-S", kernel.release, "--show-depends", name])
        files |= {Path(line.split()[1]): None for line in listing.splitlines() if line.startswith("insmod ")}
    return list(files)
