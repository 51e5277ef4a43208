"""Read and check SLA files. docs/reference/sla-language.md describes the language."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import Field

from pytest_nfvperf.config.units import (
    CONNECTION_RATE,
    FRAME_RATE,
    LOOK_ALIKES,
    RATIO,
    UnitError,
    dimensions_of,
    quantity,
)
from pytest_nfvperf.config.validate import Faults, SchemaVersion, read_as
from pytest_nfvperf.config.yaml_file import Document, KeyPath, parse_document, read_document, show_path
from pytest_nfvperf.model.display import MISSPELT, did_you_mean, format_fps, listed
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.fields import file_key
from pytest_nfvperf.model.measure.profile import PROFILES
from pytest_nfvperf.model.metrics import GOALS, METRICS, RENAMED, Metric
from pytest_nfvperf.model.sla.rules import (
    ON_OR_OFF,
    Limit,
    Rule,
    Sla,
    budget_of,
    budget_text,
    load_in_fps,
    share_of_goal,
)
from pytest_nfvperf.model.testbed.ovs_settings import DATAPATHS
from pytest_nfvperf.model.testbed.testbed import TESTPMD
from pytest_nfvperf.model.traffic.traffic import IMIXES, MIN_FRAME_SIZE, check_frame_size

# The words of the language that are not metrics: what can be selected, and by which operators.


class Selector(NamedTuple):
    """A label of a subject.

    ``values``: the words it can have; empty for any word. ``number``: whole numbers only. ``foreign``: a third party
    may add words, with a colon in them.
    """

    meaning: str
    values: tuple[str, ...] = ()
    number: bool = False
    foreign: bool = False


SELECTORS = {
    "suite": Selector("folder under suites/"),
    "test": Selector("name of the test function"),
    "topology": Selector("phy2phy, pvp, pvvp or a suite's own"),
    "frame_size": Selector("bytes with FCS, or imix-NAME"),
    "headers": Selector("what is not plain IPv4 and UDP: ipv6, vxlan, vxlan6-ipv6, or a packet's label, e.g. qinq-tcp"),
    "flows": Selector("distinct 5-tuples per direction; 10k and 1M are understood"),
    "datapath": Selector("the DUT's datapath", values=(*DATAPATHS, "linux-bridge", TESTPMD), foreign=True),
    "direction": Selector("who sends", values=("unidirectional", "bidirectional")),
    "link": Selector("how neighbouring bridges are joined, e.g. patch or veth"),
    "bridges": Selector("number of bridges in the chain", number=True),
    "profile": Selector("the measuring profile", values=tuple(PROFILES)),
    "engine": Selector("the traffic generator, e.g. embedded or trex"),
    "nic": Selector("the lab's NICs: dut.ports[].model, or what the PCI database calls them"),
    "driver": Selector("their driver: the kernel's, e.g. mlx5_core, or DPDK's by vfio, e.g. net_vmxnet3"),
    "firmware": Selector("their firmware; 22.36.* selects all that begin so"),
    "function": Selector("PCI functions of the lab's NICs: physical (pf) or virtual (vf)", values=("pf", "vf")),
    "offload": Selector("flows shall be in the NIC", values=("on", "off")),
    "node_cpus": Selector(
        "of a topology with nodes: whether each has CPUs of its own", values=("own", "short-turns", "shared")
    ),
    "class": Selector("a class of a traffic mix: the rule is about its figures only"),
    "classes": Selector("of a traffic mix, all of them: voice+bulk"),
    "raised": Selector("the class whose load a search raised, while the others stayed fixed"),
    "judged": Selector("the class whose loss decided a search"),
    "time": Selector("virtual where instructions are counted", values=("virtual",)),
}
"""Labels that every run understands. Parameters and markers of tests are selectable beside them."""

TESTBED_LABELS = frozenset(
    {"nic", "driver", "firmware", "function", "offload", "datapath", "engine", "node_cpus", "time"}
)
"""Labels of the testbed. A rule about another testbed does not apply to this one, and is no mistake."""


OPERATORS = (">=", "<=", "==", ">", "<")

LIMIT_KEYS = ("at", "limit", "repeats", "flows")
OF_FLOWS = "offloaded_flows"
"""The metric of which a limit may list the flows that it is about."""
_LIMIT = re.compile(r"(?P<operator>[^\w\s.+-]*)\s*(?P<bound>.*)", re.DOTALL)
_SHARE = re.compile(r"(?P<share>.+?)\s+of\s+(?P<whole>.+)", re.DOTALL)
_FLOW = re.compile(r"\w+(\([^()]*\))?(,\s*\w+(\([^()]*\))?)*", re.ASCII)
_WORD = re.compile(r"[A-Za-z0-9][\w.-]*", re.ASCII)
_LABEL = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_FLOWS = re.compile(r"(?P<number>\d+)(?P<factor>[kM]?)", re.ASCII)
_FACTORS = {"": 1, "k": 1_000, "M": 1_000_000}
BASELINE, LAST = "baseline", "last"
"""What a share is of: the same figure in the run that --nfv-baseline names; for --nfv-fail-below also the last run."""
_LEAST_FPS, _MOST_NS = {True: 10_000, False: 1_000}, 100e6
"""Below or above these a limit's unit is a slip: of goals of searches, and of other rates; of latencies."""
_OPERATOR_SLIPS = {"=>": ">=", "=<": "<=", "=": "=="}


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleSection:
    """One rule: which subjects, and what they must reach."""

    name: Annotated[str, file_key("what the rule is called in reports")] = ""
    where: Annotated[dict[str, Any], file_key("labels that select subjects; all must match")] = field(
        default_factory=dict
    )
    require: Annotated[dict[str, Any], Field(min_length=1), file_key("metric: limit", {"ndr": ">= 4 Mpps"})]
    source: Annotated[str, file_key("where the figures were published", "RHOSO 18, 2025")] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlaFile:
    """An SLA file."""

    schema: SchemaVersion
    name: Annotated[str, file_key("what the SLA is called in reports")] = ""
    rules: Annotated[tuple[RuleSection, ...], Field(min_length=1), file_key("each judged by itself")]


def load_sla(path: str | Path, shown: str = "") -> Sla:
    """Read an SLA file.

    Args:
        path: of the file.
        shown: what rules and verdicts call it, in reports that are read elsewhere; as ``path`` by default.

    Raises:
        ConfigError: file (by its path), line, key path, what is wrong and what to write instead.
    """
    return _to_sla(read_document(path), shown)


def unknown_labels(sla: Sla, known: Collection[str]) -> ConfigError | None:
    """The first selector, in ``where`` or in a relation, that nothing has as a label; None when all exist.

    ``known``: labels of the collected tests.
    """
    for rule in sla.rules:
        relations = [("require", name) for _, limit in rule.require for name, _ in limit.relative_to or ()]
        for key, name in [*((f"where.{name}", name) for name, _ in rule.where), *relations]:
            if name not in known and name not in SELECTORS:
                own = sorted(set(known) - set(SELECTORS))
                hint = did_you_mean(name, [*SELECTORS, *own])
                also = f"; labels of the collected tests: {listed(own)}" if own else ""
                return ConfigError(
                    f"{rule.source}.{key}: unknown selector '{name}'{hint} (known: {listed(SELECTORS)}{also}); a test "
                    "has the labels of its parameters and of its nfv markers"
                )
    return None


def sla_warnings(sla: Sla) -> Iterator[str]:
    """What an author can hardly have meant, or should write by now, a line each. The SLA is judged as it stands."""
    yield from sla.renamed
    for rule in sla.rules:
        for metric, limit in rule.require:
            if why := _why_suspect(rule, metric, limit):
                yield f"{rule.source}.require.{metric}: '{limit.text}' {why}"


def _why_suspect(rule: Rule, metric: str, limit: Limit) -> str:
    """Why a limit fails a DUT for being good, or no DUT at all; "" for neither, and for shares and windows."""
    better = METRICS[metric].example[0]
    operators = {other.operator[0] for name, other in rule.require if name == metric}
    if limit.is_share or limit.unit == "line_ratio" or len(operators) > 1 or "=" in operators:
        return ""
    if better not in operators:
        return f"fails a DUT for being better: write '{better}= {limit.text.lstrip('<>= ')}', if that is meant"
    if (better == ">" and limit.value <= 0) or (metric == "loss_ratio" and limit.value >= 1):
        return "" if METRICS[metric].signed else "is met by every DUT"
    sizes = [int(size) for name, accepted in rule.where if name == "frame_size" for size in accepted if size.isdigit()]
    fps = limit.value / 8 / min(sizes, default=MIN_FRAME_SIZE) if limit.unit == "bps" else limit.value
    if limit.unit in {"pps", "bps"} and fps < _LEAST_FPS[metric in GOALS]:
        return f"is {format_fps(fps)}, a thousandth of what switches do: is the unit right?"
    absurd = limit.unit == "ns" and limit.value > _MOST_NS
    return "is a thousand times what switches take: is the unit right?" * absurd


def _to_sla(document: Document, shown: str = "") -> Sla:
    model, file, faults = read_as(SlaFile, document), shown or document.file, Faults(document)
    rules: list[Rule] = []
    renamed: list[str] = []
    for index, rule in enumerate(model.rules):
        path: KeyPath = ("rules", index)
        location = f"{file}:{document.line(path)}: {show_path(path)}"
        rules.append(Rule(*_judged(rule, path, faults), location, rule.name, rule.source))
        for old in (metric for metric in rule.require if metric in RENAMED):
            at = (*path, "require", old)
            renamed.append(f"{file}:{document.line(at)}: {show_path(at)}: it is called {RENAMED[old]} now: write that")
    faults.refuse()
    return Sla(tuple(rules), file, tuple(renamed))


def _judged(rule: RuleSection, path: KeyPath, faults: Faults) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """``where`` and ``require`` of a rule."""
    where: list[tuple[str, tuple[str, ...]]] = []
    require: list[tuple[str, Limit]] = []
    for name, value in rule.where.items():
        with faults.at(*path, "where", name):
            where.append((name, parse_selector(name, value)))
    for written, given in rule.require.items():
        at: KeyPath = (*path, "require", written)
        metric = RENAMED.get(written, written)
        with faults.at(*at):
            if metric not in METRICS:
                raise ValueError(f"unknown metric '{metric}'{did_you_mean(metric, METRICS)} (known: {listed(METRICS)})")
            if given == []:
                raise ValueError(f"{metric} requires nothing: give a limit or leave it out")
            for number, item in enumerate(given if isinstance(given, list) else [given]):
                item_path: KeyPath = (*at, number) if isinstance(given, list) else at
                require += [(metric, limit) for limit in _limit(metric, item, item_path, faults)]
    return tuple(where), tuple(require)


def _limit(metric: str, given: Any, path: KeyPath, faults: Faults) -> Iterator[Limit]:
    """The limit, unless it is noted as a fault."""
    said = given if isinstance(given, dict) else {"limit": given}
    unknown = next((key for key in said if key not in LIMIT_KEYS), None)
    if unknown is not None:
        hint = did_you_mean(str(unknown), LIMIT_KEYS)
        faults.note((*path, unknown), f"unknown key '{unknown}'{hint} (known here: {listed(LIMIT_KEYS)})")
    elif "limit" not in said:
        faults.note((*path, "limit"), f"is missing: write e.g. 'limit: \"{METRICS[metric].example}\"'")
    else:
        with faults.at(*path):
            limit = parse_limit(metric, said["limit"], said.get("at"))
            repeats = parse_repeats(metric, said.get("repeats", 1))
            yield replace(limit, repeats=repeats, **_flows(metric, said["limit"], said.get("flows")))


def _flows(metric: str, text: object, given: object) -> dict[str, Any]:
    """The flows that a limit is about, as fields of it; ValueError for what is no list of flows."""
    if given is None:
        return {}
    example = "write e.g. flows: ['in_port(dpdk0),eth_type(0x0800)'], as ovs-appctl dpctl/dump-flows shows them"
    if metric != OF_FLOWS:
        raise ValueError(f"{metric} is not about single flows: leave 'flows' out ({OF_FLOWS} can have it)")
    if not isinstance(given, list) or not given or not all(isinstance(flow, str) for flow in given):
        raise ValueError(f"flows is {given!r}: {example}")
    for flow in given:
        if not _FLOW.fullmatch(flow.strip()):
            raise ValueError(f"flow {flow!r} is no list of fields: {example}")
    flows = tuple(flow.strip() for flow in given)
    return {"flows": flows, "text": f"{text} of the flows {'; '.join(flows)}"}


# The grammar of one requirement: ``>= 4 Mpps``, ``>= 95 % of {bridges: 1}``, at ``50 % of pdr``.
# Its errors are ValueErrors, which know no file: callers above add the location.


def parse_limit(metric: str, text: object, at: object = None) -> Limit:
    """One bound on a metric.

    Args:
        metric: a key of METRICS.
        text: operator and bound.
        at: the load it is taken at, as written; None without.

    Raises:
        ValueError: what is wrong and what to write instead.
    """
    kind = METRICS[metric]
    if not isinstance(text, str):
        raise ValueError(f"{text!r} has no operator: write e.g. '{kind.example}'")
    match = _LIMIT.fullmatch(text.strip())
    operator, bound = (match["operator"], match["bound"]) if match else ("", text)
    if operator not in OPERATORS:
        written, operators = text.strip(), listed(OPERATORS)
        if not operator:
            raise ValueError(f"'{written}' has no operator: write e.g. '>= {written}' (operators: {operators})")
        plain = operator.translate(LOOK_ALIKES)
        meant = _OPERATOR_SLIPS.get(plain, plain if plain in OPERATORS else None)
        instead = f"'{meant} {written.removeprefix(operator).strip()}'" if meant else f"e.g. '{kind.example}'"
        raise ValueError(f"'{written}' has unknown operator '{operator}': write {instead} (operators: {operators})")
    cores = budget_of(str(at)) if "line_ratio" in kind.also else None
    limit = _bound(metric, kind, operator, bound, " ".join(text.split()))
    if cores is not None and limit.is_share:
        raise ValueError(f"{metric} at {budget_text(cores)} must be a rate: write e.g. '{kind.example}'")
    return replace(limit, at=None if cores else parse_load(metric, at), cores=cores)


def _bound(metric: str, kind: Metric, operator: str, bound: str, shown: str) -> Limit:
    share = _SHARE.fullmatch(bound)
    if share is None:
        value, unit = _absolute(metric, kind, bound)
        return Limit(operator, value, unit, shown)
    ratio = _share(share["share"])
    whole = " ".join(share["whole"].split())
    if whole == "line rate":
        if "line_ratio" not in kind.also:
            raise ValueError(f"{metric} cannot be a share of line rate: write e.g. '{kind.example}'")
        return Limit(operator, ratio, "line_ratio", shown)
    if whole == BASELINE:
        return Limit(operator, ratio, "ratio", shown, of_baseline=True)
    return Limit(operator, ratio, "ratio", shown, relative_to=parse_relation(whole))


def parse_gate(text: str) -> tuple[float, str]:
    """``97 % of last``: the share, and what it is of. ValueError for what is none, or above 100 %."""
    match = _SHARE.fullmatch(text.strip())
    ratio = _share(match["share"]) if match else 0.0
    if match is None or not 0 < ratio <= 1:
        raise ValueError(f"'{text}' is no share of a run, up to 100 %: write '97 % of {LAST}', or '97 % of DIR'")
    return ratio, match["whole"].strip()


def parse_repeats(metric: str, given: object) -> int:
    """How many searches a figure needs; ValueError for a metric that no search finds."""
    if given == 1 and not isinstance(given, bool):
        return 1
    if metric not in GOALS:
        raise ValueError(f"{metric} is not repeated: leave 'repeats' out (searches are: {listed(GOALS)})")
    if not isinstance(given, int) or isinstance(given, bool) or given < 1:
        raise ValueError(f"repeats is {given!r}: write a whole number, such as 5")
    return given


def _share(text: str) -> float:
    if not text.endswith("%"):
        raise ValueError(f"'{text} of' needs a per cent sign: write '{text} % of'")
    return quantity(text, RATIO, "a share")


def _absolute(metric: str, kind: Metric, bound: str) -> tuple[float, str]:
    main, *others = dimensions_of(kind)
    for dimension in others:
        try:
            return quantity(bound, dimension, metric), dimension.unit
        except UnitError:
            continue  # the metric's main dimension, below, raises the error
    if "line_ratio" in kind.also and bound.endswith("%"):
        raise ValueError(f"'{bound}' of what? Write '{bound} of line rate' or '{bound} of {{bridges: 1}}'")
    return quantity(bound, main, metric), main.unit


def parse_load(metric: str, at: object) -> str | None:
    """The load a metric is taken at, in its normal form; None where none is meant."""
    kind = METRICS[metric]
    if at is None:
        if kind.at == "required":
            raise ValueError(f"{metric} needs a load: write '{{at: 50 % of pdr, limit: \"{kind.example}\"}}'")
        return None
    if not kind.at:
        budget = "; a budget of cores is such as '2 cores'" if "line_ratio" in kind.also else ""
        raise ValueError(f"{metric} is not taken at a load: leave 'at' out and write '{kind.example}'{budget}")
    share = _SHARE.fullmatch(str(at).strip())
    if share is None:
        if str(at).strip() in GOALS:
            raise ValueError(f"'{at}' is not a load: write '100 % of {at}'")
        rate = CONNECTION_RATE if str(at).strip().endswith("conn/s") else FRAME_RATE
        return load_in_fps(quantity(at, rate, "the load"))
    if share["whole"] not in GOALS:
        hint = did_you_mean(share["whole"], GOALS)
        raise ValueError(f"a load can be a share of {' or '.join(GOALS)}, not of '{share['whole']}'{hint}")
    ratio = _share(share["share"])
    if ratio == 0:
        raise ValueError(f"'{at}' is no load: write e.g. '50 % of {share['whole']}'")
    return share_of_goal(ratio, share["whole"])


def parse_relation(whole: str) -> tuple[tuple[str, str], ...]:
    """``{bridges: 1}`` or a topology's name: the labels in which the subject of comparison differs."""
    if not whole.startswith("{"):
        if whole in GOALS:
            raise ValueError(f"'{whole}' is a load, not something to compare with: write e.g. '95 % of {{bridges: 1}}'")
        if not _WORD.fullmatch(whole):
            raise ValueError(f"'{whole}' is no topology: write e.g. '95 % of phy2phy' or '95 % of {{bridges: 1}}'")
        return (("topology", whole),)
    try:
        labels = parse_document(whole, "relation").data
    except ConfigError as error:
        raise ValueError(f"'{whole}' cannot be read ({error.message}): write e.g. '{{bridges: 1}}'") from None
    if not labels:
        raise ValueError("'{}' names nothing that differs: write e.g. '{bridges: 1}'")
    pairs = []
    for name, value in labels.items():
        values = parse_selector(name, value)
        if len(values) != 1:
            raise ValueError(f"'{whole}': {name} must be one value to compare with, not {len(values)}")
        pairs.append((str(name), values[0]))
    return tuple(pairs)


def parse_selector(name: object, value: Any) -> tuple[str, ...]:
    """The accepted values of one selector, as labels are written.

    A name that is no selector may be a label of the suite's own; whether any test has it shows
    only when tests are collected (``config.sla_file.unknown_labels``). What can only be a slip is refused here.
    """
    hint = did_you_mean(str(name), SELECTORS, MISSPELT)
    if name not in SELECTORS and (hint or not _LABEL.fullmatch(str(name))):
        raise ValueError(f"unknown selector '{name}'{hint} (known: {listed(SELECTORS)})")
    values = value if isinstance(value, list) else [value]
    if not values:
        raise ValueError(f"{name} selects nothing: give a value or leave it out")
    return tuple(_label(str(name), item) for item in values)


def _label(name: str, value: Any) -> str:
    selector = SELECTORS.get(name)
    if isinstance(value, bool) and (selector is None or set(selector.values) == set(ON_OR_OFF.values())):
        return ON_OR_OFF[value]
    if isinstance(value, bool | float | dict | list) or value is None:
        raise ValueError(f"{name} must be a word or a whole number, not {value!r}")
    text = str(value).strip()
    if selector is None:
        selector = Selector("a label of the suite's own")
    if name == "frame_size":
        return _frame_size(text)
    if name == "flows":
        match = _FLOWS.fullmatch(text)
        if match is None or int(match["number"]) == 0:
            raise ValueError(f"flows must be a whole number from 1, such as 1000, 10k or 1M, not '{text}'")
        return str(int(match["number"]) * _FACTORS[match["factor"]])
    if selector.number and not (text.isascii() and text.isdigit()):
        raise ValueError(f"{name} must be a whole number, not '{text}'")
    if selector.values and text not in selector.values and not (selector.foreign and ":" in text):
        raise ValueError(
            f"{name} must be {' or '.join(selector.values)}, not '{text}'{did_you_mean(text, selector.values)}"
        )
    if not text:
        raise ValueError(f"{name} is empty: give a value or leave it out")
    return text


def _frame_size(text: str) -> str:
    if text.isascii() and text.isdigit():
        check_frame_size(int(text))
        return str(int(text))
    names = [f"imix-{name}" for name in IMIXES]
    if text not in names:
        raise ValueError(f"frame_size must be bytes or {listed(names)}, not '{text}'{did_you_mean(text, names)}")
    return text
