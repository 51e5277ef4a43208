"""What this machine can and cannot do, and what to install or set for each. Pure data; the CLI prints it."""

from __future__ import annotations

import os
import resource
import shutil
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from pytest_nfvperf.adapters.generators.embedded.build import NEEDED
from pytest_nfvperf.adapters.generators.iperf3.engine import find_iperf3, iperf3_options
from pytest_nfvperf.adapters.host.cpus import isolated_cpus, plan_cpus, read_cpus
from pytest_nfvperf.adapters.host.hugepages import LEAST_MIB, RIG_MIB, read_hugepages
from pytest_nfvperf.adapters.host.nic import lacks_af_xdp
from pytest_nfvperf.adapters.host.setup import DEFAULT_HUGEPAGES_MIB, SETUP_USES, SetupError, read_distribution
from pytest_nfvperf.adapters.machine.check import FEATURE_CHECKS, Check, CheckState
from pytest_nfvperf.adapters.net.linux_bridge import BridgeDatapath
from pytest_nfvperf.adapters.net.vduse import lacks_vduse
from pytest_nfvperf.adapters.ovs.installation import locate
from pytest_nfvperf.adapters.ovs.private_ovs import OWN_FILES, RAISE_OPEN_FILES
from pytest_nfvperf.adapters.process.process import run
from pytest_nfvperf.adapters.process.programs import PROGRAMS, find, install_hint
from pytest_nfvperf.model.errors import NfvperfError, TestbedError
from pytest_nfvperf.model.testbed.testbed import Dut, StreamsSpec, Testbed

_AF_XDP_DRIVER = "*/dpdk/pmds-*/librte_net_af_xdp.so*"
_BUILD_MODULE = "pytest_nfvperf.adapters.generators.embedded.build"


def checks(testbed: Testbed | None = None) -> list[Check]:
    """Check everything; with a testbed, also what it needs (its OVS prefix, its TRex server)."""
    prefix = testbed.ovs.prefix if testbed is not None else None
    asks_for_dpdk = testbed is not None and not testbed.discovered and _is_private_dpdk(testbed)
    found = [
        _root(),
        _distribution(),
        _cores(),
        _isolation(),
        _open_files(),
        _hugepages(needed=asks_for_dpdk),
        _ovs(prefix),
        _dpdk(prefix, needed=asks_for_dpdk),
        _toolchain(),
        _generator(needed=testbed is None or testbed.generator.engine == "embedded"),
        _kernel_datapath(needed=testbed is not None and testbed.ovs.datapath == "system"),
        _linux_bridge(),
        _af_xdp(),
        _vduse(),
        _iperf3(testbed.streams if testbed is not None else StreamsSpec()),
        *(check for checks_of in FEATURE_CHECKS.all().values() for check in checks_of(testbed)),
    ]
    return [*found, *(_optional(*entry) for entry in _OPTIONAL), _others()]


def _is_private_dpdk(testbed: Testbed) -> bool:
    """True if the testbed needs DPDK. Without a file the datapath without DPDK serves, too."""
    return (testbed.ovs.instance, testbed.ovs.datapath) == ("private", "dpdk")


_OPTIONAL: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("FRR", "bgpd", ()),
    ("BIRD", "bird", ()),
    ("QEMU", "qemu-system-x86_64", ()),
    ("sockperf", "sockperf", ()),
    ("iperf 2", "iperf", ()),
    ("perf", "perf", ()),
    ("Chromium", "chromium", ("chromium-browser", "google-chrome")),
)
"""What a line of its own shows; its program, and other names of that."""


def _root() -> Check:
    if os.geteuid() == 0:
        return Check("root", CheckState.OK, "yes", needed=True)
    advice = "run as root: namespaces, hugepages and a private OVS need it"
    return Check("root", CheckState.MISSING, f"uid {os.geteuid()}", advice, needed=True)


def _distribution() -> Check:
    try:
        distribution = read_distribution()
    except (SetupError, OSError) as error:
        return Check("distribution", CheckState.WARN, "package names not known", str(error))
    if distribution.tried:
        return Check("distribution", CheckState.OK, distribution.name)
    return Check(
        "distribution", CheckState.WARN, distribution.name, "package names are known, but nobody tried the set-up here"
    )


def _cores() -> Check:
    cpus = read_cpus()
    seen = f"{len(cpus)} CPUs, {len({cpu.core for cpu in cpus})} cores"
    try:
        plan = plan_cpus(cpus)
    except TestbedError as error:
        return Check("cores", CheckState.MISSING, seen, error.message, needed=True)
    owners = {"PMD": plan.pmd, "generator": plan.generator, "housekeeping": plan.housekeeping, "VNF": plan.vnf}
    given = "; ".join(f"{owner} {','.join(map(str, owned))}" for owner, owned in owners.items() if owned)
    if plan.shared:
        advice = "generator and housekeeping share a core: with a third core fewer trials are invalid"
        return Check("cores", CheckState.WARN, f"{seen}: {given}", advice, needed=True)
    return Check("cores", CheckState.OK, f"{seen}: {given}", needed=True)


def _isolation() -> Check:
    isolated = isolated_cpus()
    if isolated:
        return Check("isolated CPUs", CheckState.OK, ",".join(map(str, isolated)))
    advice = "for a lab: isolcpus=, nohz_full=, rcu_nocbs= of the PMD and generator CPUs on the kernel command line"
    return Check("isolated CPUs", CheckState.WARN, "none", advice)


def _open_files() -> Check:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    seen = "no limit" if most == resource.RLIM_INFINITY else f"{most} at most"
    needed = OWN_FILES + read_hugepages().pages_for(RIG_MIB[0])
    if most == resource.RLIM_INFINITY or most >= needed:
        return Check("open files", CheckState.OK, seen, needed=True)
    return Check("open files", CheckState.MISSING, seen, f"OVS needs about {needed}: {RAISE_OPEN_FILES}", needed=True)


def _hugepages(*, needed: bool) -> Check:
    pages = read_hugepages()
    seen = str(pages) if pages.pools else "not in this kernel"
    if pages.rooms(*RIG_MIB):
        return Check("hugepages", CheckState.OK, seen, needed=needed)
    least = " and ".join(f"{mib} MiB" for mib in LEAST_MIB)
    advice = f"{pages.advice(DEFAULT_HUGEPAGES_MIB)}; without room for {least} the datapath runs without DPDK"
    return Check(
        "hugepages", CheckState.WARN if pages.rooms(*LEAST_MIB) else CheckState.MISSING, seen, advice, needed=needed
    )


def _ovs(prefix: str | None) -> Check:
    try:
        binaries = locate(prefix)
    except NfvperfError as error:
        return Check("Open vSwitch", CheckState.MISSING, "not found", str(error), needed=True)
    return Check("Open vSwitch", CheckState.OK, f"{binaries.version} ({binaries.vswitchd})", needed=True)


def _dpdk(prefix: str | None, *, needed: bool) -> Check:
    try:
        version = locate(prefix).dpdk_version
    except NfvperfError:
        version = None
    if version is not None:
        return Check("DPDK in OVS", CheckState.OK, version, needed=needed)
    return Check("DPDK in OVS", CheckState.MISSING, "none", install_hint("ovs-vswitchd"), needed=needed)


def _toolchain() -> Check:
    tools = {"C compiler": "cc", "meson": "meson", "ninja": "ninja", "pkg-config": "pkg-config"}
    absent = [name for name, binary in tools.items() if shutil.which(binary) is None]
    try:
        version = run(["pkg-config", "--modversion", "libdpdk"]).strip()
    except TestbedError:
        version = ""
        absent.append("libdpdk")
    if absent:
        advice = install_hint(*NEEDED, "librte-meta-net", "librte-meta-bus")
        return Check("generator toolchain", CheckState.MISSING, f"no {', '.join(absent)}", advice)
    return Check("generator toolchain", CheckState.OK, f"libdpdk {version}")


def _generator(*, needed: bool) -> Check:
    advice = "nfvperf build"
    if find_spec(_BUILD_MODULE) is None:
        return Check("nfvperf-gen", CheckState.MISSING, "not in this installation", advice, needed=needed)
    find: Callable[[], object] = import_module(_BUILD_MODULE).find
    try:
        return Check("nfvperf-gen", CheckState.OK, str(find()), needed=needed)
    except NfvperfError as error:
        return Check("nfvperf-gen", CheckState.MISSING, str(error), advice, needed=needed)


def _kernel_datapath(*, needed: bool) -> Check:
    name = "kernel datapath"
    if Path("/sys/module/openvswitch").is_dir():
        return Check(name, CheckState.OK, "openvswitch is loaded", needed=needed)
    modules = Path("/lib/modules") / os.uname().release
    if any(modules.glob("**/openvswitch.ko*")):
        return Check(name, CheckState.WARN, "openvswitch is there, not loaded", "modprobe openvswitch", needed=needed)
    advice = (
        "a kernel with the openvswitch module (Debian: linux-image-amd64); the userspace datapath needs none, and "
        "`make test-kernel` tests the kernel datapath in a guest"
    )
    return Check(name, CheckState.MISSING, f"no openvswitch module for {os.uname().release}", advice, needed=needed)


def _linux_bridge() -> Check:
    lacking = BridgeDatapath.lacks(Dut("linux-bridge"))
    if lacking is None:
        return Check("Linux bridge", CheckState.OK, "can be made")
    return Check("Linux bridge", CheckState.MISSING, "cannot be made", lacking)


def _af_xdp() -> Check:
    """Check the kernel's sockets. Whether OVS's and DPDK's ports can use them shows only when one is built."""
    lacking = lacks_af_xdp()
    if lacking is not None:
        seen, _, advice = lacking.partition(": ")
        return Check("AF_XDP", CheckState.MISSING, seen, f"{advice}; only ports and pods of kind af_xdp need it")
    if any(Path("/usr/lib").glob(_AF_XDP_DRIVER)):
        return Check("AF_XDP", CheckState.OK, "in the kernel and in DPDK")
    return Check(
        "AF_XDP", CheckState.WARN, "in the kernel, not in DPDK", f"{install_hint('librte-meta-net')} (DPDK's drivers)"
    )


def _vduse() -> Check:
    """Check the kernel and its tools. Whether OVS can serve VDUSE depends on its DPDK."""
    lacking = lacks_vduse()
    if lacking is None:
        return Check("VDUSE", CheckState.OK, "in the kernel, with virtio_vdpa")
    seen, _, advice = lacking.partition(": ")
    return Check("VDUSE", CheckState.MISSING, seen, f"{advice}; only pods of kind vduse need it")


def _iperf3(streams: StreamsSpec) -> Check:
    try:
        found = find_iperf3(iperf3_options(streams).binary)
    except TestbedError as error:
        advice = f"{install_hint('iperf3')} (for {PROGRAMS['iperf3'].lost})"
        if streams.path is not None:
            return Check("iperf3", CheckState.MISSING, error.message, f"write its path as 'streams.path', or {advice}")
        return Check("iperf3", CheckState.MISSING, "not installed", advice)
    return Check("iperf3", CheckState.OK, f"{found.version}, {found.threads}")


def _optional(name: str, program: str, other_names: tuple[str, ...]) -> Check:
    path = next(filter(None, (find(program), *map(shutil.which, other_names))), None)
    if path is not None:
        return Check(name, CheckState.OK, path)
    return Check(name, CheckState.MISSING, "not installed", f"{install_hint(program)} (lost: {PROGRAMS[program].lost})")


def _others() -> Check:
    absent = [name for name, program in PROGRAMS.items() if program.use in SETUP_USES and find(name) is None]
    if not absent:
        return Check("other programs", CheckState.OK, "all installed")
    return Check(
        "other programs", CheckState.MISSING, f"no {', '.join(absent)}", f"{install_hint(*absent)} (or make setup)"
    )
