"""What identifies a test in SLAs and reports, read off the collected item."""

from __future__ import annotations

import pytest

TOPOLOGY_FIXTURES = frozenset({"phy2phy", "pvp", "pvvp"})
"""Fixtures that stand for the topology of their own name."""

BASE_FIXTURE = "nfv_session"
"""Every fixture of ours that touches the testbed depends on this one."""

MARKER = "nfv"


def is_measuring(item: pytest.Item) -> bool:
    """True for a test that uses the testbed."""
    return BASE_FIXTURE in getattr(item, "fixturenames", ())


def item_labels(item: pytest.Item, profile: str) -> dict[str, str]:
    """Labels known before the test runs.

    In rising precedence: suite (the folder), test, profile; the fixture that names a topology;
    the test's parameters; the keywords of its ``nfv`` markers.
    """
    labels = {
        "suite": item.path.parent.name,
        "test": getattr(item, "originalname", None) or item.name,
        "profile": profile,
        "direction": "bidirectional",
        "flows": "1",
    }
    topology = TOPOLOGY_FIXTURES.intersection(getattr(item, "fixturenames", ()))
    if len(topology) == 1:
        labels["topology"] = next(iter(topology))
    callspec = getattr(item, "callspec", None)
    for name, value in (callspec.params if callspec else {}).items():
        labels[name] = str(value)
    for marker in item.iter_markers(MARKER):
        labels.update({name: str(value) for name, value in marker.kwargs.items()})
    return labels
