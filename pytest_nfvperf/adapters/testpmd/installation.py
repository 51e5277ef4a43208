"""An installation of testpmd: its program and version, and how versions of it are unpacked and built."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_nfvperf.adapters.ovs.installation import ask_version, files_below, find_file, root_of
from pytest_nfvperf.adapters.process import private_mounts
from pytest_nfvperf.adapters.process.programs import find
from pytest_nfvperf.adapters.testpmd.console import PROGRAM, VERSION
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.testbed.testbed import TESTPMD, DatapathInfo
from pytest_nfvperf.ports.datapath import DatapathVersions, RunStep

_ASK_VERSION = ("-v", "--proc-type=none")
"""DPDK says its version, and ends at the option that it refuses, before it touches anything. -h ends it too early."""
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
"""Of meson. Static: testpmd is one file. A tree gets those that it knows: 20.11 and 21.11 lack the last."""
_SETUP_DEADLINE_S, _MAKE_DEADLINE_S = 300.0, 3600.0


@dataclass(frozen=True, slots=True)
class TestpmdBinary:
    """A testpmd of this machine.

    Attributes:
        version: of DPDK.
        libraries: directories of its shared libraries, if they are its own.
        root: the root directory in which it runs; None if it runs without one.
    """

    __test__ = False

    program: Path
    version: str
    libraries: tuple[Path, ...] = ()
    root: Path | None = None

    def command(self, *visible: Path) -> tuple[str, ...]:
        """Its command line, without arguments; a line is written at once. ``visible``: directories, in a root."""
        own = ["env", f"LD_LIBRARY_PATH={':'.join(map(str, self.libraries))}"] if self.libraries else []
        if self.root is None:
            return ("stdbuf", "-oL", *own, str(self.program))
        argv = ["/usr/bin/stdbuf", "-oL", str(Path("/") / self.program.relative_to(self.root))]  # the root's own
        return private_mounts.in_root(self.root, argv, tuple(dict.fromkeys(visible)))


def locate(prefix: str | None = None) -> TestpmdBinary:
    """Find testpmd, and ask it for its version.

    Args:
        prefix: of an installation of DPDK (bin/dpdk-testpmd), its build directory, or a root with a whole system's
            files; None for the distribution's package.

    Raises:
        ConfigError: there is no testpmd under the prefix, or it lacks a library.
        TestbedError: none is installed; names the package to install.
    """
    root, remedy = root_of(prefix), "give the --prefix or the build directory of a DPDK, or a root with its packages"
    installed = find(PROGRAM) if prefix is None else None
    names = [f"bin/{PROGRAM}", f"app/{PROGRAM}"]
    program = Path(installed) if installed else find_file(TESTPMD, PROGRAM, prefix, names, remedy)
    own = None if prefix is None or root is not None else Path(prefix)
    libraries = [each.parent for at in ("lib*", "lib*/*") for each in own.glob(f"{at}/librte_eal.so")] if own else []
    binary = TestpmdBinary(program, "", tuple(libraries), root)
    _, version = ask_version(program, [*binary.command(), *_ASK_VERSION], "DPDK", VERSION, root)
    return replace(binary, version=version)


class TestpmdVersions(DatapathVersions):
    """Versions of testpmd, which are those of DPDK."""

    __test__ = False

    kind = TESTPMD
    packages = ("dpdk-dev", "librte-meta-bus", "librte-meta-mempool", "librte-meta-net", "coreutils")  # for stdbuf
    recorded = packages[:1]
    sources = ("app/test-pmd/testpmd.c", "meson_options.txt")
    tools = ("meson", "ninja", "cc", "pkg-config")

    def look_at(self, prefix: str | None) -> DatapathInfo:
        found = locate(prefix)
        return DatapathInfo(TESTPMD, found.version, found.version, "", str(found.program))

    def files(self, prefix: str) -> Sequence[Path]:
        found, parts = locate(prefix), ("librte_*.so*", "dpdk/pmds-*/librte_*.so*")
        if found.root is not None:
            return files_below(found.root)
        return [found.program, *(path for at in found.libraries for part in parts for path in at.glob(part))]

    def options(self, *, dpdk: bool) -> Sequence[str]:
        if not dpdk:
            raise ConfigError("testpmd is a program of DPDK: leave --without-dpdk out")
        return [f"-D{name}={value}" for name, value in _OPTIONS.items()]

    def configure(self, run: RunStep, tree: Path, directory: Path, options: Sequence[str]) -> None:
        known = (tree / "meson_options.txt").read_text(encoding="utf-8")
        own = [each for each in options if "enable_" not in each or each[len("-D") : each.index("=")] in known]
        run("meson setup", ["meson", "setup", str(directory), str(tree), *own], _SETUP_DEADLINE_S)

    def make(self, run: RunStep, directory: Path, prefix: Path) -> None:
        run("ninja", ["ninja", "-C", str(directory), f"app/{PROGRAM}"], _MAKE_DEADLINE_S)
        (prefix / "bin").mkdir(parents=True)
        shutil.copy2(directory / "app" / PROGRAM, prefix / "bin")
