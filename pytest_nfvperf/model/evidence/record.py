"""Evidence records: one JSON object a line, written as things happen.

Every record has the same envelope; ``data`` is the model object as plain JSON. The published
schema is in reports/schema/.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Any

from pytest_nfvperf.model.text import storable

SCHEMA_VERSION = 1


class RecordKind(StrEnum):
    """What a record is about."""

    RUN = "run"  # versions, command line, testbed, fingerprint: first record of a run
    TEST = "test"  # a test began (labels, parameters)
    TRIAL = "trial"  # one finished trial, valid or not, with ledger and cost
    LEDGER = "ledger"  # the whole ledger of a trial that bounds a result, hop by hop
    SOAK = "soak"  # a soak's summary and curves; its samples are in a file beside the evidence
    STREAM = "stream"  # one finished run of streams, valid or not
    REQUESTS = "requests"  # one finished run of requests and responses
    CONNECTS = "connects"  # one finished run of TCP connects
    RECONNECTION = "reconnection"  # a restart of the DUT, and what it interrupted
    OUTCOME = "outcome"  # what a search or sweep found
    VERDICT = "verdict"  # one requirement judged
    COMPARISON = "comparison"  # sides of a comparison against its baseline, with the decisions
    TOPOLOGY = "topology"  # what a test deployed, and on which datapath
    ATTACHMENT = "attachment"  # a named text or file (OVS configuration, log)
    ERROR = "error"  # a testbed error with its evidence
    TEST_END = "test_end"  # a test ended: status, seconds
    RUN_END = "run_end"  # last record; absent when the run was killed


@dataclass(frozen=True, slots=True)
class Record:
    """One line of evidence.

    Attributes:
        id: unique in the run and readable, e.g. "trial-0012".
        run: run id. test: pytest node id, or "" for records of the run itself.
        time_ns: wall clock, ns since the epoch.
        data: plain JSON.
    """

    kind: RecordKind
    id: str
    run: str
    test: str
    time_ns: int
    data: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """The line as it is written."""
        return {
            "schema": SCHEMA_VERSION,
            "kind": str(self.kind),
            "id": self.id,
            "run": self.run,
            "test": self.test,
            "time_ns": self.time_ns,
            "data": self.data,
        }


def without_defaults(value: Any, keep: frozenset[str], whole: frozenset[str]) -> Any:
    """As ``plain``, without the fields that have their default, which a reader puts in again.

    Args:
        value: a model object.
        keep: fields that are written all the same.
        whole: fields that are written as ``plain`` does, with all that is in them.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        written = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        default = {field.name: _default(field) for field in dataclasses.fields(value)}
        return {
            name: plain(item) if name in whole else without_defaults(item, keep, whole)
            for name, item in written.items()
            if name in keep or item != default[name] or type(item) is not type(default[name])
        }
    if isinstance(value, (list, tuple)):
        return [without_defaults(item, keep, whole) for item in value]
    return plain(value)


def _default(field: dataclasses.Field[Any]) -> Any:
    factory = field.default_factory
    return field.default if factory is dataclasses.MISSING else factory()


def plain(value: Any) -> Any:
    """A model object as plain JSON: dataclasses to dicts, tuples to lists, enums to their values.

    Texts are as a file can hold them: names of tests and paths may have surrogates, which no reader of JSON takes.
    """
    if isinstance(value, str) and not isinstance(value, Enum):
        return storable(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, dict):
        return {storable(str(key)): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value
