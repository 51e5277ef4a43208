"""The published JSON schema of one evidence line, and the strict parser: both follow from the registry of kinds."""

from __future__ import annotations

import json
from functools import reduce
from operator import or_
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, create_model

from pytest_nfvperf.model.evidence.records import SCHEMA_VERSION, RecordKind


class Line(BaseModel):
    """Fields of every line. Unknown keys are allowed: later versions of the project only add keys."""

    model_config = ConfigDict(frozen=True, populate_by_name=True)

    schema_version: Literal[3] = Field(alias="schema", description="Version of this format.")
    id: str = Field(description='Unique in the run and readable: "trial-0012".')
    run: str = Field(description="Run id.")
    test: str = Field(description="pytest node id; empty for records of the run itself.")
    time_ns: int = Field(description="Wall clock, ns since the epoch.")
    kind: str
    data: Any


def _line_of(kind: RecordKind) -> Any:
    # The model has a LedgerLine of its own.
    name = "BoundingLedger" if kind is RecordKind.LEDGER else kind.title().replace("_", "")
    fields: dict[str, Any] = {"kind": (Literal[kind.value], ...), "data": (kind.data, ...)}
    return create_model(f"{name}Line", __base__=Line, __doc__=kind.meaning, **fields)


_ANY_LINE: Any = Annotated[reduce(or_, map(_line_of, RecordKind)), Field(discriminator="kind")]
_LINE: TypeAdapter[Line] = TypeAdapter(_ANY_LINE)


def parse_line(text: bytes | str) -> Line:
    """One line as typed data.

    pydantic.ValidationError if it is no such line, or of another version. Strict: text is no number.
    """
    return _LINE.validate_json(text, strict=True, by_alias=True, by_name=True)


def schema_text() -> str:
    return json.dumps(evidence_schema(), indent=2, ensure_ascii=False) + "\n"


def evidence_schema() -> dict[str, Any]:
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "pytest_nfvperf evidence, one line",
        "description": f"Schema version {SCHEMA_VERSION}. Files are JSON lines; see docs/reference/evidence.md.",
    }
    return head | _LINE.json_schema(by_alias=True, mode="serialization")
