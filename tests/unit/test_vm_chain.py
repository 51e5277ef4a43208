"""S4's chain of VMs as data: addresses, who sends to whom, and what is refused; and who is taught to a bridge."""

from __future__ import annotations

import pytest

from pytest_nfvperf.measure.rig import learning_directions
from pytest_nfvperf.model.topology.compose import compose, phy2phy
from pytest_nfvperf.model.topology.parts import endpoint, monitor
from pytest_nfvperf.model.topology.ports import PortRole
from pytest_nfvperf.model.topology.workloads import vm_chain, vm_receiving
from pytest_nfvperf.model.traffic.trial import Direction


def test_each_sends_to_the_next_and_the_last_to_the_generator() -> None:
    chain = vm_chain(2)
    last_bytes = {port.name: (port.mac[-2:], (port.eth_peer or "")[-2:]) for port in chain.ports}
    assert last_bytes == {"p0": ("10", "01"), "vm1": ("01", "02"), "vm2": ("02", "10")}
    assert chain.crossings == ()
    assert chain.directions == (Direction("p0", "p0"),)


def test_more_parts_go_into_the_chain() -> None:
    chain = vm_chain(1, monitor("m0", "br0"), name="watched")
    assert (chain.name, chain.port("m0").role) == ("watched", PortRole.MONITOR)
    assert vm_receiving(monitor("m0", "br0")).port("m0").bridge == "br0"


@pytest.mark.parametrize("vms", [0, 16])
def test_a_chain_that_has_no_addresses(vms: int) -> None:
    with pytest.raises(ValueError, match=rf"^vm_chain\(\): vms is {vms}: write a whole number from 1 to 15$"):
        vm_chain(vms)


def test_a_receiver_that_sends_nothing_is_taught_where_only_that_helps() -> None:
    assert learning_directions(vm_receiving()) == (Direction("p0", "vm1"), Direction("vm1", "p0"))
    assert learning_directions(vm_chain(2)) == (Direction("p0", "p0"),)
    assert learning_directions(phy2phy(bidirectional=False)) == (Direction("p0", "p1"),)
    both_to_one = [endpoint(f"p{n}", "br0") for n in range(3)]
    made = compose("t", *both_to_one, Direction("p0", "p2"), Direction("p1", "p2"))
    assert learning_directions(made) == (*made.directions, Direction("p2", "p1"))
