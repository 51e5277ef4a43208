"""What would spoil every figure of a chain joined by veth: a firewall between its bridges (S2)."""

from __future__ import annotations

import pytest

from pytest_nfvperf import Deployer, Dut, DutFailure, bridge_chain, sweep

DATAPATHS = ("netdev", "system", "linux-bridge")


@pytest.mark.nfv_functional
@sweep("datapath", DATAPATHS, quick=DATAPATHS)
def test_no_firewall(datapath: str, deploy: Deployer) -> None:
    """No iptables or nftables rule is active where the chain's veth ends are.

    Steps: build a chain of two bridges joined by veth; ask the kernel in both end namespaces and in the datapath's.
    Verify: no nftables rule or hooked chain, and no legacy table of iptables, ip6tables or arptables.
    """
    live = deploy(bridge_chain(2, link="veth", ends="namespace"), dut=Dut(datapath))
    active = live.firewall()
    if active:
        rules = "; ".join(f"{namespace}: {', '.join(found)}" for namespace, found in active.items())
        raise DutFailure(f"a firewall filters where the chain is, which would spoil its figures: remove {rules}")
