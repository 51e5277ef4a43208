"""A private OVN over namespaces on br-int, for tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pytest_nfvperf.adapters.ovs.built_topology import BuiltOvsTopology
from pytest_nfvperf.adapters.ovs.installation import locate
from pytest_nfvperf.adapters.ovs.ovs_datapath import OvsDatapath
from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.features.ovn.model import LogicalPort, LogicalSwitch
from pytest_nfvperf.features.ovn.private_ovn import PrivateOvn, lacks_ovn
from pytest_nfvperf.model.topology.compose import compose
from pytest_nfvperf.model.topology.parts import namespace
from pytest_nfvperf.model.topology.topology import Topology

needs_ovn = pytest.mark.skipif(lacks_ovn() is not None, reason=str(lacks_ovn()))

HOSTS = {"left": ("02:00:00:00:01:01", "10.1.0.1"), "right": ("02:00:00:00:01:02", "10.1.0.2")}


def two_hosts() -> Topology:
    """Two namespaces on br-int."""
    return compose(
        "logical-switch",
        *(namespace(name, "br-int", f"{address}/24", mac=mac) for name, (mac, address) in HOSTS.items()),
    )


def switch_of_hosts() -> LogicalSwitch:
    """A port for each host, as OVN knows it."""
    ports = (LogicalPort(f"lp-{name}", f"{name}-eth0", mac, (address,)) for name, (mac, address) in HOSTS.items())
    return LogicalSwitch("ls0", tuple(ports))


@contextmanager
def ovn_over(journal: Journal, ovs: OvsDatapath, topology: Topology) -> Iterator[tuple[BuiltOvsTopology, PrivateOvn]]:
    """The topology, built and ready, with OVN over it; both go at the end."""
    built = ovs.build(topology)
    try:
        built.wait_ready(5)
        ovn = PrivateOvn(journal, built, locate())
        try:
            yield built, ovn
        finally:
            ovn.close()
    finally:
        built.close()
