"""sockperf's log of all messages (``--full-log``): when each was sent, and when its response came."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from pytest_nfvperf.model.errors import GeneratorError
from pytest_nfvperf.model.traffic.histogram import Histogram, thinned

_NAMES = ("txTime", "rxTime")
_EXACT_DIGITS = 9
"""Times are whole nanoseconds."""
_KEPT_DIGITS = 3


def read_log(path: Path) -> tuple[Histogram, int, int]:
    """Response times, requests without a response, and ns from the first request to the last.

    Raises:
        GeneratorError: the log is not there, or holds no message.
    """
    try:
        lines = path.read_text(encoding="ascii", errors="replace").splitlines()
    except FileNotFoundError as error:
        raise GeneratorError("sockperf ended without having written its log of messages") from error
    messages = list(_messages(lines))
    if not messages:
        raise GeneratorError("sockperf logged no message", evidence={"its log": "\n".join(lines[:20])})
    answered = [rx - tx for tx, rx in messages if rx >= tx]
    counts = Counter(answered)
    exact = Histogram(tuple(sorted(counts.items())), min(counts, default=0), max(counts, default=0), _EXACT_DIGITS)
    sent = [tx for tx, _ in messages]
    return thinned(exact, _KEPT_DIGITS), len(messages) - len(answered), max(sent) - min(sent)


def _messages(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """When each was sent and answered, ns. Versions differ in their columns, which a line names: "txTime(sec)"."""
    columns: tuple[int, int] | None = None
    for line in lines:
        fields = [field.strip() for field in line.split(",")]
        named = [next((n for n, field in enumerate(fields) if field.startswith(name)), None) for name in _NAMES]
        if named[0] is not None and named[1] is not None:
            columns = named[0], named[1]
        elif columns is not None and len(fields) > max(columns):
            yield _ns(fields[columns[0]]), _ns(fields[columns[1]])


def _ns(text: str) -> int:
    """Seconds with up to nine decimals, exactly; GeneratorError for what is no number."""
    whole, _, fraction = text.strip().partition(".")
    try:
        return int(whole) * 1_000_000_000 + int(fraction.ljust(9, "0")[:9])
    except ValueError as error:
        raise GeneratorError(f"sockperf logged {text!r} as a time") from error
