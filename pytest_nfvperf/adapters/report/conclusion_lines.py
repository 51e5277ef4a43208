"""What became of each test, a line each, for terminals."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_nfvperf.model.evidence.conclusion import Fate, TestConclusion

_QUIET = frozenset({Fate.PASSED, Fate.SKIPPED, Fate.NOT_RUN})


def test_lines(tests: Sequence[TestConclusion]) -> list[str]:
    """``FAIL          suites/x.py::test_y: ndr >= 5 Mpps: 4.00 Mpps``, in the order given."""
    width = max((len(test.badge) for test in tests), default=0)
    return [f"{test.badge:<{width}}  {test.node_id}{f': {test.reason}' if test.reason else ''}" for test in tests]


def worth_telling(tests: Sequence[TestConclusion]) -> list[TestConclusion]:
    """Those that a run's summary lists one by one; skips are counted by their reasons, and passes are in the table."""
    return [test for test in tests if test.fate not in _QUIET]


test_lines.__test__ = False  # type: ignore[attr-defined]
