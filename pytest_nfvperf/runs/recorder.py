"""Turns what happens into evidence records with readable ids, and hands them to the sinks."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from pytest_nfvperf.model.evidence.records import KINDS, EncodeHistogram, ErrorData, RecordIds, RecordKind, make_record
from pytest_nfvperf.model.measure.outcome import Outcome
from pytest_nfvperf.model.sla.verdict import Verdict
from pytest_nfvperf.ports.evidence import Sink
from pytest_nfvperf.ports.machine import Clock


class Recorder:
    """Numbers records within a run and knows which test is running.

    ``sinks``: take every record in this order; the file comes first, so that what others show is on disk already.
    ``worker``: "" or the xdist worker's name, which keeps ids of parallel workers apart. ``encode``: makes the text of
    a trial's exact histograms. ``findings``: of the running test; whoever starts a test clears it.
    """

    def __init__(
        self,
        run: str,
        sinks: Sequence[Sink],
        clock: Clock,
        worker: str = "",
        encode: EncodeHistogram | None = None,
    ) -> None:
        self.run = run
        self.encode = encode
        self.test = ""
        self.findings: list[Outcome | Verdict | ErrorData] = []
        self._sinks = tuple(sinks)
        self._clock = clock
        self._ids = RecordIds(worker)

    def next_id(self, kind: RecordKind) -> str:
        return self._ids.next(kind)

    def emit(self, payload: object, record_id: str | None = None) -> str:
        record = make_record(
            payload,
            id=record_id or self.next_id(KINDS[type(payload)]),
            run=self.run,
            test=self.test,
            time_ns=self._clock.time_ns(),
        )
        if isinstance(payload, (Outcome, Verdict, ErrorData)):
            self.findings.append(payload)
        for sink in self._sinks:
            sink.emit(record)
        return record.id

    def close(self) -> None:
        with ExitStack() as closing:
            for sink in reversed(self._sinks):
                closing.callback(sink.close)
