"""S1 as OpenStack has it: a VM on an OVN provider network, whose address ovn-bgp-agent has FRR announce.

::

    BIRD -- br-bgp -- FRR and the kernel's routes -- br-ex -- br-int -- VM
                      (the namespace of the private OVS)
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pytest_nfvperf.model.routing.bgp import SpeakerConfig
from pytest_nfvperf.model.routing.logical_network import INTEGRATION_BRIDGE, Localnet, LogicalPort, LogicalSwitch
from pytest_nfvperf.model.scenarios.bgp_path import BgpPathPlan
from pytest_nfvperf.model.topology.compose import compose
from pytest_nfvperf.model.topology.parts import namespace
from pytest_nfvperf.model.topology.topology import Topology

PROVIDER, UPLINK = "br-ex", "br-bgp"
VM, BIRD = "vm", "bird"
VM_PORT = "vm"
"""The VM's logical port."""

_NETWORK = "physnet1"
_SWITCH = "provider"
_LOCALNET = "provnet-provider"  # the agent looks for patch ports called patch-provnet-...
_VM_MAC = "02:4e:46:b9:00:10"


def _everything_by_default() -> BgpPathPlan:
    """The neighbour is the way to everything else, so that br-ex answers for the VM's gateway (proxy ARP)."""
    return BgpPathPlan(clients="0.0.0.0/0")


@dataclass(frozen=True, slots=True)
class OvnPathPlan:
    """The parameters of the path. ``bgp``: addresses, AS numbers and timers. ``gateway``: the VM's, unused."""

    bgp: BgpPathPlan = field(default_factory=_everything_by_default)
    gateway: str = "172.16.101.1"

    @property
    def vm_prefix(self) -> str:
        """The prefix that FRR announces for the VM."""
        return f"{self.bgp.vm}/32"

    @property
    def mappings(self) -> dict[str, str]:
        """Bridges by physical networks."""
        return {_NETWORK: PROVIDER}

    def topology(self) -> Topology:
        """The three bridges, the VM on br-int, BIRD on br-bgp. FRR is in the namespace of the OVS."""
        length = self.bgp.provider.partition("/")[2]
        to_vm = ((self.bgp.provider, self.bgp.frr_address),)  # BIRD's routes stay in BIRD
        return compose(
            "ovn-path",
            PROVIDER,
            UPLINK,
            INTEGRATION_BRIDGE,
            namespace(VM, INTEGRATION_BRIDGE, f"{self.bgp.vm}/{length}", gateway=self.gateway, mac=_VM_MAC),
            namespace(BIRD, UPLINK, self.bgp.bird, routes=to_vm),
        )

    def switch(self, chassis: str) -> LogicalSwitch:
        """The provider network, with what Neutron would note of the VM's port for the agent to read."""
        length = self.bgp.provider.partition("/")[2]
        noted = {
            "neutron:network_name": _SWITCH,
            "neutron:cidrs": f"{self.bgp.vm}/{length}",
            "neutron:host_id": chassis,
        }
        port = LogicalPort(VM_PORT, f"{VM}-eth0", _VM_MAC, (self.bgp.vm,), noted, {"requested-chassis": chassis})
        return LogicalSwitch(_SWITCH, (port,), Localnet(_LOCALNET, _NETWORK, PROVIDER))

    def frr_config(self) -> SpeakerConfig:
        """FRR, which announces nothing by itself."""
        return self.bgp.frr_config().announcing(())
