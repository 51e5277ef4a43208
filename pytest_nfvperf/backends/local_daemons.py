"""Routing daemons and OVN on this machine, over topologies that are deployed on its Open vSwitch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pytest_nfvperf.adapters.journal.journal import Journal
from pytest_nfvperf.adapters.ovn.bgp_agent import lacks_agent
from pytest_nfvperf.adapters.ovn.ovn_binaries import lacks_ovn
from pytest_nfvperf.adapters.ovn.ovn_path_daemons import start_ovn_path
from pytest_nfvperf.adapters.ovn.private_ovn import PrivateOvn
from pytest_nfvperf.adapters.ovs.instance.ovs_binaries import locate
from pytest_nfvperf.adapters.ovs.topology.built_topology import BuiltOvsTopology
from pytest_nfvperf.adapters.routing.bgp_path_daemons import lacks_daemons, start_bgp
from pytest_nfvperf.adapters.routing.lab.lab_speaker import LabBgpSpeaker
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.routing.logical_network import LogicalSwitch
from pytest_nfvperf.model.scenarios.bgp_path import BgpPathPlan
from pytest_nfvperf.model.scenarios.ovn_path import OvnPathPlan
from pytest_nfvperf.model.testbed.testbed import LabSpeaker, OvsSpec
from pytest_nfvperf.ports.datapath import BuiltTopology
from pytest_nfvperf.ports.routing import AgentPath, BgpParts, BgpSpeaker, LogicalNetwork


class LocalBgp:
    """Fulfils ports.routing.BgpDaemons: FRR and BIRD of this machine.

    ``journal``: gives the run's, once the machine is taken.
    """

    def __init__(self, journal: Callable[[], Journal]) -> None:
        self._journal = journal

    def lacks(self) -> str | None:
        """FRR or BIRD, and how to install it; None when both are there."""
        return lacks_daemons()

    def start(self, built: BuiltTopology, plan: BgpPathPlan) -> BgpParts:
        """FRR and BIRD in the topology's namespaces, and the agent on its bridge."""
        return start_bgp(self._journal(), _on_ovs(built, "BGP's flows"), plan)

    def speaker(self, spec: LabSpeaker) -> BgpSpeaker:
        """By the sockets of a daemon that runs already."""
        return LabBgpSpeaker(self._journal(), spec)


class LocalOvn:
    """Fulfils ports.routing.OvnDaemons: OVN of this machine, over a private OVS.

    Args:
        journal: gives the run's, once the machine is taken.
        ovs: whose ovsdb-server serves OVN's databases.
    """

    def __init__(self, journal: Callable[[], Journal], ovs: OvsSpec) -> None:
        self._journal = journal
        self._ovs = ovs

    def lacks(self) -> str | None:
        """A private OVS, or OVN and how to install it; None when both are there."""
        return self._lacks_private_ovs() or lacks_ovn()

    def start(self, built: BuiltTopology, switches: Sequence[LogicalSwitch]) -> LogicalNetwork:
        """Databases, northd and a controller, and the switches in the northbound database."""
        localnets = [switch.localnet for switch in switches if switch.localnet is not None]
        mappings = {localnet.network: localnet.bridge for localnet in localnets}
        ovn = PrivateOvn(self._journal(), _on_ovs(built, "OVN"), locate(self._ovs.prefix), mappings=mappings)
        try:
            for switch in switches:
                ovn.add(switch)
        except BaseException:
            ovn.close()
            raise
        return ovn

    def lacks_agent(self) -> str | None:
        """A private OVS, OVN, the agent, FRR or BIRD, or devices of the kernel; None when all are there."""
        return self._lacks_private_ovs() or lacks_agent() or lacks_daemons()

    def start_agent(self, built: BuiltTopology, plan: OvnPathPlan) -> AgentPath:
        """OVN, FRR, BIRD and the agent in the namespace of the private OVS."""
        return start_ovn_path(self._journal(), _on_ovs(built, "ovn-bgp-agent"), locate(self._ovs.prefix), plan)

    def _lacks_private_ovs(self) -> str | None:
        if self._ovs.instance == "private":
            return None
        return "OVN runs on a private OVS only: it writes into OVS's own database"


def _on_ovs(built: BuiltTopology, who: str) -> BuiltOvsTopology:
    if not isinstance(built, BuiltOvsTopology):
        raise ConfigError(
            f"{who} needs Open vSwitch, and topology {built.topology.name!r} was built on another datapath"
        )
    return built
