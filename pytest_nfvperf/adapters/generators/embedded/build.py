"""Builds nfvperf-gen where it runs, against that machine's libdpdk, and finds it again.

The cache key has everything that the result depends on: an upgraded DPDK or compiler gets another entry, never a
stale program.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from pytest_nfvperf.adapters.process.process import completed
from pytest_nfvperf.adapters.process.programs import install_hint
from pytest_nfvperf.model.errors import GeneratorError, TestbedError

PROGRAM = "nfvperf-gen"
TOOLS = ("cc", "pkg-config", "meson", "ninja")
NEEDED = (*TOOLS, "libdpdk-dev", "libjansson-dev", "libc6-dev")
"""Programs and libraries that the build needs. Running needs the matching DPDK drivers (librte-net-virtio etc.)."""
_TIMEOUT_S = 300
_EMULATED = "QEMU TCG CPU"
"""In the model name of every CPU that QEMU emulates."""
_WITHOUT_A_HOME = Path("/var/cache")


def source_dir() -> Path:
    return Path(str(resources.files("pytest_nfvperf"))) / "native"


def default_cache_dir() -> Path:
    """``$XDG_CACHE_HOME/nfvperf``, else ``~/.cache/nfvperf`` (XDG base directory specification).

    In a container HOME may be unset and the user in no passwd file: then it is /var/cache/nfvperf.
    """
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(base) if base else Path.home() / ".cache") / "nfvperf"
    except RuntimeError:  # of Path.home()
        return _WITHOUT_A_HOME / "nfvperf"


def build(cache_dir: Path | None = None, *, sanitize: bool = False, portable: bool = False) -> Path:
    """Compile nfvperf-gen unless the cache has it, and return its path.

    Args:
        cache_dir: where builds are kept; :func:`default_cache_dir` by default.
        sanitize: with AddressSanitizer and UBSan: for tests, slow.
        portable: for the oldest CPU of the distribution's DPDK, as a guest emulates it; else for this machine's CPU.

    Raises:
        TestbedError: what is missing and its package, or the compiler's output.
    """
    _check_tools()
    portable = portable or is_emulated()
    directory = _build_directory(cache_dir, sanitize=sanitize, portable=portable)
    program = directory / PROGRAM
    if program.exists():
        return program
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        new_scratch = tempfile.TemporaryDirectory(prefix="build-", dir=directory.parent)
    except OSError as error:
        raise TestbedError(
            f"builds cannot be kept in {directory.parent}: {error.strerror}; set XDG_CACHE_HOME to a directory that "
            "can be written, for `nfvperf build` and for the runs after it"
        ) from error
    with new_scratch as scratch:
        built = compile_in(Path(scratch) / "build", sanitize=sanitize, portable=portable)
        staged = Path(scratch) / "staged"
        staged.mkdir()
        shutil.copy2(built / PROGRAM, staged / PROGRAM)
        try:
            staged.rename(directory)  # atomic
        except OSError:
            if not program.exists():  # otherwise another process was faster, and its build serves as well
                raise
    return program


def find(cache_dir: Path | None = None, *, portable: bool = False) -> Path:
    """Return the built program; GeneratorError with the command that builds it."""
    program = program_path(cache_dir, portable=portable)
    if program.exists():
        return program
    cpu, advice = "this machine", "run `nfvperf build`"
    if portable:
        cpu = "the guest's CPU"
        advice = "the host builds it when --nfv-virtual-time begins, and says there why it could not"
    raise GeneratorError(f"the embedded generator is not built for {cpu} ({program} is missing): {advice}")


def program_path(cache_dir: Path | None = None, *, portable: bool = False) -> Path:
    """Where the program is once it is built; GeneratorError if this cannot be determined."""
    try:
        return _build_directory(cache_dir, sanitize=False, portable=portable or is_emulated()) / PROGRAM
    except TestbedError as error:
        raise GeneratorError(f"the embedded generator cannot be found: {error.message}") from error


def is_emulated(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """True in a guest whose CPU QEMU emulates (TCG). The portable build, which its host has made, serves there."""
    return _EMULATED in cpuinfo.read_text(encoding="ascii", errors="replace")


def compile_in(directory: Path, *, sanitize: bool = False, portable: bool = False) -> Path:
    """Run meson and ninja in a new directory and return it; its unit tests can be run by ``meson test``."""
    _check_tools()
    setup = [_tool("meson"), "setup", str(directory), str(source_dir())]
    if sanitize:
        setup += ["-Db_sanitize=address,undefined", "-Dbuildtype=debugoptimized"]
    if portable:
        # The oldest CPU that the distribution's DPDK supports, as "-march=corei7". It follows the project's own
        # -march=native, and so wins.
        arguments = _pkg_config("--cflags-only-other", "libdpdk", "libdpdk-dev").split()
        march = next((argument for argument in arguments if argument.startswith("-march=")), "")
        setup.append(f"-Dc_args={march}")
    _run(setup, "meson setup")
    _run([_tool("meson"), "compile", "-C", str(directory)], "meson compile")
    return directory


def _tool(name: str) -> str:
    """A program on the path, or next to this Python (pip installs meson and ninja into a venv's bin)."""
    found = shutil.which(name) or shutil.which(name, path=str(Path(sys.executable).parent))
    if found is None:
        raise TestbedError(f"{name} is missing, which is needed to build {PROGRAM}: {install_hint(name)}")
    return found


def _check_tools() -> None:
    for name in TOOLS:
        _tool(name)
    for module, package in (("libdpdk", "libdpdk-dev"), ("jansson", "libjansson-dev")):
        _pkg_config("--modversion", module, package)


def _pkg_config(question: str, module: str, package: str) -> str:
    shown = completed([_tool("pkg-config"), question, module], 30)
    if shown.returncode != 0:
        raise TestbedError(
            f"{module} is missing, which is needed to build {PROGRAM}: {install_hint(package)}",
            evidence={"pkg-config": shown.stderr},
        )
    return shown.stdout.strip()


def _build_directory(cache_dir: Path | None, *, sanitize: bool, portable: bool) -> Path:
    dpdk = _pkg_config("--modversion", "libdpdk", "libdpdk-dev")
    digest = hashlib.sha256()
    for path in sorted(source_dir().rglob("*")):
        if path.suffix in {".c", ".h", ".build"}:
            digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    # A build is for one CPU: different machines that share a home directory must not share programs.
    lines = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").splitlines()
    flags = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    cpu = "portable" if portable else flags
    compiler = completed([_tool("cc"), "--version"], 30).stdout.partition("\n")[0]
    digest.update(f"{dpdk}\0{compiler}\0{cpu}\0{sanitize}".encode())
    return (cache_dir or default_cache_dir()) / f"dpdk-{dpdk}-{digest.hexdigest()[:16]}"


def _run(command: Sequence[str], what: str) -> None:
    path = f"PATH={os.environ.get('PATH', os.defpath)}:{Path(sys.executable).parent}"
    try:
        done = completed(["env", path, *command], _TIMEOUT_S)
    except subprocess.TimeoutExpired as error:
        raise TestbedError(f"{what} did not end within {_TIMEOUT_S} s") from error
    if done.returncode != 0:
        raise TestbedError(
            f"{what} of {PROGRAM} failed ({done.returncode}); it needs: {install_hint(*NEEDED)}",
            evidence={what: (done.stdout + done.stderr)[-6000:]},
        )
