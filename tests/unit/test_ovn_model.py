"""OVN's logical network as data, as ovn-nbctl's arguments, and the agent's configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_nfvperf.features.ovn.bgp_agent import agent_config
from pytest_nfvperf.features.ovn.model import Localnet, LogicalPort, LogicalSwitch, OvnPathPlan
from pytest_nfvperf.features.ovn.private_ovn import add_switch

PORT = LogicalPort("lp0", "p0", "02:00:00:00:00:01", ("10.1.0.1", "2001:db8::1"), {"neutron:cidrs": "10.1.0.1/24"})


def test_a_switch_is_made_in_one_transaction() -> None:
    words = add_switch(LogicalSwitch("ls0", (PORT,), Localnet("provnet-1", "physnet1", "br-ex")))
    text = " ".join(words)
    assert text.startswith("ls-add ls0 -- lsp-add ls0 provnet-1 -- lsp-set-type provnet-1 localnet -- ")
    assert "lsp-set-options provnet-1 network_name=physnet1 -- lsp-add ls0 lp0" in text
    assert "02:00:00:00:00:01 10.1.0.1 2001:db8::1" in words  # one word: MAC address, then addresses


def test_keys_with_colons_are_quoted() -> None:
    words = add_switch(LogicalSwitch("ls0", (PORT,)))
    assert words[-4:] == ["set", "Logical_Switch_Port", "lp0", 'external_ids:"neutron:cidrs"="10.1.0.1/24"']


def test_a_port_that_is_there_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="logical switch 'ls0' has a port twice: lp0, lp0"):
        LogicalSwitch("ls0", (PORT, PORT))


def test_an_address_with_prefix_length_is_refused() -> None:
    with pytest.raises(ValueError, match=r"10\.1\.0\.1/24"):
        LogicalPort("lp0", "p0", "02:00:00:00:00:01", ("10.1.0.1/24",))


def test_the_agent_finds_what_neutron_would_have_noted() -> None:
    (port,) = OvnPathPlan().switch("here").ports
    assert port.external_ids["neutron:network_name"] == OvnPathPlan().switch("here").name
    assert port.options == {"requested-chassis": "here"}
    assert OvnPathPlan().bgp.vm == "172.16.101.10"


def test_the_agents_configuration_names_the_private_sockets() -> None:
    text = agent_config(64999, "12.12.12.1", "unix:/run/x/nb.sock", Path("/run/x/db.sock"))
    assert "driver = nb_ovn_bgp_driver\nexposing_method = underlay\nbgp_AS = 64999\n" in text
    assert "ovsdb_connection = unix:/run/x/db.sock\n" in text
    assert text.endswith("[ovn]\novn_nb_connection = unix:/run/x/nb.sock\n")
