"""Where ovn-bgp-agent is: in a virtual environment of its own, because its dependencies are many and none of ours."""

from __future__ import annotations

import os
from pathlib import Path

from pytest_nfvperf.adapters.generators.embedded.build import default_cache_dir
from pytest_nfvperf.model.errors import TestbedError

VARIABLE = "NFVPERF_OVN_BGP_AGENT"
"""Names the environment's directory where it is not in the cache."""

REQUIREMENT = "ovn-bgp-agent==4.0.0"
"""The newest tried in which exposing_method underlay can work: in 3.0.1 and from 5.0.0 to 7.0.0 the routing tables of
bridges are noted in a dictionary that is thrown away (``routing_tables or {}``): a port ends in ``KeyError: 'br-ex'``.
"""

_PROGRAM = "bin/ovn-bgp-agent"


def agent_directory() -> Path:
    """The environment's directory, whether it is there or not."""
    named = os.environ.get(VARIABLE)
    return Path(named) if named else default_cache_dir() / REQUIREMENT.replace("==", "-")


def find_agent() -> Path:
    """The environment's directory.

    Raises:
        TestbedError: the agent is not there; says how to install it.
    """
    directory = agent_directory()
    if not os.access(directory / _PROGRAM, os.X_OK):
        raise TestbedError(
            f"ovn-bgp-agent is not installed (no {directory / _PROGRAM}): python3 -m venv {directory} && "
            f"{directory}/bin/pip install {REQUIREMENT}; {VARIABLE} names another directory"
        )
    return directory


def agent_version(directory: Path) -> str:
    """Of the agent in this environment, as pip has it."""
    for info in directory.glob("lib/python3*/site-packages/ovn_bgp_agent-*.dist-info"):
        return info.name.removeprefix("ovn_bgp_agent-").removesuffix(".dist-info")
    return "unknown"
