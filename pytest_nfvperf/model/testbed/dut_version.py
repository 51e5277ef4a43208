"""Which OVS a test's Dut is about, and how many of them."""

from __future__ import annotations

from dataclasses import replace

from pytest_nfvperf.model.errors import UnavailableError
from pytest_nfvperf.model.testbed.testbed import Dut, OvsSpec
from pytest_nfvperf.model.topology.topology import Topology


def with_nodes(dut: Dut, topology: Topology) -> Dut:
    """The Dut that a topology needs: with its nodes."""
    return replace(dut, nodes=tuple(node.name for node in topology.nodes))


def ovs_of(ovs: OvsSpec, dut: Dut) -> OvsSpec:
    """How to get the OVS that a test's Dut names; the testbed's own where it names none.

    Raises:
        UnavailableError: the testbed has no version of this name, and what to do; or it uses the system's OVS.
    """
    if dut.version is None:
        return ovs
    if ovs.instance == "system":
        raise UnavailableError(
            f"the testbed's OVS is the system's, which has one version, not {dut.version!r}: write 'instance: private'"
        )
    found = next((version for version in ovs.versions if version.name == dut.version), None)
    if found is None:
        known = ", ".join(version.name for version in ovs.versions) or "none"
        raise UnavailableError(
            f"no version of Open vSwitch is called {dut.version!r} (named: {known}): give --nfv-ovs "
            f"{dut.version}=WHERE, or 'ovs: {{{dut.version}: WHERE}}' in the testbed file"
        )
    return replace(ovs, prefix=found.prefix, other_config=(*ovs.other_config, *found.settings))
