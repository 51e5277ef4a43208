"""What every Datapath keeps to: OVS with DPDK, without, on the kernel; Linux bridges; and the simulated one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from pytest_nfvperf.adapters.net.linux_bridge import BridgeDatapath
from pytest_nfvperf.adapters.ovs.built_topology import VhostConnector
from pytest_nfvperf.adapters.ovs.installation import lacks_kernel_module
from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.backends.simulated import SimulatedDatapath
from pytest_nfvperf.measure.clocks import VirtualClock
from pytest_nfvperf.model.topology.compose import bridge_chain
from pytest_nfvperf.plugin.datapath_contract import DatapathContract
from pytest_nfvperf.ports.datapath import BuiltTopology, Collector, Datapath
from tests.functional.ovs_support import needs_hugepages, needs_root, phy2phy, started, testpmd

NO_KERNEL_DATAPATH = lacks_kernel_module()
needs_module = pytest.mark.skipif(NO_KERNEL_DATAPATH is not None, reason=str(NO_KERNEL_DATAPATH))
REAL = [
    pytest.param("dpdk", marks=[needs_root, needs_hugepages]),
    pytest.param("netdev", marks=needs_root),
    pytest.param(
        "system", marks=[needs_root, pytest.mark.skipif(bool(NO_KERNEL_DATAPATH), reason=str(NO_KERNEL_DATAPATH))]
    ),
    pytest.param("linux-bridge", marks=needs_root),
]


CHAIN = bridge_chain(3, link="veth")


@pytest.fixture(scope="module", params=[*REAL, "simulated"])
def running_datapath(request: pytest.FixtureRequest, journal: Journal) -> Iterator[Datapath]:
    if request.param == "simulated":
        yield SimulatedDatapath(VirtualClock())
        return
    with running(journal, request.param, "contract") as real:
        yield real


@pytest.fixture
def datapath(running_datapath: Datapath) -> Datapath:
    return running_datapath


@contextmanager
def running(journal: Journal, kind: str, name: str) -> Iterator[Datapath]:
    if kind == "linux-bridge":
        bridges = BridgeDatapath(journal, name=name)
        yield bridges
        bridges.close()
    else:
        with started(journal, kind, name) as ovs:
            yield ovs


class TestContract(DatapathContract):
    """What third parties' datapaths keep to as well. Our own are closed below, each by itself."""

    topology = phy2phy()
    needs_far_ends = True
    test_closing_it_closes_what_stands_on_it = None

    @pytest.fixture
    def datapath(self, running_datapath: Datapath) -> Datapath:
        return running_datapath


def test_it_fits_the_port(datapath: Datapath) -> None:
    built: BuiltTopology = datapath.build(phy2phy())
    collectors: tuple[Collector, ...] = datapath.collectors()
    assert isinstance(collectors, tuple)
    built.close()


def test_it_says_what_it_is(datapath: Datapath) -> None:
    info = datapath.info()
    assert info.kind in {"dpdk", "netdev", "system", "linux-bridge"}
    assert info.version
    assert info.detail


@pytest.mark.parametrize("topology", [phy2phy(), CHAIN], ids=lambda topology: topology.name)
def test_every_port_of_the_topology_has_an_attachment(datapath: Datapath, topology: object) -> None:
    built = datapath.build(topology)  # type: ignore[arg-type]
    assert built.topology == topology
    attachments = built.attachments()
    assert list(attachments) == ["p0", "p1"]
    assert all(attachments.values())
    assert built.configuration()
    built.close()


def test_it_is_ready_once_the_far_ends_are_attached(datapath: Datapath, journal: Journal) -> None:
    built = datapath.build(phy2phy())
    with ExitStack() as stack:
        if any("virtio_user" in str(device) for device in built.attachments().values()):
            stack.enter_context(testpmd(journal, built, "io"))
        built.wait_ready(15)
    built.close()


def test_namespaces_have_names_under_run_netns(datapath: Datapath) -> None:
    built = datapath.build(bridge_chain(2, link="veth", ends="namespace"))
    built.wait_ready(10)
    names = [built.netns(name) for name in ("end0", "end1")]
    assert len(set(names)) == 2
    with pytest.raises(KeyError, match="has no namespace 'end2'"):
        built.netns("end2")
    built.close()
    assert not [name for name in names if (Path("/run/netns") / name).exists()]


@pytest.mark.parametrize("kind", REAL)
def test_closing_the_datapath_closes_what_stands_on_it(journal: Journal, kind: str) -> None:
    with running(journal, kind, "short") as datapath:
        built = datapath.build(phy2phy())
        datapath.close()
        datapath.close()
        built.close()
    assert not [thread for thread in threading.enumerate() if thread.name == VhostConnector.THREAD_NAME]
