"""In which order suites run: what a person waits for comes first.

The ini option ``nfv_suite_order`` of the project that has the suites names folders and files; they run in its order,
all others after them, as pytest collected them. A file's own order is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

from pytest_nfvperf.plugin.labels import is_measuring

if TYPE_CHECKING:
    from pytest_nfvperf.session.run import NfvSession

INI = "nfv_suite_order"


def add_ini(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addini(INI, "folders and files of suites in the order in which they run, others after them", type="args")


def sort_suites(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put files with measuring tests into the project's order; who names several paths has an order of their own."""
    order = config.getini(INI)
    if not order or len(config.args) > 1:
        return
    measuring = {item.path for item in items if is_measuring(item)}
    places = [place for place, item in enumerate(items) if item.path in measuring]
    ordered = sorted((items[place] for place in places), key=lambda item: _rank(item, order))
    for place, item in zip(places, ordered, strict=True):
        items[place] = item


def put_other_sides_first(items: list[pytest.Item], session: NfvSession) -> None:
    """Measure the other side of a relation first, in whatever order another plugin (pytest-randomly) put the tests."""
    from pytest_nfvperf.model.sla.rules import other_sides_first  # noqa: PLC0415 - every pytest run imports this
    from pytest_nfvperf.plugin.worker import selected_test  # noqa: PLC0415 - as above

    places = [place for place, item in enumerate(items) if is_measuring(item)]
    own = session.backend.labels()
    tests = [selected_test(items[place], session, own) for place in places]
    if not any(limit.relative_to for test in tests for rule in test.rules for _, limit in rule.require):
        return
    ordered = [items[places[number]] for number in other_sides_first(tests)]
    for place, item in zip(places, ordered, strict=True):
        items[place] = item


def _rank(item: pytest.Item, order: Sequence[str]) -> int:
    path = f"{item.path.as_posix()}/"
    return next((rank for rank, name in enumerate(order) if f"/{name.strip('/')}/" in path), len(order))
