"""ovn-bgp-agent (OpenStack, PyPI): its own virtual environment, its process, and doctor's checks for OVN."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

from pytest_nfvperf.adapters.generators.embedded.build import default_cache_dir
from pytest_nfvperf.adapters.machine.machine_checks import Check, CheckState
from pytest_nfvperf.adapters.net.borrowed_interfaces import remove_link
from pytest_nfvperf.adapters.net.threads import inside
from pytest_nfvperf.adapters.ovs.private_ovs import RunningOvs
from pytest_nfvperf.adapters.process import private_mounts
from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.adapters.process.process import run, wait_until
from pytest_nfvperf.features.ovn.private_ovn import lacks_ovn, locate_ovn, ovs_clients
from pytest_nfvperf.features.routing.frr import FrrSpeaker
from pytest_nfvperf.model.errors import TestbedError, why_refused
from pytest_nfvperf.model.testbed.testbed import Testbed

VARIABLE = "NFVPERF_OVN_BGP_AGENT"
"""Names the directory of the agent's virtual environment where it is not in the cache."""

REQUIREMENT = "ovn-bgp-agent==4.0.0"
"""The newest version tried in which exposing_method underlay can work. 3.0.1, and 5.0.0 to 7.0.0, store the routing
tables of bridges in a dictionary that they discard (``routing_tables or {}``): a port ends in ``KeyError: 'br-ex'``.
"""

_PROGRAM = "bin/ovn-bgp-agent"
_MAIN = Path(__file__).with_name("agent_main.py")
_RUN = Path("/run")
_ROUTING_TABLES = Path("/etc/iproute2/rt_tables")
_VRF, _NIC = "bgp-vrf", "bgp-nic"
_RECONCILE_S = 300  # between the agent's own full reconciliations
_STARTED = "Running reconciliation loop to ensure frr configuration is in place"
_START_DEADLINE_S = 120.0  # it imports a thousand modules: 2 s, and 20 to 50 s in a guest without KVM
_KERNEL_NEEDS = {"vrf": ("type", "vrf", "table", "10"), "dummy": ("type", "dummy")}


def find_agent() -> Path:
    """The directory of the agent's virtual environment; TestbedError says how to install one that is missing."""
    named = os.environ.get(VARIABLE)
    directory = Path(named) if named else default_cache_dir() / REQUIREMENT.replace("==", "-")
    if not os.access(directory / _PROGRAM, os.X_OK):
        raise TestbedError(
            f"ovn-bgp-agent is not installed (no {directory / _PROGRAM}): python3 -m venv {directory} && "
            f"{directory}/bin/pip install {REQUIREMENT}; {VARIABLE} names another directory"
        )
    return directory


def agent_config(asn: int, router_id: str, northbound: str, database: Path) -> str:
    """The agent's configuration file.

    ``asn``, ``router_id``: of FRR's router. ``northbound``: of OVN (ovsdb(7)). ``database``: OVS's socket.
    """
    # Only exposing_method "underlay" needs neither a second OVN nor EVPN.
    return f"""[DEFAULT]
debug = True
driver = nb_ovn_bgp_driver
exposing_method = underlay
bgp_AS = {asn}
bgp_router_id = {router_id}
bgp_vrf = {_VRF}
bgp_nic = {_NIC}
ovsdb_connection = unix:{database}
reconcile_interval = {_RECONCILE_S}
frr_reconcile_interval = {_RECONCILE_S}
[ovn]
ovn_nb_connection = {northbound}
"""


def lacks_agent() -> str | None:
    """What this machine lacks for the agent, and what to do about it; None if it has all."""
    return lacks_ovn() or why_refused(find_agent) or lacks_devices()


def lacks_devices() -> str | None:
    """Which kind of interface the kernel does not make, with its words; None if it makes all.

    Tries to make them in a temporary namespace, which may load kernel modules.
    """
    if os.geteuid() != 0:
        return "ovn-bgp-agent needs root: it makes interfaces, rules and routes"
    for kind, words in _KERNEL_NEEDS.items():
        try:
            run(["unshare", "--net", "ip", "link", "add", "probe", *words])
        except TestbedError as error:
            reason = error.evidence.get("stderr", "").strip() or error.message
            return (
                f"ovn-bgp-agent needs {kind} interfaces, which this kernel ({os.uname().release}) does not make: "
                f"ip link add type {kind}: {reason}; boot one that has the module {kind}, or run `make test-kernel`"
            )
    return None


class OvnBgpAgent:
    """A running agent with its northbound driver. ``close`` ends it and removes its interfaces.

    It watches OVN's northbound database. For each address of a logical port on a provider network it does two things:
    - It adds the address to a dummy interface in a VRF, whose connected routes FRR leaks into the default table and
      announces.
    - It adds a rule that leads packets for the address to the provider bridge.

    It works in the network namespace of the private OVS, so FRR must be there, too. Its paths are fixed: /run/frr
    (vtysh) and /etc/iproute2/rt_tables (its tables). So it gets private copies of both, and no other /run.
    """

    def __init__(self, journal: Journal, instance: RunningOvs, northbound: str, frr: FrrSpeaker) -> None:
        """Start it and wait until it has reconciled everything once.

        ``northbound``: connection to OVN's northbound database (ovsdb(7)). ``frr``: the agent configures it.

        Raises:
            TestbedError: it is not installed, the kernel lacks what it needs, or it ended, with its log.
            DeadlineError: it does not become ready; shows its log.
        """
        environment = find_agent()
        self._instance = instance
        self._daemons = ovs_clients(journal, instance, "agent")  # it runs ovs-vsctl(8) and ovs-ofctl(8)
        self.check, self.logs = self._daemons.check, self._daemons.logs
        directory = self._daemons.directory
        file, log = directory / "agent.conf", directory / "ovn-bgp-agent.log"
        argv = (str(environment / "bin/python"), str(_MAIN), "--config-file", str(file))
        # The agent expects IPv6 and a router; a private OVS's namespace has both off.
        settings = ("net.ipv4.ip_forward=1", "net.ipv6.conf.all.disable_ipv6=0", "net.ipv6.conf.default.disable_ipv6=0")

        def started() -> bool:
            self.check()
            return _STARTED in log.read_text(encoding="utf-8", errors="replace")

        try:
            run(["nsenter", f"--net={instance.home.path}", "sysctl", "-q", "-w", *settings])
            text = agent_config(frr.config.asn, frr.config.router_id, northbound, instance.database)
            file.write_text(text, encoding="utf-8")
            binds = _binds(directory, journal.directory, frr.directory)
            self._daemons.run_daemon("ovn-bgp-agent", private_mounts.with_binds(binds, argv))
            with self._daemons.explaining():
                wait_until(started, "ovn-bgp-agent to have started", _START_DEADLINE_S, interval_s=0.1)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._daemons.close()
        if self._instance.home.path.exists():
            for name in (_NIC, _VRF):
                inside(self._instance.home.path, partial(remove_link, name))


def _binds(directory: Path, run_directory: Path, frr: Path) -> dict[str, str]:
    """Bind mounts, targets by source: a /run with FRR's sockets and this run's directory, and a rt_tables."""
    own_run = directory / "run"
    tables = directory / "rt_tables"
    tables.write_text(_ROUTING_TABLES.read_text(encoding="utf-8"), encoding="utf-8")
    binds = {str(frr): str(own_run / "frr")}
    if run_directory.is_relative_to(_RUN):
        binds[str(run_directory)] = str(own_run / run_directory.relative_to(_RUN))
    for target in binds.values():
        Path(target).mkdir(parents=True)
    return {**binds, str(tables): str(_ROUTING_TABLES), str(own_run): str(_RUN)}


def ovn_checks(testbed: Testbed | None = None) -> list[Check]:  # noqa: ARG001 - the same for any testbed
    """Doctor's checks: OVN, and the agent with what it needs of the kernel."""
    try:
        binaries = locate_ovn()
        ovn = Check("OVN", CheckState.OK, f"{binaries.version} ({binaries.northd})")
    except TestbedError as error:
        ovn = Check("OVN", CheckState.MISSING, "not installed", f"{error.message} (for the fixture private_ovn)")
    name = "ovn-bgp-agent"
    try:
        directory = find_agent()
    except TestbedError as error:
        hint = f"{error.message} (for the fixture ovn_bgp_agent)"
        return [ovn, Check(name, CheckState.MISSING, "not installed", hint)]
    infos = directory.glob("lib/python3*/site-packages/ovn_bgp_agent-*.dist-info")  # pip's record of the version
    versions = [info.name.removeprefix("ovn_bgp_agent-").removesuffix(".dist-info") for info in infos]
    installed = f"{versions[0] if versions else 'unknown'} ({directory})"
    lacking = lacks_devices()
    if lacking is not None:
        return [ovn, Check(name, CheckState.WARN, f"{installed}, cannot run here", lacking)]
    return [ovn, Check(name, CheckState.OK, installed)]
