"""docs/reference/vnfs.md: its drawing is what the topology gives."""

from __future__ import annotations

import re
from pathlib import Path

from pytest_nfvperf.model.testbed.topology_text import topology_text
from pytest_nfvperf.model.topology.workloads import vm_chain

PAGE = (Path(__file__).parents[2] / "docs/reference/vnfs.md").read_text(encoding="utf-8")


def test_the_chain_is_drawn_as_it_is() -> None:
    (drawn,) = re.findall(r"^```text\n(vm-chain.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert topology_text(vm_chain(2)) == drawn.rstrip("\n")
