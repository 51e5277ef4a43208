"""The topologies of a run for the HTML page: each drawn once, with the tests that deployed it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from pytest_nfvperf.adapters.report.charts import ChartFolder
from pytest_nfvperf.adapters.report.pages import TestPage
from pytest_nfvperf.adapters.report.texts import drawn
from pytest_nfvperf.adapters.report.topology_chart import topology_chart
from pytest_nfvperf.model.evidence.records import TopologyData
from pytest_nfvperf.model.testbed.tuning import OVS_DEFAULT

MOST_OPEN = 4
"""Of more topologies than this, all are folded."""


@dataclass(slots=True)
class TopologyPage:
    """One topology on one datapath. ``title``: its name and the datapath; ``text``: the drawing of the terminal."""

    anchor: str
    deployed: TopologyData
    title: str
    text: str
    picture: Markup
    tests: list[TestPage] = field(default_factory=list)


def topology_pages(tests: Sequence[TestPage], charts: ChartFolder) -> list[TopologyPage]:
    """In the order in which they were first deployed."""
    pages: list[TopologyPage] = []
    for test in tests:
        for deployed in test.evidence.topologies.values():
            page = next((known for known in pages if known.deployed == deployed), None)
            if page is None:
                page = _page(deployed, len(pages) + 1, charts)
                pages.append(page)
            page.tests.append(test)
    return pages


def _page(deployed: TopologyData, number: int, charts: ChartFolder) -> TopologyPage:
    title = f"{deployed.topology.name} · {deployed.datapath} datapath"
    title += " · userspace TSO" if deployed.dut.userspace_tso else ""
    title += f" · {deployed.dut.tuning}" if deployed.dut.tuning != OVS_DEFAULT else ""
    picture = charts.add(topology_chart(deployed), f"topology {number} {deployed.topology.name}", f"Topology {title}")
    return TopologyPage(f"topology-{number}", deployed, title, drawn(deployed), picture)
