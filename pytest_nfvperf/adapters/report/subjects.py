"""How a subject is called in tables, titles and charts, from its labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from pytest_nfvperf.model.display import visible
from pytest_nfvperf.model.sla.verdict import Verdict

COMMON_VALUES = {"flows": "1", "direction": "bidirectional"}
"""Most tests have these values, so names leave them out."""

_OF_THE_RUN = frozenset({"suite", "profile", "datapath", "engine"})
_FIRST = ("test", "topology", "frame_size", "flows", "direction")


def title(labels: Mapping[str, str]) -> str:
    """``ndr_pdr · phy2phy · 64 B · 1,000 flows``, without what a whole run has in common."""
    first = [name for name in _FIRST if name in labels and labels[name] != COMMON_VALUES.get(name)]
    parts = [_part(name, labels[name]) for name in first]
    parts += [_part(name, value) for name, value in labels.items() if name not in _FIRST and name not in _OF_THE_RUN]
    return " · ".join(part for part in parts if part)


def name_of_test(labels: Mapping[str, str]) -> str:
    """The test's name without ``test_``; the suite's where there is none."""
    return labels["test"].removeprefix("test_") if "test" in labels else labels.get("suite", "-")


def differing(subjects: Sequence[Mapping[str, str]]) -> frozenset[str]:
    """Names of labels in which subjects differ, or that only some of them have."""
    values: dict[str, set[str]] = {}
    carriers = Counter[str]()
    for labels in subjects:
        carriers.update(labels.keys())
        for name, value in labels.items():
            values.setdefault(name, set()).add(value)
    return frozenset(name for name, seen in values.items() if len(seen) > 1 or carriers[name] < len(subjects))


def distinctions(labels: Mapping[str, str], different: Collection[str]) -> list[str]:
    """Labels of ``different`` that have no column of their own: ``["1,000 flows", "link=patch"]``."""
    columns = {"suite", "test", "topology", "frame_size"}
    return [
        _part(name, value)
        for name, value in labels.items()
        if name not in columns and name in different and value != COMMON_VALUES.get(name)
    ]


def subject_of(verdict: Verdict, of_test: Iterable[Verdict]) -> str:
    """``bridges=9``: what a verdict is about, if the verdicts of its test are about several subjects; else ""."""
    subjects = [dict(one.subject) for one in of_test]
    return " ".join(distinctions(dict(verdict.subject), differing(subjects)))


def _part(name: str, value: str) -> str:
    value = visible(value)
    if name == "test":
        return value.removeprefix("test_")
    if name == "frame_size":
        return f"{value} B" if value.isdigit() else value
    if name == "flows":
        return f"{int(value):,} flows" if value.isdigit() else f"{value} flows"
    return value if name in {"topology", "direction"} else f"{name}={value}"
