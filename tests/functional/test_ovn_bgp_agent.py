"""The real ovn-bgp-agent on a private OVN: FRR announces what OVN has. `make test-kernel` runs this in a guest."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_nfvperf.adapters.ovs.built_topology import BuiltOvsTopology
from pytest_nfvperf.adapters.ovs.ovs_datapath import OvsDatapath
from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.features.ovn import bgp_agent as agent_venv
from pytest_nfvperf.features.ovn.bgp_agent import OvnBgpAgent, find_agent, lacks_agent, lacks_devices
from pytest_nfvperf.features.ovn.model import OvnPathPlan
from pytest_nfvperf.features.ovn.path import LocalOvn, OvnPath
from pytest_nfvperf.features.routing.frr import FrrSpeaker
from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.model.testbed.testbed import OvsSpec
from tests.functional.bgp_support import needs_daemons
from tests.functional.ovn_support import needs_ovn, ovn_over
from tests.functional.ovs_support import needs_root, send_tcp, started

pytestmark = [*needs_daemons, needs_root, needs_ovn]
PLAN = OvnPathPlan()
VM = f"{PLAN.bgp.vm}/32"
TEXT = bytes(range(256)) * 16


@pytest.fixture(scope="module")
def ovs(journal: Journal) -> Iterator[OvsDatapath]:
    with started(journal, "netdev", name="agent-ovs") as running:
        yield running


@pytest.fixture
def path(journal: Journal, ovs: OvsDatapath) -> Iterator[tuple[BuiltOvsTopology, OvnPath]]:
    lacking = lacks_agent()
    if lacking is not None:
        pytest.skip(lacking)
    built = ovs.build(PLAN.topology())
    built.wait_ready(10)
    made = LocalOvn(lambda: journal, OvsSpec()).start_agent(built, PLAN)
    yield built, made
    made.close()
    built.close()


def test_frr_announces_a_logical_port_while_it_is_there(path: tuple[BuiltOvsTopology, OvnPath]) -> None:
    built, made = path
    assert VM not in made.frr.announced_to(PLAN.bgp.bird_address)
    made.connect_vm()
    made.await_announced(VM, 15)
    assert made.bird.session(PLAN.bgp.frr_address).received == 1
    assert send_tcp(built.netns("bird"), built.netns("vm"), PLAN.bgp.vm, TEXT, wait_s=10) == TEXT
    made.disconnect_vm()
    made.await_announced(VM, 15, gone=True)


def test_a_kernel_without_vrf_is_named_by_the_agent_and_by_us(journal: Journal, ovs: OvsDatapath) -> None:
    lacking = lacks_devices()
    if lacking is None:
        pytest.skip("this kernel makes vrf and dummy interfaces")
    try:
        find_agent()
    except TestbedError as error:
        pytest.skip(error.message)
    assert "ovn-bgp-agent needs vrf interfaces, which this kernel (" in lacking
    with ovn_over(journal, ovs, PLAN.topology()) as (built, ovn):
        frr = FrrSpeaker(journal, built.instance.home.name, PLAN.frr_config())
        try:
            frr.start()
            with pytest.raises(TestbedError) as caught:
                OvnBgpAgent(journal, built.instance, ovn.northbound, frr)
            why = "InterfaceOperationNotSupported: Operation not supported on interface bgp-vrf"
            assert why in caught.value.evidence["ovn-bgp-agent.log"]
        finally:
            frr.close()


def test_how_to_install_the_agent_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(agent_venv.VARIABLE, str(tmp_path))
    with pytest.raises(TestbedError, match=rf"python3 -m venv {tmp_path} && {tmp_path}/bin/pip install ovn-bgp-agent"):
        find_agent()
