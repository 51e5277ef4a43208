"""ovn-bgp-agent in an environment of its own, and what OVN needs of this machine."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pytest_nfvperf.adapters.doctor.check import Check, CheckState
from pytest_nfvperf.adapters.generators.embedded.build import default_cache_dir
from pytest_nfvperf.adapters.journal.journal import Journal
from pytest_nfvperf.adapters.net.borrowed import remove_link
from pytest_nfvperf.adapters.net.threads import inside
from pytest_nfvperf.adapters.ovs.system_ovs import RunningOvs
from pytest_nfvperf.adapters.process import private_mounts
from pytest_nfvperf.adapters.process.process import run, wait_until
from pytest_nfvperf.features.ovn.private_ovn import lacks_ovn, locate_ovn
from pytest_nfvperf.features.routing.daemons import Daemon, RoutingDaemons
from pytest_nfvperf.model.errors import DeadlineError, TestbedError
from pytest_nfvperf.model.testbed.testbed import Testbed

# Finding ovn-bgp-agent. Its many dependencies stay in a virtual environment of its own.

VARIABLE = "NFVPERF_OVN_BGP_AGENT"
"""Names the environment's directory where it is not in the cache."""

REQUIREMENT = "ovn-bgp-agent==4.0.0"
"""The newest tried in which exposing_method underlay can work: in 3.0.1 and from 5.0.0 to 7.0.0 the routing tables of
bridges are noted in a dictionary that is thrown away (``routing_tables or {}``): a port ends in ``KeyError: 'br-ex'``.
"""

_PROGRAM = "bin/ovn-bgp-agent"


def agent_directory() -> Path:
    """The environment's directory, whether it is there or not."""
    named = os.environ.get(VARIABLE)
    return Path(named) if named else default_cache_dir() / REQUIREMENT.replace("==", "-")


def find_agent() -> Path:
    """The environment's directory.

    Raises:
        TestbedError: the agent is not there; says how to install it.
    """
    directory = agent_directory()
    if not os.access(directory / _PROGRAM, os.X_OK):
        raise TestbedError(
            f"ovn-bgp-agent is not installed (no {directory / _PROGRAM}): python3 -m venv {directory} && "
            f"{directory}/bin/pip install {REQUIREMENT}; {VARIABLE} names another directory"
        )
    return directory


def agent_version(directory: Path) -> str:
    """Of the agent in this environment, as pip has it."""
    for info in directory.glob("lib/python3*/site-packages/ovn_bgp_agent-*.dist-info"):
        return info.name.removeprefix("ovn_bgp_agent-").removesuffix(".dist-info")
    return "unknown"


# The agent (OpenStack, PyPI) with its northbound driver.
#
# It watches OVN's northbound database. For each address of a logical port on a provider network it does two things:
# - It adds the address to a dummy interface in a VRF, whose connected routes FRR leaks into the default table and
#   announces.
# - It adds a rule that leads packets for the address to the provider bridge.
#
# It works in the network namespace of the private OVS, so FRR has to be there, too. Its paths are fixed: /run/frr
# (vtysh) and /etc/iproute2/rt_tables (its tables). So it gets private copies of both, and no other /run.

_MAIN = Path(__file__).with_name("agent_main.py")
_RUN = Path("/run")
_ROUTING_TABLES = Path("/etc/iproute2/rt_tables")
_VRF, _NIC = "bgp-vrf", "bgp-nic"
_STARTED = "Running reconciliation loop to ensure frr configuration is in place"
_START_DEADLINE_S = 120.0  # it imports a thousand modules: 2 s, and 20 to 50 s in a guest without KVM
_KERNEL_NEEDS = {"vrf": ("type", "vrf", "table", "10"), "dummy": ("type", "dummy")}


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """What the agent is told.

    Attributes:
        asn: of FRR's router.
        router_id: of FRR's router in the VRF.
        northbound: how OVN's northbound database is connected to.
        frr: the directory of FRR's vty sockets.
        exposing_method: of nb_ovn_bgp_driver; only "underlay" needs neither a second OVN nor EVPN.
        reconcile_s: seconds between the agent's own looks at everything.
    """

    asn: int
    router_id: str
    northbound: str
    frr: Path
    exposing_method: str = "underlay"
    reconcile_s: int = 300

    def text(self, database: Path) -> str:
        """The agent's configuration file; ``database``: OVS's socket."""
        return "\n".join(
            [
                "[DEFAULT]",
                "debug = True",
                "driver = nb_ovn_bgp_driver",
                f"exposing_method = {self.exposing_method}",
                f"bgp_AS = {self.asn}",
                f"bgp_router_id = {self.router_id}",
                f"bgp_vrf = {_VRF}",
                f"bgp_nic = {_NIC}",
                f"ovsdb_connection = unix:{database}",
                f"reconcile_interval = {self.reconcile_s}",
                f"frr_reconcile_interval = {self.reconcile_s}",
                "[ovn]",
                f"ovn_nb_connection = {self.northbound}",
                "",
            ]
        )


def lacks_agent() -> str | None:
    """What this machine lacks for the agent, and what to do about it; None when it has all.

    Asks the kernel for the devices in a namespace of the moment, which may load their modules.
    """
    lacking = lacks_ovn()
    if lacking is not None:
        return lacking
    try:
        find_agent()
    except TestbedError as error:
        return error.message
    return lacks_devices()


def lacks_devices() -> str | None:
    """Which kinds of interfaces the kernel does not make, with its words; None when it makes all."""
    if os.geteuid() != 0:
        return "ovn-bgp-agent needs root: it makes interfaces, rules and routes"
    for kind, words in _KERNEL_NEEDS.items():
        try:
            run(["unshare", "--net", "ip", "link", "add", "probe", *words])
        except TestbedError as error:
            said = error.evidence.get("stderr", "").strip() or error.message
            return (
                f"ovn-bgp-agent needs {kind} interfaces, which this kernel ({os.uname().release}) does not make: "
                f"ip link add type {kind}: {said}; boot one that has the module {kind}, or run `make test-kernel`"
            )
    return None


class OvnBgpAgent:
    """A running agent. ``close`` ends it and takes its interfaces away."""

    def __init__(self, journal: Journal, instance: RunningOvs, config: AgentConfig, role: str = "agent") -> None:
        """Start it and wait until it has looked at everything once.

        Raises:
            TestbedError: it is not installed, the kernel lacks what it needs, or it ended, with its log.
            DeadlineError: it does not become ready; shows its log.
        """
        environment = find_agent()
        self._instance = instance
        self._daemons = RoutingDaemons(
            journal,
            instance.home.name,
            role,
            cpus=instance.options.housekeeping_cpus,
            nice=None,
            env={"OVS_RUNDIR": str(instance.sockets)},  # of ovs-vsctl(8) and ovs-ofctl(8), which the agent runs
        )
        try:
            self._let_the_namespace_route()
            self._daemons.start(self._daemon(journal, environment, config))
            self._await_started()
        except BaseException:
            self.close()
            raise

    def _let_the_namespace_route(self) -> None:
        """A private OVS's namespace has IPv6 off, and is no router; the agent takes both for granted."""
        settings = ("net.ipv4.ip_forward=1", "net.ipv6.conf.all.disable_ipv6=0", "net.ipv6.conf.default.disable_ipv6=0")
        run(["nsenter", f"--net={self._instance.home.path}", "sysctl", "-q", "-w", *settings])

    def _daemon(self, journal: Journal, environment: Path, config: AgentConfig) -> Daemon:
        directory = self._daemons.directory
        file = directory / "agent.conf"
        file.write_text(config.text(self._instance.database), encoding="utf-8")
        argv = (str(environment / "bin/python"), str(_MAIN), "--config-file", str(file))
        return Daemon("ovn-bgp-agent", private_mounts.with_binds(_view(directory, journal.directory, config.frr), argv))

    def _await_started(self) -> None:
        log = self._daemons.directory / "ovn-bgp-agent.log"

        def started() -> bool:
            self.check()
            return _STARTED in log.read_text(encoding="utf-8", errors="replace")

        try:
            wait_until(started, "ovn-bgp-agent to have started", _START_DEADLINE_S, interval_s=0.1)
        except DeadlineError as error:
            error.evidence.update(self.logs())
            raise

    def check(self) -> None:
        self._daemons.check()

    def logs(self) -> Mapping[str, str]:
        return self._daemons.logs()

    def close(self) -> None:
        self._daemons.close()
        if self._instance.home.path.exists():
            for name in (_NIC, _VRF):
                inside(self._instance.home.path, partial(remove_link, name))


def _view(directory: Path, run_directory: Path, frr: Path) -> dict[str, str]:
    """What the agent sees elsewhere, targets by sources: a /run with FRR's sockets and this run's directory."""
    own_run = directory / "run"
    tables = directory / "rt_tables"
    tables.write_text(_ROUTING_TABLES.read_text(encoding="utf-8"), encoding="utf-8")
    binds = {str(frr): str(own_run / "frr")}
    if run_directory.is_relative_to(_RUN):
        binds[str(run_directory)] = str(own_run / run_directory.relative_to(_RUN))
    for target in binds.values():
        Path(target).mkdir(parents=True)
    return {**binds, str(tables): str(_ROUTING_TABLES), str(own_run): str(_RUN)}


# Checks for doctor.


def ovn_checks(testbed: Testbed | None = None) -> list[Check]:  # noqa: ARG001 - of any testbed
    """OVN, and the agent with what it needs of the kernel."""
    return [_ovn(), _agent()]


def _ovn() -> Check:
    try:
        found = locate_ovn()
    except TestbedError as error:
        return Check("OVN", CheckState.MISSING, "not installed", f"{error.message} (for the fixture private_ovn)")
    return Check("OVN", CheckState.OK, f"{found.version} ({found.northd})")


def _agent() -> Check:
    name = "ovn-bgp-agent"
    try:
        directory = find_agent()
    except TestbedError as error:
        return Check(name, CheckState.MISSING, "not installed", f"{error.message} (for the fixture ovn_bgp_agent)")
    lacking = lacks_devices()
    seen = f"{agent_version(directory)} ({directory})"
    if lacking is not None:
        return Check(name, CheckState.WARN, f"{seen}, cannot run here", lacking)
    return Check(name, CheckState.OK, seen)
