"""An installation of testpmd: its program and version, and how versions of it are unpacked and built."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_nfvperf.adapters.ovs.installation import MISSING_LIBRARY, files_below, is_root
from pytest_nfvperf.adapters.process import private_mounts
from pytest_nfvperf.adapters.process.process import completed, describe_exit
from pytest_nfvperf.adapters.process.programs import find, install_hint
from pytest_nfvperf.model.errors import ConfigError, TestbedError
from pytest_nfvperf.ports.datapath import DatapathVersions, Installation, RunStep

KIND = "testpmd"
_PROGRAM = "dpdk-testpmd"
_VERSION = re.compile(r"RTE Version: 'DPDK ([^']+)'")
_ASK_VERSION = ("-v", "--proc-type=none")
"""DPDK says its version, and ends at the option that it refuses, before it touches anything. -h ends it too early."""
_ASK_DEADLINE_S = 20.0
_NAMES = tuple(f"{directory}/{name}" for name in (_PROGRAM, "testpmd") for directory in ("bin", "app", "build/app"))
_OPTION = re.compile(r"^option\('(\w+)'", re.MULTILINE)
_DRIVERS = (
    *("bus/pci", "bus/vdev", "bus/auxiliary", "mempool/ring", "common/iavf", "common/idpf", "common/mlx5"),
    *(f"net/{name}" for name in ("virtio", "vhost", "af_packet", "af_xdp", "memif", "null", "ring", "tap", "bonding")),
    *(f"net/{name}" for name in ("e1000", "igc", "ixgbe", "i40e", "ice", "iavf", "idpf", "mlx5", "bnxt", "ena")),
    *("net/vmxnet3", "net/qede"),
)
_OPTIONS = {
    "buildtype": "release",
    "default_library": "static",
    "platform": "generic",
    "tests": "false",
    "enable_apps": "test-pmd",
    "enable_drivers": ",".join(_DRIVERS),
}
"""Of meson. Static: testpmd is one file. Of DPDK's own options a tree gets those that it knows."""
_MESONS = ("buildtype", "default_library")
_SETUP_DEADLINE_S, _MAKE_DEADLINE_S = 300.0, 3600.0


@dataclass(frozen=True, slots=True)
class TestpmdBinary:
    """A testpmd of this machine.

    Attributes:
        prefix: of the installation, or its root; None for the distribution's package.
        version: of DPDK.
        libraries: directories of its shared libraries and drivers, if they are its own.
        root: the root directory in which it runs; None if it runs without one.
    """

    __test__ = False

    prefix: str | None
    program: Path
    version: str
    libraries: tuple[Path, ...] = ()
    root: Path | None = None

    def command(self, *visible: Path) -> tuple[str, ...]:
        """Return its command line, without arguments. ``visible``: directories that it must see in a root."""
        return _command(self.root, self.program, self.libraries, visible)


def locate(prefix: str | None = None) -> TestpmdBinary:
    """Find testpmd, and ask it for its version.

    Args:
        prefix: of an installation of DPDK (bin/dpdk-testpmd), its build directory, or a root with a whole system's
            files; None for the distribution's package.

    Raises:
        ConfigError: there is no testpmd under the prefix, or it lacks a library.
        TestbedError: none is installed; names the package to install.
    """
    root = Path(prefix) if prefix is not None and is_root(Path(prefix)) else None
    if prefix is None:
        installed = find(_PROGRAM)
        if installed is None:
            raise TestbedError(f"testpmd is not installed: {install_hint(_PROGRAM)}, or name a version of it")
        program = Path(installed)
    else:
        bases = [root / "usr", root / "usr/local"] if root is not None else [Path(prefix)]
        candidates = [base / name for base in bases for name in _NAMES]
        found = next((path for path in candidates if path.is_file()), None)
        if found is None:
            looked = ", ".join(map(str, candidates))
            raise ConfigError(f"{prefix!r} holds no testpmd: looked for {looked}")
        program = found
    libraries = tuple(_libraries(Path(prefix))) if prefix is not None and root is None else ()
    return TestpmdBinary(prefix, program, _version(_command(root, program, libraries, ()), program), libraries, root)


def _libraries(prefix: Path) -> list[Path]:
    return sorted({path.parent for path in prefix.glob("lib*/**/librte_*.so.*")})


def _command(root: Path | None, program: Path, libraries: Sequence[Path], visible: Sequence[Path]) -> tuple[str, ...]:
    if root is not None:
        return private_mounts.in_root(root, [Path("/") / program.relative_to(root)], tuple(dict.fromkeys(visible)))
    if libraries:
        return ("env", f"LD_LIBRARY_PATH={':'.join(map(str, libraries))}", str(program))
    return (str(program),)


def _version(command: Sequence[str], program: Path) -> str:
    done = completed([*command, *_ASK_VERSION], _ASK_DEADLINE_S)
    said = done.stdout + done.stderr
    if version := _VERSION.search(said):
        return version[1]
    if library := MISSING_LIBRARY.search(said):
        raise ConfigError(f"{program} does not start: the library {library[1]} is missing; install its package")
    why = said.strip() or describe_exit(done.returncode)
    raise TestbedError(f"{program} does not say a version of DPDK: {why}", evidence={"stderr": done.stderr})


class TestpmdVersions(DatapathVersions):
    """Versions of testpmd, which are those of DPDK."""

    __test__ = False

    kind = KIND
    packages = ("dpdk-dev", "librte-meta-bus", "librte-meta-mempool", "librte-meta-net")
    recorded = packages[:1]
    sources = ("app/test-pmd/testpmd.c", "meson_options.txt")
    tools = ("meson", "ninja", "cc", "pkg-config")

    def look_at(self, prefix: str | None) -> Installation:
        found = locate(prefix)
        shared = [path for directory in found.libraries for path in directory.glob("librte_*.so*")]
        files = [found.program, *shared] if found.root is None else files_below(found.root)
        return Installation(found.version, found.version, files, Path(prefix or "/"))

    def options(self, *, dpdk: bool) -> Sequence[str]:
        if not dpdk:
            raise ConfigError("testpmd is a program of DPDK: leave --without-dpdk out")
        return [f"-D{name}={value}" for name, value in _OPTIONS.items()]

    def configure(self, run: RunStep, tree: Path, directory: Path, options: Sequence[str]) -> None:
        known = {*_MESONS, *_OPTION.findall((tree / "meson_options.txt").read_text(encoding="utf-8"))}
        own = [option for option in options if option.removeprefix("-D").partition("=")[0] in known]
        run("meson setup", ["meson", "setup", str(directory), str(tree), *own], _SETUP_DEADLINE_S)

    def make(self, run: RunStep, directory: Path, prefix: Path) -> None:
        run("ninja", ["ninja", "-C", str(directory), f"app/{_PROGRAM}"], _MAKE_DEADLINE_S)
        (prefix / "bin").mkdir(parents=True)
        shutil.copy2(directory / "app" / _PROGRAM, prefix / "bin")
