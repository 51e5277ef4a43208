"""Comparisons of runs. Pure.

Here are the check whether two runs were on equal machines, so that their figures may be compared (How we measure,
rule 9), and ``comparison.json``, the document for scripts (docs/reference/comparison.md).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_nfvperf.model.display import cut
from pytest_nfvperf.model.evidence.records import SCHEMA_VERSION, RunData, TopologyData, plain
from pytest_nfvperf.model.measure.compare import ComparisonData, ComparisonSettings, ReadingMethod, SideState, Word
from pytest_nfvperf.model.measure.cpu_profile import TIME, WALL
from pytest_nfvperf.model.testbed.ovs_settings import OVS, versioned_as
from pytest_nfvperf.model.testbed.testbed import DatapathInfo

MACHINE_FACTS = (
    "cpu_model",
    "cpu_mhz_max",
    "smt",
    "cpus",
    "isolated_cpus",
    "governor",
    "cpu_plan",
    "numa",
    "hypervisor",
    "datapath",
    "vnf_kind",
    "generator_engine",
    "sending",
    "traffic",
)
"""Facts of a fingerprint that must be equal. Versions of OVS, DPDK, kernel and firmware are what is compared."""

_DUT_FACTS = frozenset({"ovs", "dpdk", "ovs_binary", "ovs_versions", "datapath"})
_LONG = frozenset({"settings of the testbed", "DUT settings"})
_MOST_NAMED, _LONGEST = 2, 80

CPU_BANDS = "cpu_bands"
"""Key of the fingerprint: in which bands of CPU distance the trials ran. It describes a run, not its machine."""

PORT_FACTS = ("kind", "rxq", "vendor", "device", "subsystem_vendor", "subsystem_device", "current_link_speed")
"""Facts of a port that must be equal."""


def unlike(then: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[tuple[str, str, str], ...]:
    """(fact, then, now) for each fact in which two machines differ, by their fingerprints; empty for equal ones."""
    facts = [(name, then.get(name), now.get(name)) for name in MACHINE_FACTS]
    facts.append((TIME, then.get(TIME, WALL), now.get(TIME, WALL)))
    earlier, later = _ports(then), _ports(now)
    facts.extend((f"port {port}", earlier.get(port), later.get(port)) for port in sorted({*earlier, *later}))
    return tuple((name, _shown(was), _shown(is_now)) for name, was, is_now in facts if was != is_now)


def differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[str, ...]:
    """``cpu_model: A then, B now``, a text for each fact of ``unlike``."""
    return tuple(f"{name}: {was} then, {is_now} now" for name, was, is_now in unlike(then, now))


def changed_facts(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """(fact, then, now) for each fact in which two fingerprints differ at all: versions and settings, too."""

    def as_json(value: object) -> str:  # as evidence stores it: without tuples, and with text for keys
        return json.dumps(value, sort_keys=True)

    facts = [(name, then.get(name), now.get(name)) for name in sorted({*then, *now} - {CPU_BANDS})]
    return [fact for fact in facts if as_json(fact[1]) != as_json(fact[2])]


def rig_changes(then: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """How two ``rig_facts`` differ: ``rig differs: kernel 6.1 -> 6.18``; "" if they do not."""
    changed = changed_facts(then, now)
    whose = "DUT" if all(name in _DUT_FACTS or name.startswith("DUT ") for name, *_ in changed) else "rig"
    texts = [name if name in _LONG else f"{name} {_shown(was)} -> {_shown(is_now)}" for name, was, is_now in changed]
    more = [f"{len(texts) - _MOST_NAMED} more"] if len(texts) > _MOST_NAMED else []
    named = [cut(text.removeprefix("DUT "), _LONGEST) for text in texts[:_MOST_NAMED]]
    return f"{whose} differs: {', '.join([*named, *more])}" if changed else ""


def rig_facts(data: RunData, deployed: Iterable[TopologyData]) -> dict[str, Any]:
    """All that must be equal for a test's figures of two runs to be compared. ``deployed``: what the test did."""
    facts = {**data.fingerprint, "settings of the testbed": data.testbed_yaml}
    for number, each in enumerate(deployed):
        of_dut = {**plain(each.info or {}), "datapath": each.datapath, "settings": plain(each.dut)}
        facts |= {f"DUT {f'{number} ' if number else ''}{name}": value for name, value in of_dut.items()}
    return facts


def _ports(fingerprint: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    ports = fingerprint.get("ports") or {}
    return {name: {fact: facts[fact] for fact in PORT_FACTS if fact in facts} for name, facts in ports.items()}


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_shown(each)}" for name, each in value.items()) or "nothing"
    return "unknown" if value is None else str(value)


DOCUMENT_SCHEMA = SCHEMA_VERSION
"""The document holds the data of comparison records. A reader refuses newer ones."""

GRAVITY = (Word.SLOWER, Word.CANNOT_TELL, Word.FASTER, Word.SAME)
"""The gravest first: it counts for all, since a gate asks for a slower side anywhere."""


@dataclass(frozen=True, slots=True)
class TestComparison:
    """A comparison and its test; a test that compares several topologies has several."""

    __test__ = False

    test: str
    data: ComparisonData


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """All that a run compared.

    Attributes:
        run: id of the run, or of both.
        comparing: the sides.
        left_out: selected tests without a comparison: ``test``, its ``result``, and the ``reason``.
        duts: of each side, as far as it ran.
        result, exit_status: of the run (docs/reference/exit-status.md).
        differences: (what, value by side) in which the sides' Open vSwitch or the runs' machines differ.
        warnings: why the statistics are weaker than they could be.
    """

    run: str
    comparing: ComparisonSettings
    tests: tuple[TestComparison, ...]
    left_out: tuple[Mapping[str, str], ...] = ()
    duts: tuple[tuple[str, DatapathInfo], ...] = ()
    result: str = ""
    exit_status: int = 0
    differences: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        """How often each deciding word and each trouble of a side occurs, the gravest first."""
        return counted(test.data for test in self.tests)

    @property
    def paired(self) -> bool:
        return all(test.data.how is not ReadingMethod.RUNS for test in self.tests)


def words(comparisons: Iterable[ComparisonData]) -> list[str]:
    """For each side of each comparison its deciding word, or its state if it was not measured."""
    found: list[str] = []
    for side in (side for comparison in comparisons for side in comparison.sides):
        word = side.deciding.word if side.deciding else Word.CANNOT_TELL
        found.append(str(word if side.state is SideState.MEASURED else side.state))
    return found


def counted(comparisons: Iterable[ComparisonData]) -> dict[str, int]:
    times = Counter(words(comparisons))
    order = [*map(str, (SideState.BROKEN, SideState.UNAVAILABLE, SideState.FAILED)), *map(str, GRAVITY)]
    return {word: times[word] for word in order if times[word]}


def side_differences(
    comparing: ComparisonSettings, duts: Sequence[tuple[str, DatapathInfo]]
) -> tuple[tuple[str, tuple[tuple[str, str], ...]], ...]:
    """How the sides differ: versions, origin, build and settings; "-" for an absent one."""
    facts = {side.name: dict(side.settings) for side in comparing.sides}
    for name, info in duts:
        what = "OVS" if versioned_as(info.kind.partition("+")[0]) == OVS else info.kind  # nodes may have several
        versions = ((what, info.version), ("DPDK", info.dpdk_version or "-"), ("datapath", info.kind))
        built = (*versions, ("from", info.origin), ("program", info.installation), *info.build)
        if name in facts:
            facts[name] = {what: text for what, text in built if text} | facts[name]
    names = dict.fromkeys(name for of in facts.values() for name in of)
    rows = ((name, tuple((side, of.get(name, "-")) for side, of in facts.items())) for name in names)
    return tuple((name, row) for name, row in rows if len({value for _, value in row}) > 1)


def document(compared: ComparedRun) -> dict[str, Any]:
    duts = dict(compared.duts)
    return {
        "schema": DOCUMENT_SCHEMA,
        "kind": "nfvperf comparison",
        "run": compared.run,
        "paired": compared.paired,
        "margin": compared.comparing.margin,
        "baseline": compared.comparing.baseline.name,
        "sides": [
            {
                "name": side.name,
                "where": side.where,
                "settings": dict(side.settings),
                "dut": plain(duts[side.name]) if side.name in duts else None,
            }
            for side in compared.comparing.sides
        ],
        "differences": [{"what": what, "values": dict(values)} for what, values in compared.differences],
        "comparisons": [_comparison(test) for test in compared.tests],
        "left_out": [plain(dict(left_out)) for left_out in compared.left_out],
        "counts": compared.counts,
        "warnings": list(compared.warnings),
        "result": compared.result,
        "exit_status": compared.exit_status,
    }


def _comparison(test: TestComparison) -> Mapping[str, Any]:
    made = plain(test.data)
    made["labels"] = dict(test.data.labels)
    for side in made["sides"]:
        for metric in side["metrics"]:
            metric["dropped"] = dict(metric["dropped"])
    return {"test": test.test, **made}
