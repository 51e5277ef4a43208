"""The real ovn-bgp-agent in a guest, whose kernel has vrf and dummy: a logical port's address is announced by FRR."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.adapters.vnf.guest_kernel import Kernel
from pytest_nfvperf.features.ovn.bgp_agent import VARIABLE, find_agent
from pytest_nfvperf.features.ovn.private_ovn import lacks_ovn
from pytest_nfvperf.features.virtual_time.guest_run import GuestMachine, run_in_guest
from pytest_nfvperf.model.errors import TestbedError
from tests.functional import test_ovn_bgp_agent as functional
from tests.kernel.inner_tests import check, pytest_command, results

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.daily("boots an emulated guest; tests/functional has the agent on kernels with vrf and dummy"),
]

LIGHT = ("-p", "no:hypothesispytest", "-p", "no:allure_pytest")  # what is not needed takes seconds to import there
ANNOUNCES = "test_frr_announces_a_logical_port_while_it_is_there"


@pytest.fixture(scope="module")
def agent() -> Path:
    """The agent's own environment; a skip that says how to make it."""
    lacking = lacks_ovn()
    if lacking is not None:
        pytest.skip(lacking)
    try:
        return find_agent()
    except TestbedError as error:
        pytest.skip(error.message)


def test_the_agent_announces_in_the_guest(agent: Path, journal: Journal, kernel: Kernel, tmp_path: Path) -> None:
    command = ["env", f"{VARIABLE}={agent}", *pytest_command(str(functional.__file__), *LIGHT, "-k", ANNOUNCES)]
    machine = GuestMachine(modules=("tun", "veth", "vrf", "dummy", "8021q"))
    run = run_in_guest(journal, kernel, command, tmp_path, machine=machine, deadline_s=300)
    check(results(run), functional.__name__, ANNOUNCES, never_skipped=ANNOUNCES)
