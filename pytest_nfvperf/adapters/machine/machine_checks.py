"""Doctor's checks: what this machine can and cannot do, what a testbed file names, and what to do for each."""

from __future__ import annotations

import os
import resource
import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from packaging.requirements import Requirement

from pytest_nfvperf.adapters.generators.embedded import build
from pytest_nfvperf.adapters.generators.embedded.generator import start_generator
from pytest_nfvperf.adapters.generators.iperf3 import find_iperf3
from pytest_nfvperf.adapters.host.cpu_account import cpu_quota
from pytest_nfvperf.adapters.host.cpus import (
    complete_testbed,
    discover_testbed,
    isolated_cpus,
    plan_cpus,
    read_cpu_topology,
    read_cpus,
)
from pytest_nfvperf.adapters.host.hugepages import LEAST_MIB, RIG_MIB, read_hugepages
from pytest_nfvperf.adapters.host.nic import NicFacts, lacks_af_xdp, read_nic
from pytest_nfvperf.adapters.host.nic_binding import PciBus, check_dpdk_device, is_to_be_made, why_not_set_up
from pytest_nfvperf.adapters.host.pci import read_device
from pytest_nfvperf.adapters.host.setup import DEFAULT_HUGEPAGES_MIB, SETUP_USES, SetupError, read_distribution
from pytest_nfvperf.adapters.machine.fingerprint import running_facts
from pytest_nfvperf.adapters.machine.reaper import open_journal
from pytest_nfvperf.adapters.net.borrowed_interfaces import check_free
from pytest_nfvperf.adapters.net.ends import interface_exists
from pytest_nfvperf.adapters.net.linux_bridge import BridgeDatapath
from pytest_nfvperf.adapters.net.vduse import lacks_vduse
from pytest_nfvperf.adapters.ovs.installation import lacks_kernel_module, locate
from pytest_nfvperf.adapters.ovs.nodes_datapath import NODE_HOSTS
from pytest_nfvperf.adapters.ovs.ovsdb import Unixctl
from pytest_nfvperf.adapters.ovs.private_ovs import OWN_FILES, RAISE_OPEN_FILES
from pytest_nfvperf.adapters.ovs.system_ovs import find_system
from pytest_nfvperf.adapters.process.lock import MeasurementLock
from pytest_nfvperf.adapters.process.process import run
from pytest_nfvperf.adapters.process.programs import PROGRAMS, find, install_hint
from pytest_nfvperf.features import Point
from pytest_nfvperf.model.display import cpu_list
from pytest_nfvperf.model.disturbance.cpu_distance import Bands, Distance, find_bands
from pytest_nfvperf.model.errors import ConfigError, GeneratorError, NfvperfError, TestbedError
from pytest_nfvperf.model.testbed.cpu_neighbours import (
    Choice,
    CpuPair,
    bands_text,
    closer_cpus,
    describe_distances,
    pairs,
    worth_trying,
)
from pytest_nfvperf.model.testbed.cpu_neighbours import advice as cpus_to_write
from pytest_nfvperf.model.testbed.lab_cables import is_lab, is_pci, ports_here
from pytest_nfvperf.model.testbed.ovs_settings import OVS, versioned_as
from pytest_nfvperf.model.testbed.testbed import (
    ON_DPDK,
    TESTBED_DUT,
    Dut,
    DutPort,
    NicSpec,
    NodeSpec,
    StreamsSpec,
    Testbed,
    dut_of_node,
    ovs_for_dut,
)


class CheckState(StrEnum):
    """How a check ended. WARN: it works, with a limit that the check names."""

    OK = "ok"
    WARN = "warn"
    MISSING = "missing"


Finding = tuple[CheckState, str, str]
"""A check's state, what was seen, and advice."""


@dataclass(frozen=True, slots=True)
class Check:
    """``needed``: the testbed cannot run without it."""

    name: str
    state: CheckState
    seen: str
    advice: str = ""
    needed: bool = False


FEATURE_CHECKS = Point[Callable[[Testbed | None], list[Check]]]("checks")
"""Checks of what features need of this machine, and of a testbed if there is one."""

_DISTANCE = "CPU distance"
_AF_XDP_DRIVER = "*/dpdk/pmds-*/librte_net_af_xdp.so*"
_OPTIONAL: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("FRR", "bgpd", ()),
    ("BIRD", "bird", ()),
    ("QEMU", "qemu-system-x86_64", ()),
    ("sockperf", "sockperf", ()),
    ("iperf 2", "iperf", ()),
    ("perf", "perf", ()),
    ("Chromium", "chromium", ("chromium-browser", "google-chrome")),
)
"""Optional programs: the check's name, the program, and its other names."""
EXTRAS = {
    "charts": "pictures of charts, in Allure and datasheets",
    "xdist": "several testbeds",
    "ssh": "nodes on other machines",
    "trex": "TRex's client libraries",
    "history": "change points of a history",
    "otlp": "metrics for OpenTelemetry",
}
"""What the extras of this package are for; those for its developers are not among them."""
OK, WARN, MISSING = CheckState.OK, CheckState.WARN, CheckState.MISSING


def checks(testbed: Testbed | None = None) -> list[Check]:
    """Check everything; with a testbed, also what it needs (its OVS prefix, its TRex server)."""
    prefix = ovs_for_dut(testbed.ovs, Dut("dpdk")).prefix if testbed is not None else None
    wants_ovs = testbed is None or versioned_as(testbed.ovs.datapath) == OVS
    # Without a file the datapath without DPDK is good enough.
    wants_dpdk = (
        testbed is not None
        and not testbed.discovered
        and (testbed.ovs.instance == "private" and testbed.ovs.datapath in ON_DPDK)
    )
    wants_generator = testbed is None or testbed.generator.engine == "embedded"
    wants_kernel = testbed is not None and testbed.ovs.datapath == "system"
    return [
        Check("root", *_root(), needed=True),
        Check("distribution", *_distribution()),
        Check("cores", *_cores(), needed=True),
        Check("CPU quota", *_quota()),
        Check("isolated CPUs", *_isolation()),
        Check("open files", *_open_files(), needed=True),
        Check("hugepages", *_hugepages(), needed=wants_dpdk),
        Check("Open vSwitch", *_ovs(prefix), needed=wants_ovs),
        Check("DPDK in OVS", *_dpdk(prefix), needed=wants_dpdk and wants_ovs),
        Check("generator toolchain", *_toolchain()),
        Check("nfvperf-gen", *_generator(), needed=wants_generator),
        Check("kernel datapath", *_kernel_datapath(), needed=wants_kernel),
        Check("Linux bridge", *_linux_bridge()),
        Check("AF_XDP", *_af_xdp()),
        Check("VDUSE", *_vduse()),
        Check("iperf3", *_iperf3(testbed.streams if testbed is not None else StreamsSpec())),
        *(check for checks_of in FEATURE_CHECKS.all().values() for check in checks_of(testbed)),
        *(Check(name, *_optional(program, *others)) for name, program, others in _OPTIONAL),
        Check("other programs", *_others()),
        Check("Python extras", *_extras()),
    ]


def _extras() -> Finding:
    """An extra is there if all its packages are, in versions that it takes."""
    package = "pytest-nfvperf"
    try:
        needs = [Requirement(text) for text in requires(package) or ()]
    except PackageNotFoundError:
        return WARN, "not known", f"{package} was not installed by pip"
    brought = {
        extra: [need for need in needs if need.marker is not None and need.marker.evaluate({"extra": extra})]
        for extra in EXTRAS
    }
    there = [extra for extra, packages in brought.items() if packages and all(map(_is_installed, packages))]
    absent = [extra for extra in EXTRAS if extra not in there]
    seen = ", ".join(there) or "none"
    if not absent:
        return OK, seen, ""
    uses = "; ".join(f"{extra}: {EXTRAS[extra]}" for extra in absent)
    return WARN, seen, f"pip install '{package}[{','.join(absent)}]' for {uses}"


def _is_installed(need: Requirement) -> bool:
    try:
        return need.specifier.contains(version(need.name), prereleases=True)
    except PackageNotFoundError:
        return False


def _root() -> Finding:
    if os.geteuid() == 0:
        return OK, "yes", ""
    return MISSING, f"uid {os.geteuid()}", "run as root: namespaces, hugepages and a private OVS need it"


def _distribution() -> Finding:
    try:
        name, tried = read_distribution()
    except (SetupError, OSError) as error:
        return WARN, "package names not known", str(error)
    if tried:
        return OK, name, ""
    return WARN, name, "package names are known, but nobody tried the set-up here"


def _cores() -> Finding:
    cpus = read_cpus()
    seen = f"{len(cpus)} CPUs, {len({cpu.core for cpu in cpus})} cores"
    try:
        plan = plan_cpus(cpus)
    except TestbedError as error:
        return MISSING, seen, error.message
    owners = {"PMD": plan.pmd, "generator": plan.generator, "housekeeping": plan.housekeeping, "VNF": plan.vnf}
    given = "; ".join(f"{owner} {','.join(map(str, owned))}" for owner, owned in owners.items() if owned)
    if plan.shared:
        advice = "generator and housekeeping share a core: with a third core fewer trials are invalid"
        return WARN, f"{seen}: {given}", advice
    return OK, f"{seen}: {given}", ""


def _quota() -> Finding:
    quota = cpu_quota()
    if quota is None:
        return OK, "none", ""
    advice = "polling threads use it up, and the kernel then stops them: run without a limit (docker --cpus, cpu.max)"
    return WARN, f"{quota:g} CPUs by a control group", advice


def _isolation() -> Finding:
    isolated = isolated_cpus()
    if isolated:
        return OK, ",".join(map(str, isolated)), ""
    advice = "for a lab: isolcpus=, nohz_full=, rcu_nocbs= of the PMD and generator CPUs on the kernel command line"
    return WARN, "none", advice


def _open_files() -> Finding:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    seen = "no limit" if most == resource.RLIM_INFINITY else f"{most} at most"
    needed = OWN_FILES + read_hugepages().pages_for(RIG_MIB[0])
    if most == resource.RLIM_INFINITY or most >= needed:
        return OK, seen, ""
    return MISSING, seen, f"OVS needs about {needed}: {RAISE_OPEN_FILES}"


def _hugepages() -> Finding:
    pages = read_hugepages()
    seen = str(pages) if pages.pools else "not in this kernel"
    if pages.rooms(*RIG_MIB):
        return OK, seen, ""
    least = " and ".join(f"{mib} MiB" for mib in LEAST_MIB)
    advice = f"{pages.advice(DEFAULT_HUGEPAGES_MIB)}; without room for {least} the datapath runs without DPDK"
    return WARN if pages.rooms(*LEAST_MIB) else MISSING, seen, advice


def _ovs(prefix: str | None) -> Finding:
    try:
        binaries = locate(prefix)
    except NfvperfError as error:
        return MISSING, "not found", str(error)
    return OK, f"{binaries.version} ({binaries.vswitchd})", ""


def _dpdk(prefix: str | None) -> Finding:
    try:
        version = locate(prefix).dpdk_version
    except NfvperfError:
        version = None
    return (OK, version, "") if version is not None else (MISSING, "none", install_hint("ovs-vswitchd"))


def _toolchain() -> Finding:
    tools = {"C compiler": "cc", "meson": "meson", "ninja": "ninja", "pkg-config": "pkg-config"}
    absent = [name for name, binary in tools.items() if shutil.which(binary) is None]
    try:
        version = run(["pkg-config", "--modversion", "libdpdk"]).strip()
    except TestbedError:
        version = ""
        absent.append("libdpdk")
    if absent:
        return MISSING, f"no {', '.join(absent)}", install_hint(*build.NEEDED, "librte-meta-net", "librte-meta-bus")
    return OK, f"libdpdk {version}", ""


def _generator() -> Finding:
    try:
        return OK, str(build.find()), ""
    except NfvperfError as error:
        return MISSING, str(error), "nfvperf build"


def _kernel_datapath() -> Finding:
    if Path("/sys/module/openvswitch").is_dir():
        return OK, "openvswitch is loaded", ""
    release = os.uname().release
    if any((Path("/lib/modules") / release).glob("**/openvswitch.ko*")):
        return WARN, "openvswitch is there, not loaded", "modprobe openvswitch"
    advice = (
        "a kernel with the openvswitch module (Debian: linux-image-amd64); the userspace datapath needs none, and "
        "`make test-kernel` tests the kernel datapath in a guest"
    )
    return MISSING, f"no openvswitch module for {release}", advice


def _linux_bridge() -> Finding:
    lacking = BridgeDatapath.lacks(Dut("linux-bridge"))
    return (OK, "can be made", "") if lacking is None else (MISSING, "cannot be made", lacking)


def _af_xdp() -> Finding:
    lacking = lacks_af_xdp()
    if lacking is not None:
        seen, _, advice = lacking.partition(": ")
        return MISSING, seen, f"{advice}; only ports and pods of kind af_xdp need it"
    # Whether OVS's and DPDK's ports can use the kernel's sockets shows only when one is made.
    if any(Path("/usr/lib").glob(_AF_XDP_DRIVER)):
        return OK, "in the kernel and in DPDK", ""
    return WARN, "in the kernel, not in DPDK", f"{install_hint('librte-meta-net')} (DPDK's drivers)"


def _vduse() -> Finding:
    lacking = lacks_vduse()
    if lacking is None:  # whether OVS can serve VDUSE depends on its DPDK
        return OK, "in the kernel, with virtio_vdpa", ""
    seen, _, advice = lacking.partition(": ")
    return MISSING, seen, f"{advice}; only pods of kind vduse need it"


def _iperf3(streams: StreamsSpec) -> Finding:
    try:
        iperf3 = find_iperf3(streams)
    except TestbedError as error:
        advice = f"{install_hint('iperf3')} (for {PROGRAMS['iperf3'].lost})"
        if streams.path is not None:
            return MISSING, error.message, f"write its path as 'streams.path', or {advice}"
        return MISSING, "not installed", advice
    return OK, f"{iperf3.version}, {iperf3.threads}", ""


def _optional(program: str, *other_names: str) -> Finding:
    path = next(filter(None, (find(program), *map(shutil.which, other_names))), None)
    if path is not None:
        return OK, path, ""
    return MISSING, "not installed", f"{install_hint(program)} (lost: {PROGRAMS[program].lost})"


def _others() -> Finding:
    absent = [name for name, program in PROGRAMS.items() if program.use in SETUP_USES and find(name) is None]
    if absent:
        return MISSING, f"no {', '.join(absent)}", f"{install_hint(*absent)} (or make setup)"
    return OK, "all installed", ""


# What a testbed file names: a lab's NICs, CPUs, hugepages and system OVS; the nodes' OVS and tuning.


def lab_checks(testbed: Testbed) -> list[Check]:
    """Check all that the file names, without starting or changing anything; cables are checked when measuring."""
    found = [
        _port(port, f"port {port.name}", testbed, pmds=True)
        for port in ports_here(testbed)
        if port.kind != "vhost-user"
    ]
    for number, device in zip(testbed.generator.ports, testbed.generator.devices, strict=False):
        if is_pci(device):
            port = DutPort(f"generator.{number}", "pci", pci=device)
        else:
            port = DutPort(f"generator.{number}", "interface", interface=device)
        found.append(_port(port, f"generator port {number}", testbed))
    found += [_set_up(nic, testbed) for nic in testbed.nics]
    if found:
        found.append(Check("polling CPUs", *_isolated(testbed)))
    if testbed.ovs.instance == "system":
        found.append(Check("the system's OVS", *_system(testbed), needed=True))
    return found


def _set_up(nic: NicSpec, testbed: Testbed) -> Check:
    """What the run does to a NIC before it measures, and why it cannot."""
    device = PciBus().device(nic.pci)
    state_now = "absent" if device is None else f"driver {device.driver or 'none'}, {device.sriov_numvfs or 0} VFs"
    shown = f"{state_now}; the run does, and undoes at its end: {nic}"
    problem = None if is_to_be_made(nic.pci, testbed.nics) else why_not_set_up(nic, PciBus())
    state = CheckState.OK if problem is None else CheckState.MISSING
    return Check(f"set-up of {nic.pci}", state, shown, problem or "", needed=problem is not None)


def _port(port: DutPort, name: str, testbed: Testbed, *, pmds: bool = False) -> Check:
    """``pmds``: the testbed's PMDs serve the port, not the generator."""
    nic = read_nic(port)
    seen = _seen(port, nic)
    problem = _absent(port, name, testbed)
    if problem:
        return Check(name, CheckState.MISSING, seen, problem, needed=True)
    nodes = {cpu.node for cpu in read_cpus(testbed.cpus.pmd)} if pmds else set()
    if nic.numa_node is not None and nodes and nic.numa_node not in nodes:
        advice = (
            f"it is on NUMA node {nic.numa_node}, the PMDs are on {', '.join(map(str, nodes))}: give them CPUs there"
        )
        return Check(name, CheckState.WARN, seen, advice)
    return Check(name, CheckState.OK, seen)


def _seen(port: DutPort, nic: NicFacts) -> str:
    known = nic.known()
    parts = list(dict.fromkeys(str(known[name]) for name in ("model", "driver", "dpdk_driver") if name in known))
    parts += [f"firmware {nic.firmware}"] if nic.firmware else []
    parts += [f"{nic.speed_mbps / 1000:g} Gbit/s"] if nic.speed_mbps else []
    parts += [f"link {nic.link}"] if nic.link else []
    parts += [f"NUMA {nic.numa_node}"] if nic.numa_node is not None else []
    there = interface_exists(port.interface) if port.interface is not None else read_device(port.pci or "") is not None
    return f"{port.pci or port.interface}: {', '.join(parts) or ('nothing known' if there else 'absent')}"


def _absent(port: DutPort, name: str, testbed: Testbed) -> str:
    """Why a port cannot be used at all; "" if it can."""
    try:
        if port.pci is not None:
            check_dpdk_device(port.pci, name, "", testbed.nics)
        else:
            check_free(port.interface or "", name, "")
    except (ConfigError, TestbedError) as error:
        return error.message
    return ""


def _isolated(testbed: Testbed) -> Finding:
    polling = sorted({*testbed.cpus.pmd, *testbed.cpus.generator})
    open_to_all = [cpu for cpu in polling if cpu not in isolated_cpus()]
    seen = f"PMD {_listed(testbed.cpus.pmd)}; generator {_listed(testbed.cpus.generator)}"
    if not open_to_all:
        return CheckState.OK, f"{seen}; all isolated", ""
    numbers = _listed(open_to_all)
    return CheckState.WARN, seen, f"not isolated: boot with isolcpus={numbers} nohz_full={numbers}"


def _system(testbed: Testbed) -> Finding:
    try:
        sockets = find_system(testbed.ovs.run_dir)
        with closing(Unixctl(sockets.control, "ovs-vswitchd")) as control:
            version = control.call("version").splitlines()[0]
            queues = running_facts(control.call("dpif-netdev/pmd-rxq-show"), {})["rxq_to_pmd"]
    except TestbedError as error:
        return CheckState.MISSING, testbed.ovs.run_dir or "/run/openvswitch", error.message
    polled = ", ".join(f"{queue} on CPU {cpu}" for queue, cpu in queues.items()) or "no queue is polled"
    return CheckState.OK, f"{version} in {sockets.directory}; {polled}", ""


def _listed(cpus: Sequence[int]) -> str:
    return ",".join(map(str, cpus)) or "planned"


def node_checks(testbed: Testbed) -> list[Check]:
    return [_node(testbed, node) for node in testbed.nodes]


def _node(testbed: Testbed, node: NodeSpec) -> Check:
    name, _, described = f"node {node}".partition(": ")
    dut = dut_of_node(testbed, TESTBED_DUT, node.name)
    datapath = dut.kind or testbed.ovs.datapath
    try:
        if node.host is not None:
            facts = NODE_HOSTS.part("ssh")(testbed).look_at(node)
            seen = f"nfvperf {facts['nfvperf']}, Open vSwitch {facts['ovs']}, datapath {facts['datapath']}"
            return Check(name, CheckState.OK, f"{seen}; {described}")
        binaries = locate(ovs_for_dut(testbed.ovs, dut).prefix, dpdk=datapath == "dpdk")
    except NfvperfError as error:
        return Check(name, CheckState.MISSING, described, str(error), needed=True)
    lacking = lacks_kernel_module() if datapath == "system" else node.tuning.unknown_to(binaries.major_minor)
    if lacking is not None:
        return Check(name, CheckState.MISSING, described, lacking, needed=True)
    return Check(name, CheckState.OK, f"Open vSwitch {binaries.version}, datapath {datapath}; {described}")


# How far apart the CPUs of generator and DUT are: some milliseconds, on CPUs that no run uses.


def distance_check(testbed: Testbed | None, known: Callable[[Testbed], Sequence[float]]) -> Check:
    """Measure how far the PMDs' and VNFs' CPUs are from the generator's, or say why that was not measured.

    ``testbed`` None: the default one of this machine. ``known``: round trips, ns, that earlier runs on a testbed's
    CPUs observed.
    """
    try:
        testbed = discover_testbed() if testbed is None else complete_testbed(testbed)
        if testbed.generator.engine != "embedded" or is_lab(testbed):
            return Check(_DISTANCE, OK, "not needed: generator and DUT share no rings")
        with ExitStack() as stack:
            return _DistanceCheck(testbed, find_bands(known(testbed)), stack).check()
    except NfvperfError as error:
        return Check(_DISTANCE, WARN, "not measured", str(error))


class _DistanceCheck:
    """A generator that runs on locked CPUs as long as ``stack`` is open."""

    def __init__(self, testbed: Testbed, bands: Bands | None, stack: ExitStack) -> None:
        self._cpus, self._bands, self._stack = testbed.cpus, bands, stack
        self._places = read_cpu_topology()
        program = build.find()
        self._journal = stack.enter_context(closing(open_journal()))
        self._polling = {*self._cpus.pmd, *self._cpus.generator, *self._cpus.vnf}
        stack.enter_context(MeasurementLock(self._polling, self._journal.tag))
        self._generator = stack.enter_context(closing(start_generator(self._journal, program, "doctor", self._cpus, 0)))

    def check(self) -> Check:
        cpus = self._cpus
        distances = self._generator.distances((*cpus.pmd, *cpus.vnf))
        measured = pairs(distances, self._bands, self._places)
        keys = dict.fromkeys(cpus.vnf, "cpus.vnf") | dict.fromkeys(cpus.pmd, "cpus.pmd")
        missing = [distance for distance in distances if distance.round_trip_ns is None]
        texts = [describe_distances(measured), *map(_missing_text, missing), bands_text(self._bands)]
        todo = [cpus_to_write(self._choices(measured), keys)]
        if missing:
            rights = "" if all(distance.preempted for distance in missing) else ", with CAP_SYS_NICE or RLIMIT_RTPRIO"
            busy = cpu_list(sorted({distance.other for distance in missing}))
            todo.append(f"see what runs on CPU {busy}, and look again{rights}")
        state = WARN if any(todo) else OK
        return Check(_DISTANCE, state, "; ".join(filter(None, texts)), ". ".join(filter(None, todo)))

    def _choices(self, measured: Sequence[CpuPair]) -> list[Choice]:
        """PMDs choose first: they may take a VNF's CPU."""
        pmds, vnfs = ([pair for pair in measured if pair.other in owned] for owned in (self._cpus.pmd, self._cpus.vnf))
        if not any(pair.is_far for pair in measured):
            return []
        free = self._free_cpus()
        choices = closer_cpus(
            [pair for pair in pmds if pair.is_far], [*free, *(pair for pair in vnfs if not pair.is_far)]
        )
        given = {better.other for _, better in choices if better is not None}
        left = [pair for pair in free if pair.other not in given]
        return [*choices, *closer_cpus([pair for pair in vnfs if pair.is_far], left)]

    def _free_cpus(self) -> tuple[CpuPair, ...]:
        """Measure CPUs without an owner, if they can be locked and a thread can run there."""
        owned = {*self._polling, *self._cpus.housekeeping}
        locked = []
        for cpu in worth_trying(self._places.values(), self._cpus.generator, owned):
            with suppress(TestbedError):  # another run measures there
                self._stack.enter_context(MeasurementLock({cpu}, self._journal.tag))
                locked.append(cpu)
        try:
            return pairs(self._generator.distances(locked), self._bands, self._places)
        except GeneratorError:
            return ()


def _missing_text(distance: Distance) -> str:
    right = "" if distance.preempted else ", and there is no right to a real-time priority, for which it would give way"
    return f"CPU {distance.cpu} and CPU {distance.other} were not measured: CPU {distance.other} was in use{right}"
