"""Every external program that the package, its tests and its CI call: its package, its purpose, what fails without it.

The set-up installs by this table, doctor and errors name packages from it, and tests/unit/test_programs.py checks every
call against it. Standard library only: the set-up runs before any pip install.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

OS_RELEASE = Path("/etc/os-release")
DEBIAN_12, DEBIAN_13, UBUNTU_24_04 = "debian 12", "debian 13", "ubuntu 24.04"


class Use(StrEnum):
    """Who calls a program, which decides who installs it."""

    RUN = "make setup: to build the generator and to measure"
    TESTS = "make setup: only the project's own tests and CI call it"
    KERNEL = "make test-kernel, --nfv-virtual-time, and VNFs of kind qemu"
    FRESH = ".ci/fresh"
    EXTRA = "nobody: taken where it is there"


@dataclass(frozen=True, slots=True)
class Program:
    """A program, or a library that a program of ours needs.

    Attributes:
        name: of the program; for a library that of its package.
        package: its package on most distributions.
        purpose: what it is for.
        use: who calls it.
        lost: what does not work without it; empty: nothing works.
        elsewhere: other names of the package, by system, such as "ubuntu 24.04".
        directories: where it may be, besides PATH.
    """

    name: str
    package: str
    purpose: str
    use: Use = Use.RUN
    lost: str = ""
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    directories: tuple[str, ...] = ()


_STREAMS = "TCP and UDP streams"
_ROUTING = "suites/routing, and what else speaks BGP"
_OVN = "the fixtures private_ovn and ovn_bgp_agent"
_BUILD = "to build the embedded generator"
_FROM_GIT, _OVS_BUILDS = "to build Open vSwitch from a git tree", "nfvperf ovs add git:REVISION, nfvperf bisect"
_GUEST = "guests: --nfv-virtual-time, tests of the kernel datapath, VNFs of kind qemu"
_OTHER_MACHINES = "tests of nodes on other machines"
_FRR = ("/usr/lib/frr", "/usr/libexec/frr")
_BIRD = ("/usr/sbin", "/usr/local/sbin")

_PROGRAMS = (
    Program("ovs-vswitchd", "openvswitch-switch-dpdk", "Open vSwitch with DPDK, the device under test"),
    Program("ovsdb-server", "openvswitch-common", "its database"),
    Program("ovsdb-tool", "openvswitch-common", "to make its database"),
    Program("ovs-ofctl", "openvswitch-common", "flows"),
    Program("ovs-vsctl", "openvswitch-switch", "what tests set by built.ovs('vsctl', ...)", lost="that call"),
    Program("dpdk-testpmd", "dpdk-dev", "VNFs that are a process of their own", lost="VNFs of kind testpmd"),
    Program("iperf3", "iperf3", "streams between namespaces; its service stays disabled", lost=_STREAMS),
    Program("sockperf", "sockperf", "requests and responses between namespaces", lost="study.response_time"),
    Program("iperf", "iperf", "TCP connects between namespaces", lost="study.connect_rate"),
    Program(
        "perf",
        "linux-perf",
        "profiles of where cycles go",
        Use.EXTRA,
        "--nfv-profile-cpu",
        {UBUNTU_24_04: "linux-tools-generic"},
    ),
    Program("zebra", "frr", "routes into the kernel (FRR)", lost=_ROUTING, directories=_FRR),
    Program("bgpd", "frr", "BGP on the DUT's side (FRR); its service stays disabled", lost=_ROUTING, directories=_FRR),
    Program("bfdd", "frr", "BFD (FRR)", lost=_ROUTING, directories=_FRR),
    Program(
        "bird", "bird2", "the BGP neighbour (BIRD 2); its service stays disabled", lost=_ROUTING, directories=_BIRD
    ),
    Program("ovn-northd", "ovn-central", "OVN; its service stays disabled", lost=_OVN),
    Program("ovn-controller", "ovn-host", "OVN on a chassis; its service stays disabled", lost=_OVN),
    Program("ovn-nbctl", "ovn-common", "to write OVN's northbound database", lost=_OVN),
    Program("ovn-sbctl", "ovn-common", "to read OVN's southbound database", lost=_OVN),
    Program("cc", "gcc", _BUILD),
    Program("meson", "meson", _BUILD),
    Program("ninja", "ninja-build", _BUILD),
    Program("pkg-config", "pkgconf", _BUILD),
    Program("apt-get", "apt", "to install packages, and to fetch a guest's kernel"),
    Program("apt-cache", "apt", "to find the guest's kernel"),
    Program("dpkg-query", "dpkg", "which packages are installed"),
    Program("dpkg-deb", "dpkg", "to unpack the guest's kernel"),
    Program("tar", "tar", "to unpack packages of another release, and fresh roots", lost="nfvperf ovs add"),
    Program("update-rc.d", "init-system-helpers", "to disable the services of what the set-up installs"),
    Program("systemctl", "systemd", "to disable the services of what the set-up installs", Use.EXTRA, "nothing"),
    Program("sysctl", "procps", "to set what a namespace forwards"),
    Program("ip", "iproute2", "to try which devices the kernel can make"),
    Program("vdpa", "iproute2", "interfaces by VDUSE", lost="pods of kind vduse"),
    Program("env", "coreutils", "to run a program elsewhere, or with other variables"),
    Program("stdbuf", "coreutils", "to read what dpdk-testpmd prints as it comes"),
    Program("setpriv", "util-linux", "children end with the run"),
    Program("nsenter", "util-linux", "children in a network namespace"),
    Program("unshare", "util-linux", "to try which devices the kernel can make"),
    Program("taskset", "util-linux", "children on their CPUs"),
    Program("sh", "dash", "OVS's own scripts that save and restore flows", lost="events.restart(flows='restored')"),
    Program("prlimit", "util-linux", "as many files as a large bridge needs"),
    Program("cat", "coreutils", "stand-ins of tests", Use.TESTS),
    Program("ls", "coreutils", "stand-ins of tests", Use.TESTS),
    Program("sleep", "coreutils", "stand-ins of tests", Use.TESTS),
    Program("true", "coreutils", "stand-ins of tests", Use.TESTS),
    Program("mount", "mount", "a full disk for tests; fresh roots", Use.TESTS),
    Program("umount", "mount", "a full disk for tests; fresh roots", Use.TESTS),
    Program("tc", "iproute2", "loss that tests cause", Use.TESTS),
    Program("ethtool", "ethtool", "offloads that tests switch", Use.TESTS),
    Program("jq", "jq", "the documents' examples read evidence with it", Use.TESTS),
    Program("git", "git", "a fresh clone; Open vSwitch at a revision", Use.TESTS),
    Program("make", "make", "the README's commands; Open vSwitch at a revision", Use.TESTS),
    Program("autoreconf", "autoconf", _FROM_GIT, lost=_OVS_BUILDS),
    Program("automake", "automake", _FROM_GIT, lost=_OVS_BUILDS),
    Program("libtoolize", "libtool", _FROM_GIT, lost=_OVS_BUILDS),
    Program("ccache", "ccache", "to compile less of a second revision", Use.EXTRA, "time"),
    Program("bash", "bash", ".ci/run", Use.TESTS),
    Program("grep", "grep", ".ci/run and the gates beside it", Use.TESTS),
    Program("find", "findutils", ".ci/left-behind", Use.TESTS),
    Program("sed", "sed", "make help", Use.TESTS),
    Program("touch", "coreutils", "make setup", Use.TESTS),
    Program("rm", "coreutils", "make wheel", Use.TESTS),
    Program("dirname", "coreutils", ".ci/run", Use.TESTS),
    Program("mktemp", "coreutils", ".ci/run", Use.TESTS),
    Program("pgrep", "procps", ".ci/left-behind", Use.TESTS),
    Program("localedef", "libc-bin", "locales for tests to run in", Use.TESTS),
    Program("ldd", "libc-bin", "which libraries a root of a test needs", Use.TESTS),
    Program("python3", "python3", "the set-up and the virtual environment", Use.TESTS),
    Program("qemu-system-x86_64", "qemu-system-x86", "the guest itself", Use.KERNEL, _GUEST),
    Program("depmod", "kmod", "the modules of the guest's kernel", Use.KERNEL, _GUEST),
    Program("modprobe", "kmod", "the modules of the guest's kernel, and drivers of NICs", Use.KERNEL, _GUEST),
    Program("cpio", "cpio", "to pack the guest's first file system", Use.KERNEL, _GUEST),
    Program("zstd", "zstd", "to unpack kernels that are packed by it (Debian 13, Ubuntu)", Use.KERNEL, _GUEST),
    Program("mmdebstrap", "mmdebstrap", "roots of other releases", Use.FRESH, "the gate .ci/fresh"),
    Program("chroot", "coreutils", "to enter such a root", Use.FRESH, "the gate .ci/fresh"),
    Program("apt-config", "apt", "how this machine's apt fetches", Use.FRESH, "the gate .ci/fresh"),
    Program("sshd", "openssh-server", "machines to reach by ssh", Use.EXTRA, _OTHER_MACHINES),
    Program("ssh", "openssh-client", "nodes on other machines", Use.EXTRA, "ssh: in nodes"),
    Program("ssh-keygen", "openssh-client", "keys for them", Use.EXTRA, _OTHER_MACHINES),
    Program("podman", "podman", "to build the image", Use.EXTRA, "make image"),
    Program("npm", "npm", "to open Allure 3's page in a test", Use.EXTRA, "that test is skipped"),
    Program(
        "chromium",
        "chromium",
        "to look at reports",
        Use.EXTRA,
        "nothing: any browser does",
        elsewhere={UBUNTU_24_04: "chromium-browser"},
    ),
)

LIBRARIES = (
    Program("dpdk", "dpdk", "DPDK's tools, and the libraries' configuration"),
    Program("libdpdk-dev", "libdpdk-dev", _BUILD),
    Program("libjansson-dev", "libjansson-dev", _BUILD),
    Program("libc6-dev", "libc6-dev", _BUILD),
    Program("librte-meta-bus", "librte-meta-bus", "DPDK's bus drivers; without vdev no virtual port is found"),
    Program("librte-meta-mempool", "librte-meta-mempool", "DPDK's mempool drivers; without ring no packet passes"),
    Program("librte-meta-net", "librte-meta-net", "DPDK's port drivers: virtio-user, af_packet, NICs"),
    Program("python3-pyelftools", "python3-pyelftools", "to build testpmd from a git tree", Use.EXTRA, "such versions"),
    Program("python3-venv", "python3-venv", "the virtual environment", Use.TESTS),
    Program("ca-certificates", "ca-certificates", "pip trusts the machine's certificates", Use.TESTS),
)
"""Packages without a program that anything calls."""

PROGRAMS: Mapping[str, Program] = {program.name: program for program in _PROGRAMS}


def system(os_release: Path = OS_RELEASE) -> str:
    """The distribution that runs here, such as "debian 12"; empty when the file is not there."""
    if not os_release.is_file():
        return ""
    fields = dict(line.split("=", 1) for line in os_release.read_text(encoding="utf-8").splitlines() if "=" in line)
    return " ".join(fields.get(key, "").strip().strip("\"'") for key in ("ID", "VERSION_ID")).strip()


def packages(uses: Iterable[Use], on: str) -> dict[str, str]:
    """Packages to install for these uses on a system such as "debian 12", each with what it is for."""
    wanted = frozenset(uses)
    found: dict[str, list[str]] = {}
    for row in (*_PROGRAMS, *LIBRARIES):
        if row.use in wanted:
            found.setdefault(row.elsewhere.get(on, row.package), []).append(row.purpose)
    return {package: "; ".join(dict.fromkeys(purposes)) for package, purposes in found.items()}


def install_hint(*names: str) -> str:
    """The command that installs these programs or libraries: "apt-get install ethtool"; KeyError for unknown ones."""
    here = system(OS_RELEASE)
    rows = map(_row, names)
    return f"apt-get install {' '.join(dict.fromkeys(row.elsewhere.get(here, row.package) for row in rows))}"


def not_installed(name: str) -> str:
    """For errors: "ethtool is not installed: apt-get install ethtool"; without advice for unknown programs."""
    hint = f": {install_hint(name)}" if name in PROGRAMS else ""
    return f"{name} is not installed{hint}"


def find(name: str) -> str | None:
    """The path of a known program: on PATH, or where its package puts it; None if it is not installed."""
    return shutil.which(name) or next(filter(None, (shutil.which(name, path=d) for d in _row(name).directories)), None)


def absent(argv: Sequence[str]) -> str | None:
    """The first known program of a command, also a wrapped one, that is not installed; None if all are."""
    known = (word for index, word in enumerate(argv) if word in PROGRAMS or index == 0)
    return next((word for word in known if shutil.which(word) is None), None)


def _row(name: str) -> Program:
    return PROGRAMS[name] if name in PROGRAMS else {row.name: row for row in LIBRARIES}[name]
