"""Connections that are open at once: how many a DUT keeps, each of which is answered, held and closed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from pytest_nfvperf import Conversation, Deployer, Search, SlaCheck, UnavailableError, compose, sweep
from pytest_nfvperf.parts import connections, endpoint, path

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


@sweep("most", (100_000, 1_000_000, 4_000_000), quick={100_000})
@pytest.mark.nfv(topology="tracked")
def test_concurrent(most: int, deploy: Deployer, search: Search, sla: SlaCheck) -> None:
    """Connections open at once, up to so many, and the memory that each takes.

    Steps: build port - bridge - port, with a zone and room for twice as many; open all; count them; close each.
        The generator may leave out a few, so 2 % more are opened.
    Verify: the SLA on connections open at once and on memory; the DUT counted all. Skipped without enough memory.
    """
    _check_memory(most)
    part = connections("br0", **BETWEEN, most_connections=2 * most)
    live = deploy(compose("tracked", endpoint("p0", "br0"), endpoint("p1", "br0"), path("p0", "p1"), part))
    conversation = Conversation.tcp(clients=2 * -(-most // PORTS))
    sla.check(search.concurrent(live, conversation, most=most + most // 50))
