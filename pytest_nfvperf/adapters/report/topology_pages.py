"""The topologies of a run for the HTML page: each drawn once, with the tests that deployed it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from markupsafe import Markup

from pytest_nfvperf.adapters.report.charts import ChartFolder
from pytest_nfvperf.adapters.report.pages import TestPage
from pytest_nfvperf.adapters.report.texts import deployed_title, drawn
from pytest_nfvperf.adapters.report.topology_chart import topology_chart
from pytest_nfvperf.model.evidence.records import TopologyData

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
            title = deployed_title(deployed)
            same = (known for known in pages if known.title == title and _drawing(known.deployed) == _drawing(deployed))
            page = next(same, None)
            if page is None:
                page = _page(deployed, title, len(pages) + 1, charts)
                pages.append(page)
            page.tests.append(test)
    return pages


def _drawing(deployed: TopologyData) -> TopologyData:
    """What the picture shows: how the DUT's instance was started is not in it."""
    return replace(deployed, info=None)


def _page(deployed: TopologyData, title: str, number: int, charts: ChartFolder) -> TopologyPage:
    name = f"topology {number} {deployed.topology.name}"
    picture = charts.add(lambda: topology_chart(deployed), name, f"Topology {title}")
    return TopologyPage(f"topology-{number}", deployed, title, drawn(deployed), picture)
