"""Connections that are open at once: how many a DUT keeps, each of which is answered, held and closed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from pytest_nfvperf import (
    Conversation,
    Deployer,
    DutFailure,
    Search,
    SlaCheck,
    Topology,
    UnavailableError,
    compose,
    sweep,
)
from pytest_nfvperf.parts import connections, endpoint, path

pytestmark = pytest.mark.nfv_not_quick

BETWEEN: Any = {"client": "p0", "server": "p1"}
PORTS = 64_512
BYTES_EACH = 1000
"""Memory that a machine must have of each: OVS 3.1 takes half of it."""


def _check_memory(number: int) -> None:
    found = re.search(r"MemAvailable: +(\d+) kB", Path("/proc/meminfo").read_text(encoding="ascii"))
    free = int(found[1]) << 10 if found is not None else 0
    if free < number * BYTES_EACH:
        raise UnavailableError(
            f"{number:,} connections need {number * BYTES_EACH >> 20:,} MiB of memory, and {free >> 20:,} MiB are free"
        )


def tracked(**settings: Any) -> Topology:
    part = connections("br0", **BETWEEN, **settings)
    return compose("tracked", endpoint("p0", "br0"), endpoint("p1", "br0"), path("p0", "p1"), part)


@sweep("limit", (1000,))
def test_limit(limit: int, deploy: Deployer, search: Search) -> None:
    """Of a zone with a limit as many are found to be open at once as it takes.

    Steps: build port - bridge - port, with a zone and its limit; search among twice as many.
    Verify: the figure is the limit, to 2 %.
    """
    outcome = search.concurrent(deploy(tracked(limit=limit)), Conversation.tcp(), most=2 * limit, rate=limit)
    figure = outcome.figure("concurrent_connections")
    if figure is None or not 0.98 * limit <= figure.value <= limit:
        raise DutFailure(f"a zone takes {limit:,} connections, and {figure} were found to be open at once")


@sweep("most", (100_000, 1_000_000, 4_000_000))
@pytest.mark.nfv(topology="tracked")
def test_concurrent(most: int, deploy: Deployer, search: Search, sla: SlaCheck) -> None:
    """Connections open at once, up to so many, and the memory that each takes.

    Steps: build port - bridge - port, with a zone and room for twice as many; open all; count them; close each.
        The generator may leave out a few, so 2 % more are opened.
    Verify: the SLA on connections open at once and on memory; the DUT counted all. Skipped without enough memory.
    """
    _check_memory(most)
    live = deploy(tracked(most_connections=2 * most))
    conversation = Conversation.tcp(clients=2 * -(-most // PORTS))
    sla.check(search.concurrent(live, conversation, most=most + most // 50))
