"""What runs a VNF: what the topology says, else the testbed file, else what suits the number of CPUs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

import pytest

from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.backends import generator_side
from pytest_nfvperf.backends.local import LocalVnfs
from pytest_nfvperf.measure.vnf_processes import RunningVnfs, counts_between, plan_vnfs, ports_of, with_kinds
from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.model.testbed.testbed import CpuPlan
from pytest_nfvperf.model.topology.compose import pvvp
from pytest_nfvperf.model.topology.ports import VnfKind
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.topology.workloads import vm_chain
from pytest_nfvperf.model.traffic.trial import VnfCounts
from pytest_nfvperf.ports.datapath import BuiltTopology
from pytest_nfvperf.ports.generator import VnfMaker
from tests.sample_run import TESTBED


@dataclass
class Built:
    """A deployed topology, as far as VNFs are concerned."""

    topology: Topology
    device: str = "net_virtio_user,path=/run/x.sock,server=1"

    def attachments(self) -> dict[str, str]:
        return {port.name: self.device for port in self.topology.ports}


def deployment(topology: Topology, device: str = Built.device) -> BuiltTopology:
    return cast(BuiltTopology, Built(topology, device))


def vnfs(*cpus: int, kind: str | None = None) -> LocalVnfs:
    bed = replace(TESTBED, cpus=CpuPlan((0,), (1,), (2,), cpus), vnf_kind=kind)
    return LocalVnfs(cast(Journal, None), bed)


@pytest.fixture(autouse=True)
def _testpmd_is_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generator_side.shutil, "which", lambda program: f"/usr/bin/{program}")


@pytest.mark.parametrize(
    ("given", "topology", "kinds"),
    [
        (vnfs(), vm_chain(2), []),
        (vnfs(3), vm_chain(1), []),
        (vnfs(3, 4), vm_chain(1), ["testpmd"]),
        (vnfs(3, 4), pvvp(), ["testpmd", "testpmd"]),
        (vnfs(3, 4), vm_chain(3), []),
        (vnfs(kind="qemu"), vm_chain(1), ["qemu"]),
        (vnfs(3, 4, kind="loop"), vm_chain(2), []),
        (vnfs(3, 4, kind="loop"), vm_chain(1, kind="testpmd"), ["testpmd"]),
        (vnfs(3, 4), vm_chain(1, kind="loop"), []),
    ],
)
def test_who_says_it(given: LocalVnfs, topology: Topology, kinds: list[str]) -> None:
    assert [str(vnf.kind) for vnf in plan_vnfs(topology, deployment(topology), given)] == kinds


def test_ports_without_vhost_user_and_machines_without_testpmd_have_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = vm_chain(2)
    assert plan_vnfs(chain, deployment(chain, "net_af_packet,iface=x"), vnfs(3, 4)) == ()
    monkeypatch.setattr(generator_side.shutil, "which", lambda program: None)
    assert plan_vnfs(chain, deployment(chain), vnfs(3, 4)) == ()


def test_a_vnf_sends_by_each_port_to_whom_the_topology_says() -> None:
    chain = pvvp()
    (first, second) = plan_vnfs(chain, deployment(chain), vnfs(3, 4))
    assert ports_of((first, second)) == {"v1a", "v1b", "v2a", "v2b"}
    (vm,) = plan_vnfs(vm_chain(1), deployment(vm_chain(1)), vnfs(3, 4))
    assert [(port.name, port.mac[-2:], (port.eth_peer or "")[-2:]) for port in vm.ports] == [("vm1", "01", "10")]


def test_what_ran_is_in_the_topology_as_it_stood() -> None:
    deployed = with_kinds(vm_chain(2), {"vm1": VnfKind.QEMU})
    assert [port.vnf_kind for port in deployed.ports] == [VnfKind.TESTBED, VnfKind.QEMU, VnfKind.TESTBED]


def test_a_testbed_without_processes_refuses_a_vnf_that_is_one() -> None:
    chain = vm_chain(1, kind="testpmd")
    with pytest.raises(TestbedError, match=r"^VNF 'vm1' asks for kind testpmd, and this testbed has only the loop$"):
        RunningVnfs(plan_vnfs(chain, deployment(chain), VnfMaker()), VnfMaker())


def test_counts_are_those_between_two_readings() -> None:
    early = (VnfCounts("a", "b", 10, 9, 1, 0),)
    late = (VnfCounts("a", "b", 110, 104, 6, 0), VnfCounts("new", "new", 5, 5, 0, 0))
    assert counts_between(early, late) == (VnfCounts("a", "b", 100, 95, 5, 0),)
