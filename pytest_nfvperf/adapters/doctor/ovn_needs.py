"""What doctor says of OVN and ovn-bgp-agent."""

from __future__ import annotations

from pytest_nfvperf.adapters.doctor.check import Check, CheckState
from pytest_nfvperf.adapters.ovn.agent_venv import agent_version, find_agent
from pytest_nfvperf.adapters.ovn.bgp_agent import lacks_devices
from pytest_nfvperf.adapters.ovn.ovn_binaries import locate_ovn
from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.model.testbed.testbed import Testbed


def ovn_checks(testbed: Testbed | None = None) -> list[Check]:  # noqa: ARG001 - of any testbed
    """OVN, and the agent with what it needs of the kernel."""
    return [_ovn(), _agent()]


def _ovn() -> Check:
    try:
        found = locate_ovn()
    except TestbedError as error:
        return Check("OVN", CheckState.MISSING, "not installed", f"{error.message} (for the fixture private_ovn)")
    return Check("OVN", CheckState.OK, f"{found.version} ({found.northd})")


def _agent() -> Check:
    name = "ovn-bgp-agent"
    try:
        directory = find_agent()
    except TestbedError as error:
        return Check(name, CheckState.MISSING, "not installed", f"{error.message} (for the fixture ovn_bgp_agent)")
    lacking = lacks_devices()
    seen = f"{agent_version(directory)} ({directory})"
    if lacking is not None:
        return Check(name, CheckState.WARN, f"{seen}, cannot run here", lacking)
    return Check(name, CheckState.OK, seen)
