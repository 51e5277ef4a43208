"""SLA files: reading and checking. The language is described in docs/sla-language.md."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, field_validator

from pytest_nfvperf.config.limit import parse_limit, parse_repeats, parse_selector
from pytest_nfvperf.config.strict import Strict
from pytest_nfvperf.config.validate import validated
from pytest_nfvperf.config.vocabulary import METRICS, SELECTORS
from pytest_nfvperf.config.yaml_file import Document, KeyPath, parse_document, read_document, show_path
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.near import did_you_mean, listed
from pytest_nfvperf.model.sla.rules import Limit, Rule, Sla, unmatched_rules

LIMIT_KEYS = ("at", "limit", "repeats")

__all__ = ["load_sla", "parse_sla", "unknown_labels", "unmatched_rules"]


class RuleModel(Strict):
    """One rule: which subjects, and what they must reach."""

    name: str = Field(default="", description="what the rule is called in reports")
    where: dict[str, Any] = Field(default_factory=dict, description="labels that select subjects; all must match")
    require: dict[str, Any] = Field(description="metric: limit", examples=[{"ndr": ">= 4 Mpps"}], min_length=1)
    source: str = Field(default="", description="where the figures were published", examples=["RHOSO 18, 2025"])


class SlaModel(Strict):
    """An SLA file."""

    model_config = ConfigDict(title="pytest_nfvperf SLA file")

    schema_: Annotated[Literal[1], Field(alias="schema", description="version of this format", examples=[1])]
    name: str = Field(default="", description="what the SLA is called in reports")
    rules: tuple[RuleModel, ...] = Field(description="each judged by itself", min_length=1)

    @field_validator("schema_", mode="before")
    @classmethod
    def _known_version(cls, value: Any) -> Any:
        if value is not True and value == 1:
            return value
        raise ValueError(f"this is schema {value!r}, but only schema 1 is known: write 'schema: 1'")


def load_sla(path: str | Path, shown: str = "") -> Sla:
    """Read an SLA file.

    Args:
        path: of the file.
        shown: what rules and verdicts call it, in reports that are read elsewhere; as ``path`` by default.

    Raises:
        ConfigError: file (by its path), line, key path, what is wrong and what to write instead.
    """
    return _to_sla(read_document(path), shown)


def parse_sla(text: str, file: str = "<sla>") -> Sla:
    """As :func:`load_sla`, from text; ``file`` is what messages call it."""
    return _to_sla(parse_document(text, file))


def unknown_labels(sla: Sla, known: Collection[str]) -> ConfigError | None:
    """The first selector, in ``where`` or in a relation, that is no label of anything; None when all are.

    Args:
        sla: read by load_sla.
        known: labels that the collected tests have.
    """
    for rule in sla.rules:
        relations = [name for _, limit in rule.require for name, _ in limit.relative_to or ()]
        for name in [*(name for name, _ in rule.where), *relations]:
            if name not in known and name not in SELECTORS:
                own = sorted(set(known) - set(SELECTORS))
                hint = did_you_mean(name, [*SELECTORS, *own])
                also = f"; labels of the collected tests: {listed(own)}" if own else ""
                return ConfigError(
                    f"{rule.source}: unknown selector '{name}'{hint} (known: {listed(SELECTORS)}{also}); a test has "
                    "the labels of its parameters and of its nfv markers"
                )
    return None


def _to_sla(document: Document, shown: str = "") -> Sla:
    model, file = validated(SlaModel, document), shown or document.file
    rules = (_to_rule(rule, document, file, ("rules", index)) for index, rule in enumerate(model.rules))
    return Sla(tuple(rules), file)


def _to_rule(rule: RuleModel, document: Document, file: str, path: KeyPath) -> Rule:
    where = tuple((name, _selector(name, value, document, path)) for name, value in rule.where.items())
    require = tuple(
        (metric, limit)
        for metric, given in rule.require.items()
        for limit in _limits(metric, given, document, (*path, "require", metric))
    )
    place = f"{file}:{document.line(path)}: {show_path(path)}"
    return Rule(where, require, place, rule.name, rule.source)


def _selector(name: str, value: Any, document: Document, path: KeyPath) -> tuple[str, ...]:
    try:
        return parse_selector(name, value)
    except ValueError as error:
        raise document.error(str(error), (*path, "where", name)) from None


def _limits(metric: str, given: Any, document: Document, path: KeyPath) -> tuple[Limit, ...]:
    if metric not in METRICS:
        hint = did_you_mean(metric, METRICS)
        raise document.error(f"unknown metric '{metric}'{hint} (known: {listed(METRICS)})", path)
    if isinstance(given, list):
        if not given:
            raise document.error(f"{metric} requires nothing: give a limit or leave it out", path)
        return tuple(_limit(metric, item, document, (*path, index)) for index, item in enumerate(given))
    return (_limit(metric, given, document, path),)


def _limit(metric: str, given: Any, document: Document, path: KeyPath) -> Limit:
    at, text, repeats = None, given, 1
    if isinstance(given, dict):
        unknown = [key for key in given if key not in LIMIT_KEYS]
        if unknown:
            hint = did_you_mean(str(unknown[0]), LIMIT_KEYS)
            known = listed(LIMIT_KEYS)
            raise document.error(f"unknown key '{unknown[0]}'{hint} (known here: {known})", (*path, unknown[0]))
        if "limit" not in given:
            raise document.error(f"is missing: write e.g. 'limit: \"{METRICS[metric].example}\"'", (*path, "limit"))
        at, text, repeats = given.get("at"), given["limit"], given.get("repeats", 1)
    try:
        return replace(parse_limit(metric, text, at), repeats=parse_repeats(metric, repeats))
    except ValueError as error:
        raise document.error(str(error), path) from None
