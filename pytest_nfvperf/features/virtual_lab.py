"""``nfvperf lab``: run a command in a guest that has four emulated PCI NICs, two of the DUT and two of the generator.

Two cables join them: each is a pair of datagram sockets (qemu(1), ``-netdev dgram``). An emulated IOMMU lets vfio-pci
and DPDK's own drivers work as on hardware. Rates are those of an emulator; counts of frames are exact.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from pytest_nfvperf.adapters.generators.embedded.build import build, default_cache_dir, is_emulated
from pytest_nfvperf.adapters.host.apt import PrivateApt, debian_archive, unpack_root
from pytest_nfvperf.adapters.machine.reaper import open_journal, reap
from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.adapters.process.process import wait_until
from pytest_nfvperf.adapters.vnf.guest import ask_monitor
from pytest_nfvperf.adapters.vnf.guest_kernel import QEMU, Kernel, need, prepare_kernel
from pytest_nfvperf.cli.command import Command, path_like
from pytest_nfvperf.features.virtual_time.guest_run import SHARED, GuestMachine, GuestRun, run_in_guest
from pytest_nfvperf.model.errors import ConfigError

if TYPE_CHECKING:
    from pytest_nfvperf.cli.command import Commands

NICS = ("dut0", "dut1", "gen0", "gen1")
"""Their names in QEMU, for ``set_link``. dut0 is cabled to gen0, and dut1 to gen1."""
ADDRESSES = ("0000:00:06.0", "0000:00:08.0", "0000:00:0a.0", "0000:00:0c.0")
"""Two slots apart: the eight virtual functions of an igb fill two slots, 16 slots further on the same bus."""
TESTBED = "lab.yaml"

_DEVICES = {
    "vmxnet3": "vmxnet3",
    "virtio": "virtio-net-pci,iommu_platform=on,disable-legacy=on,rx_queue_size=1024",
    "igb": "igb",
}
_KERNEL_DRIVERS = {"vmxnet3": ("vmxnet3",), "virtio": ("virtio_net",), "igb": ("igb", "igbvf")}
_OF_NEWER_QEMU = "igb"
"""QEMU has it since 8.0, with two queues and virtual functions (SR-IOV)."""
_QEMU_RELEASE = "trixie"
_MODULES = ("openvswitch", "veth", "tun", "bridge", "vfio_pci")
_GUEST = GuestMachine(cpus=3, memory_mib=4096, hugepages_mib=1536, modules=_MODULES)
"""A CPU each for the PMD threads, the generator, and everything else."""
_IOMMU = ("-device", "intel-iommu,intremap=on")
_PARAMETERS = ("intel_iommu=on", "iommu=pt")
"""vfio needs interrupt remapping; "pt" spares the guest's own drivers the IOMMU."""
_PASSED_ON = ("HOME", "LANG", "XDG_CACHE_HOME", "PYTHONPATH", "COLUMNS")
_REQUEST, _ANSWER = ".request", ".answer"
_ANSWER_DEADLINE_S = 30.0
_DEADLINE_S = 3600.0
_TEXT = (
    "Run a command, such as pytest, in a guest with four emulated PCI NICs: two of the DUT, cabled to two of the "
    f"generator. They are bound to vfio-pci; {SHARED / TESTBED} is a testbed file for them. The guest sees this "
    "machine's files, and writes only to its shared folder."
)


@dataclass(frozen=True, slots=True)
class LabNics:
    """Which NICs the guest has. ``dut``, ``generator``: "vmxnet3", "virtio", "igb"; ConfigError for another.

    ``kernel_drivers``: the guest's kernel drives them, otherwise vfio-pci.
    """

    dut: str = "vmxnet3"
    generator: str = "virtio"
    kernel_drivers: bool = False

    def __post_init__(self) -> None:
        for side, model in (("--dut", self.dut), ("--generator", self.generator)):
            if model not in _DEVICES:
                raise ConfigError(f"{side} {model}: the virtual lab has no such NIC; write {' or '.join(_DEVICES)}")

    @property
    def models(self) -> tuple[str, ...]:
        return (self.dut, self.dut, self.generator, self.generator)

    def hardware(self, sockets: Path) -> tuple[str, ...]:
        """QEMU's arguments. ``sockets``: an existing folder with a short path, for the cables."""
        arguments = list(_IOMMU)
        for number, (name, model) in enumerate(zip(NICS, self.models, strict=True)):
            peer = NICS[(number + len(NICS) // 2) % len(NICS)]
            paths = f"local.type=unix,local.path={sockets}/{name},remote.type=unix,remote.path={sockets}/{peer}"
            slot = ADDRESSES[number].removeprefix("0000:00:")
            mac = f"52:54:00:00:00:{0x10 + number:02x}"
            arguments += ["-netdev", f"dgram,id=cable-{name},{paths}"]
            arguments += [
                "-device",
                f"{_DEVICES[model]},netdev=cable-{name},id={name},mac={mac},bus=pcie.0,addr={slot}",
            ]
        return tuple(arguments)

    def machine(self, sockets: Path) -> GuestMachine:
        drivers = dict.fromkeys(name for model in self.models for name in _KERNEL_DRIVERS[model])
        qemu = unpacked_qemu() if _OF_NEWER_QEMU in self.models else {}
        return replace(
            _GUEST,
            **qemu,
            hardware=self.hardware(sockets),
            parameters=_PARAMETERS,
            modules=(*_MODULES, *(drivers if self.kernel_drivers else ())),
            vfio=() if self.kernel_drivers else ADDRESSES,
        )

    def testbed(self, *, reversed_roles: bool = False) -> str:
        """The text of a testbed file for these NICs; with ``reversed_roles`` the generator's are the DUT's."""
        dut0, dut1, gen0, gen1 = ADDRESSES[2:] + ADDRESSES[:2] if reversed_roles else ADDRESSES
        return f"""\
# testbed
schema: 1
name: virtual lab, {self.generator if reversed_roles else self.dut}
hugepages: 1024 MiB
dut:
  ovs: {{instance: private, datapath: dpdk}}
  ports:
    - {{name: dpdk0, pci: "{dut0}", rxq: 1, line_rate: 1 Gbps}}
    - {{name: dpdk1, pci: "{dut1}", rxq: 1, line_rate: 1 Gbps}}
generator: {{engine: embedded, ports: [0, 1], devices: ["{gen0}", "{gen1}"]}}
links: [[generator.0, dut.dpdk0], [generator.1, dut.dpdk1]]
"""


def unpacked_qemu() -> dict[str, Any]:
    """Debian 13's QEMU, as fields of GuestMachine: from the cache, or fetched by apt and unpacked, not installed.

    Its own dynamic loader runs it, so it needs none of this machine's libraries.

    Raises:
        ConfigError: apt knows no archive of Debian.
        TestbedError: it cannot be downloaded or unpacked.
    """
    cache = default_cache_dir() / "qemu"
    root = cache / _QEMU_RELEASE
    if not root.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as scratch:
            apt = Path(scratch) / "apt"
            apt.mkdir()
            packages = PrivateApt(_QEMU_RELEASE, debian_archive(), apt).download("QEMU", "qemu-system-x86")
            unpack_root(packages, Path(scratch) / "root")
            try:
                (Path(scratch) / "root").rename(root)
            except OSError:
                if not root.is_dir():  # otherwise another process was faster
                    raise
    libraries = f"{root}/usr/lib/x86_64-linux-gnu"
    program = [f"{root}/usr/lib64/ld-linux-x86-64.so.2", "--library-path", libraries, f"{root}/usr/bin/{QEMU}"]
    data = [
        word for folder in ("share/qemu", "share/seabios", "lib/ipxe/qemu") for word in ("-L", f"{root}/usr/{folder}")
    ]
    return {"qemu": (*program, *data), "environment": (("QEMU_MODULE_DIR", f"{libraries}/qemu"),)}


def run_in_lab(
    journal: Journal,
    kernel: Kernel,
    command: Sequence[str],
    shared: Path,
    nics: LabNics,
    *,
    deadline_s: float = _DEADLINE_S,
    stream: TextIO | None = None,
) -> GuestRun:
    """Boot the guest and run a command in it, in this directory; as ``run_in_guest``, with the same errors.

    ``shared`` gets the testbed file. Builds the generator for the guest's CPU unless that has been done.
    """
    build(portable=True)
    (shared / TESTBED).write_text(nics.testbed(), encoding="utf-8")
    for left in (*shared.glob(f"*{_REQUEST}"), *shared.glob(f"*{_ANSWER}")):
        left.unlink()
    path = f"{Path(sys.executable).parent}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    given = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    words = [f"{name}={value}" for name, value in {**given, "PATH": path, "PYTHONUNBUFFERED": "1"}.items()]
    with tempfile.TemporaryDirectory(dir=journal.directory) as sockets:
        return run_in_guest(
            journal,
            kernel,
            ["env", "-C", str(Path.cwd()), *words, *command],
            shared,
            machine=nics.machine(Path(sockets)),
            deadline_s=deadline_s,
            stream=stream,
            attend=_answering(shared),
        )


def _answering(shared: Path) -> Callable[[Path], None]:
    """Pass the requests of the guest's programs on to QEMU's monitor."""

    def attend(monitor: Path) -> None:
        for request in sorted(shared.glob(f"*{_REQUEST}")):
            line = request.read_text(encoding="utf-8")
            request.unlink()
            try:
                answer = ask_monitor(monitor, "human-monitor-command", **{"command-line": line})
            except OSError as error:
                answer = json.dumps({"error": f"QEMU's monitor does not answer: {error}"})
            written = request.with_suffix(".written")
            written.write_text(answer, encoding="utf-8")
            written.rename(request.with_suffix(_ANSWER))

    return attend


def ask_host(line: str, shared: Path = SHARED) -> str:
    """In the guest, give QEMU's monitor a line, such as "set_link dut0 off", and return its answer.

    Raises:
        ConfigError: this is not the guest.
        DeadlineError: the host does not answer.
        ConfigError: QEMU refuses the line.
    """
    if not is_emulated() or not (shared / TESTBED).exists():
        raise ConfigError("QEMU's monitor is asked from inside the virtual lab: nfvperf lab -- COMMAND")
    handle, name = tempfile.mkstemp(dir=shared, suffix=".new")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(line)
    written = Path(name)
    answer = written.with_suffix(_ANSWER)
    written.rename(written.with_suffix(_REQUEST))
    wait_until(answer.exists, f"the host to pass {line!r} to QEMU's monitor", _ANSWER_DEADLINE_S)
    said = json.loads(answer.read_text(encoding="utf-8"))
    answer.unlink()
    text = str(said.get("return", said)).strip()
    # The monitor for humans has no status: it says nothing, or what was wrong.
    if "return" not in said or text.startswith("Error:"):
        raise ConfigError(f"QEMU's monitor refuses {line!r}: {text}")
    return text


def _add_parser(commands: Commands) -> None:
    text = "run a command in a virtual lab: a guest with emulated PCI NICs"
    parser = commands.add_parser("lab", help=text, description=_TEXT, epilog="The command follows --.")
    models = ", ".join(_DEVICES)
    parser.add_argument("--dut", default="vmxnet3", metavar="NIC", help=f"{models} (default: %(default)s)")
    parser.add_argument("--generator", default="virtio", metavar="NIC", help=f"{models} (default: %(default)s)")
    parser.add_argument("--kernel-drivers", action="store_true", help="do not bind the NICs to vfio-pci")
    parser.add_argument(
        "--shared",
        type=path_like,
        default=Path("reports/lab"),
        metavar="DIR",
        help=f"the guest sees it as {SHARED} (default: %(default)s)",
    )
    parser.add_argument(
        "--deadline", type=float, default=_DEADLINE_S, metavar="S", help="for the command, in seconds (default: 3600)"
    )
    parser.add_argument("--monitor", metavar="LINE", help="in the guest: a line for QEMU, as 'set_link dut0 off'")
    parser.set_defaults(command=_lab)


LAB = Command(_add_parser, takes_tests=True)


def _lab(arguments: argparse.Namespace) -> int:
    if arguments.monitor is not None:
        print(ask_host(arguments.monitor), end="")
        return 0
    if not arguments.behind:
        raise ConfigError("say what to run in the virtual lab: nfvperf lab -- nfvperf doctor --testbed /guest/lab.yaml")
    if os.geteuid() != 0:
        raise ConfigError("nfvperf lab needs root: the guest reads this machine's files as they are")
    nics = LabNics(arguments.dut, arguments.generator, kernel_drivers=arguments.kernel_drivers)
    shared: Path = arguments.shared
    shared.mkdir(parents=True, exist_ok=True)
    reap()
    if _OF_NEWER_QEMU not in nics.models:
        need(QEMU)  # before a kernel is fetched
    kernel = prepare_kernel()
    print(f"virtual lab: Linux {kernel.release}, DUT on {nics.dut}, generator on {nics.generator}; ", end="")
    print(f"{SHARED} is {shared}\n{SHARED / TESTBED}:\n{nics.testbed()}", flush=True)
    with closing(open_journal()) as journal:
        run = run_in_lab(
            journal, kernel, arguments.behind, shared, nics, deadline_s=arguments.deadline, stream=sys.stdout
        )
    return run.status
