"""SLA rules that can never be judged by this run: refused when tests are collected, before anything starts.

Tests are arbitrary Python, so a rule is refused only where every test it selects is known well enough: it measures by
our own fixture ``search``, and for some questions on a topology that is known by its fixture.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pytest

from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.measure.profile import SMOKE
from pytest_nfvperf.model.sla.judge import requirement_text
from pytest_nfvperf.model.sla.rules import Foreseen, Limit, Rule, why_never
from pytest_nfvperf.plugin.labels import TOPOLOGY_FIXTURES, subject_labels
from pytest_nfvperf.session.run import NfvSession

_PARAMETERS_OF_SEARCHES = frozenset({"search", "sla", "profile", "nfv_labels", *TOPOLOGY_FIXTURES})
"""Fixtures of a test that measures by searches only, on a topology that is known."""

_ANYTHING = frozenset({"study", "soak", "streams", "copies", "convergence", "nfv_session", "request"})
"""Fixtures by which a test can measure what nobody can foresee."""

_KERNEL_DATAPATHS = frozenset({"system", "linux-bridge"})
_MEASURED = frozenset({"frame_size", "flows", "direction", "headers", "tuning", "datapath", "topology"})
"""Labels that the measurement decides, whatever the test says of itself."""


def refuse_unjudgeable(items: Sequence[pytest.Item], session: NfvSession, *, whole: bool) -> None:
    """Raise ConfigError for the first requirement that none of the tests it selects can ever judge.

    Args:
        items: the tests that measure.
        session: of this run.
        whole: the user asked for whole folders: then every subject that a rule compares with must be among the tests.
    """
    if session.options.compare is not None:
        return  # the SLAs of tests are not judged
    own = session.backend.labels()
    known = [_Test(item, session, labels | own) for item in items for labels in _subjects(item, session)]
    for rule, selected in _by_rule(known, session).values():
        for metric, limit in rule.require:
            reasons = [why_never(metric, limit, test.foreseen) for test in selected]
            if whole and not any(reasons):
                reasons = [_without_peer(test, limit, known) for test in selected]
            if selected and all(reasons):
                text = requirement_text(metric, limit)
                raise ConfigError(f"{rule.source}.require.{metric}: {text} can never be judged: {reasons[0]}")


class _Test:
    """What is known of a subject before it is measured."""

    def __init__(self, item: pytest.Item, session: NfvSession, labels: Mapping[str, str]) -> None:
        self.item = item
        self.labels = labels
        arguments = set(getattr(getattr(item, "_fixtureinfo", None), "argnames", ()))
        self.arguments = arguments - set(_parameters(item))
        ours = all(map(_is_ours, _fixtures(item)))
        self.foreseeable = ours and "search" in self.arguments and not self.arguments & _ANYTHING
        self.plain = self.foreseeable and self.arguments <= _PARAMETERS_OF_SEARCHES
        self.foreseen = self._foreseen(session) if self.foreseeable else Foreseen()

    def _foreseen(self, session: NfvSession) -> Foreseen:
        profile, testbed = session.profile, session.backend.testbed
        datapath = self.labels.get("datapath", "")
        embedded = testbed.generator.engine == "embedded"
        unlined = embedded and session.backend.line_rate_bps() is None
        return Foreseen(
            line_rate=False if self.plain and unlined else None,
            latency_shares=profile.latency_loads,
            repeats=None if profile is SMOKE else session.options.repeat,
            searches_only=self.plain,
            without_cores=datapath if self.plain and datapath in _KERNEL_DATAPATHS else None,
            profile=profile.name,
        )

    def can_be(self, labels: Mapping[str, str]) -> bool:
        """False where what this test measures is certainly not the subject with these labels."""
        if self.arguments & _ANYTHING or not self.foreseeable:
            return True
        fixed = {name: value for name, value in self.labels.items() if name not in _MEASURED and name != "test"}
        if self.plain and "topology" in self.labels:
            fixed["topology"] = self.labels["topology"]
        return all(labels.get(name) == value for name, value in fixed.items())


def _without_peer(test: _Test, limit: Limit, known: Iterable[_Test]) -> str | None:
    """Why a relation has no other side in this run; None where it may have one."""
    differing = dict(limit.relative_to or ())
    names = [name for name in differing if name in test.labels and (name not in _MEASURED or test.plain)]
    if not differing or not test.foreseeable or len(names) < len(differing):
        return None
    if all(test.labels[name] == value for name, value in differing.items()):
        return None  # it is the baseline
    wanted = {**test.labels, **differing}
    if any(other.can_be(wanted) for other in known):
        return None
    shown = ", ".join(f"{name}: {value}" for name, value in differing.items())
    return (
        f"no selected test measures {{{shown}}}, which it is compared with: select that test, too, or correct the rule"
    )


def _by_rule(known: Iterable[_Test], session: NfvSession) -> dict[int, tuple[Rule, list[_Test]]]:
    found: dict[int, tuple[Rule, list[_Test]]] = {}
    for test in known:
        for rule in session.slas.rules_for(test.item.path):
            if rule.matches(test.labels):
                found.setdefault(id(rule), (rule, []))[1].append(test)
    return found


def _subjects(item: pytest.Item, session: NfvSession) -> list[dict[str, str]]:
    return subject_labels(item, session.profile.name)


def _parameters(item: pytest.Item) -> Mapping[str, Any]:
    callspec = getattr(item, "callspec", None)
    return callspec.params if callspec else {}


def _fixtures(item: pytest.Item) -> Iterator[Any]:
    """The function of each fixture that the test uses, directly or by another."""
    info = getattr(item, "_fixtureinfo", None)
    parameters = _parameters(item)
    for name, definitions in getattr(info, "name2fixturedefs", {}).items():
        if name not in parameters:
            yield from (definition.func for definition in definitions[-1:])


def _is_ours(function: Any) -> bool:
    return str(getattr(function, "__module__", "")).partition(".")[0] in {"pytest_nfvperf", "_pytest", "fixtures"}
