"""JSON schemas of the files that users write, for editors: ``nfvperf schema``. A test holds reports/schema/ current."""

from __future__ import annotations

import json
import re
from typing import Any

from pytest_nfvperf.config.sla_file import OF_FLOWS, OPERATORS, SELECTORS, Selector, SlaFile
from pytest_nfvperf.config.testbed_file import TestbedFile
from pytest_nfvperf.config.traffic_file import TrafficFile
from pytest_nfvperf.config.validate import json_schema
from pytest_nfvperf.model.metrics import GOALS, METRICS, Metric


def schema_of_sla() -> dict[str, Any]:
    """Schema of an SLA file: pydantic's, with the words of the language put in."""
    schema = json_schema(SlaFile, "pytest_nfvperf SLA file")
    properties = schema["$defs"]["RuleSection"]["properties"]
    own = {"type": ["string", "integer", "boolean"]}
    properties["where"] |= {
        "properties": {name: _selector(selector) for name, selector in SELECTORS.items()},
        # Labels of tests' parameters and markers, which only a collection knows.
        "additionalProperties": {
            "description": "a parameter or nfv marker of the tests",
            "anyOf": [own, {"type": "array", "items": own, "minItems": 1}],
        },
        "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_]*$"},
    }
    properties["require"] |= {
        "properties": {name: _metric(name, metric) for name, metric in METRICS.items()},
        "additionalProperties": False,
    }
    return schema


def _selector(selector: Selector) -> dict[str, Any]:
    one: dict[str, Any] = {"type": ["string", "integer"]}
    if selector.values:
        one = {"enum": list(selector.values)}
    if selector.foreign:
        one = {"anyOf": [one, {"type": "string", "pattern": ".:."}]}
    return {"description": selector.meaning, "anyOf": [one, {"type": "array", "items": one, "minItems": 1}]}


def _metric(name: str, metric: Metric) -> dict[str, Any]:
    operators = "|".join(re.escape(operator) for operator in OPERATORS)
    bound: dict[str, Any] = {
        "type": "string",
        "pattern": rf"^\s*({operators})\s*[^\s<>=]",
        "examples": [metric.example],
    }
    forms: list[dict[str, Any]] = [bound] if metric.at != "required" else []
    optional: dict[str, Any] = {}
    if metric.at:
        optional["at"] = {"type": "string", "examples": ["50 % of pdr", "4 Mpps"]}
    if "line_ratio" in metric.also:
        optional["at"] = {"type": "string", "pattern": r"^\s*\d+\s+cores?\s*$", "examples": ["2 cores"]}
    if name in GOALS:
        optional["repeats"] = {"type": "integer", "minimum": 1, "examples": [5]}
    if name == OF_FLOWS:
        optional["flows"] = {
            "type": "array",
            "items": {"type": "string"},
            "minItems": 1,
            "examples": [["in_port(dpdk0),eth_type(0x0800)"]],
        }
    if optional:
        properties = {**optional, "limit": bound}
        required = ["at", "limit"] if metric.at == "required" else ["limit"]
        forms.append({"type": "object", "properties": properties, "required": required, "additionalProperties": False})
    return {
        "description": f"{metric.title}: {metric.meaning}",
        "anyOf": [*forms, {"type": "array", "items": {"anyOf": forms}, "minItems": 1}],
    }


def published() -> dict[str, str]:
    """File name and text of every schema."""
    schemas = {
        "testbed.schema.json": json_schema(TestbedFile, "pytest_nfvperf testbed file"),
        "sla.schema.json": schema_of_sla(),
        "traffic.schema.json": json_schema(TrafficFile, "pytest_nfvperf traffic file"),
    }
    return {name: json.dumps(schema, indent=2, ensure_ascii=False) + "\n" for name, schema in schemas.items()}
