"""The published JSON schema of one evidence line, and the strict parser made from the same types."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from pytest_nfvperf.model.compare.record import ComparisonData
from pytest_nfvperf.model.evidence.connect_record import ConnectData
from pytest_nfvperf.model.evidence.record import SCHEMA_VERSION
from pytest_nfvperf.model.evidence.records import (
    AttachmentData,
    ErrorData,
    LedgerData,
    RunData,
    RunEndData,
    SoakData,
    StreamData,
    TestData,
    TestEndData,
    TopologyData,
    TrialData,
)
from pytest_nfvperf.model.evidence.request_record import RequestData
from pytest_nfvperf.model.measure.outcome import Outcome
from pytest_nfvperf.model.measure.reconnection import Reconnection
from pytest_nfvperf.model.sla.verdict import Verdict


class Envelope(BaseModel):
    """What every line carries. Unknown keys are allowed: later versions of the project only add."""

    model_config = ConfigDict(frozen=True, populate_by_name=True)

    schema_version: Literal[1] = Field(alias="schema", description="Version of this format.")
    id: str = Field(description='Unique in the run and readable: "trial-0012".')
    run: str = Field(description="Run id.")
    test: str = Field(description="pytest node id; empty for records of the run itself.")
    time_ns: int = Field(description="Wall clock, ns since the epoch.")


class RunLine(Envelope):
    """The run: first line."""

    kind: Literal["run"]
    data: RunData


class TestLine(Envelope):
    """A test began."""

    __test__ = False

    kind: Literal["test"]
    data: TestData


class TrialLine(Envelope):
    """One finished trial."""

    kind: Literal["trial"]
    data: TrialData


class BoundingLedgerLine(Envelope):
    """The whole ledger of a trial that bounds a result."""

    kind: Literal["ledger"]
    data: LedgerData


class StreamLine(Envelope):
    """One finished run of streams."""

    kind: Literal["stream"]
    data: StreamData


class RequestsLine(Envelope):
    """One finished run of requests and responses."""

    kind: Literal["requests"]
    data: RequestData


class ConnectsLine(Envelope):
    """One finished run of TCP connects."""

    kind: Literal["connects"]
    data: ConnectData


class ReconnectionLine(Envelope):
    """A restart of the DUT, and what it interrupted."""

    kind: Literal["reconnection"]
    data: Reconnection


class SoakLine(Envelope):
    """A soak's summary and curves."""

    kind: Literal["soak"]
    data: SoakData


class OutcomeLine(Envelope):
    """What a search or sweep found."""

    kind: Literal["outcome"]
    data: Outcome


class VerdictLine(Envelope):
    """One requirement judged."""

    kind: Literal["verdict"]
    data: Verdict


class ComparisonLine(Envelope):
    """Sides of a comparison against its baseline."""

    kind: Literal["comparison"]
    data: ComparisonData


class TopologyLine(Envelope):
    """The test deployed a topology."""

    kind: Literal["topology"]
    data: TopologyData


class AttachmentLine(Envelope):
    """A named text or file."""

    kind: Literal["attachment"]
    data: AttachmentData


class ErrorLine(Envelope):
    """A testbed error with its evidence."""

    kind: Literal["error"]
    data: ErrorData


class TestEndLine(Envelope):
    """A test ended."""

    __test__ = False

    kind: Literal["test_end"]
    data: TestEndData


class RunEndLine(Envelope):
    """The run ended: last line, absent when the run was killed."""

    kind: Literal["run_end"]
    data: RunEndData


Line = Annotated[
    RunLine
    | TestLine
    | TrialLine
    | BoundingLedgerLine
    | StreamLine
    | RequestsLine
    | ConnectsLine
    | ReconnectionLine
    | SoakLine
    | OutcomeLine
    | VerdictLine
    | ComparisonLine
    | TopologyLine
    | AttachmentLine
    | ErrorLine
    | TestEndLine
    | RunEndLine,
    Field(discriminator="kind"),
]

_LINE: TypeAdapter[Line] = TypeAdapter(Line)


def parse_line(text: bytes | str) -> Line:
    """One line as typed data. Raises pydantic.ValidationError, strict: no text is taken for a number."""
    return _LINE.validate_json(text, strict=True)


def evidence_schema() -> dict[str, Any]:
    """JSON schema (2020-12) of one evidence line."""
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "pytest_nfvperf evidence, one line",
        "description": f"Schema version {SCHEMA_VERSION}. Files are JSON lines; see docs/evidence-schema.md.",
    }
    return head | _LINE.json_schema(by_alias=True)


def schema_text() -> str:
    """The schema as published in reports/schema/evidence.schema.json."""
    return json.dumps(evidence_schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    print(schema_text(), end="")
