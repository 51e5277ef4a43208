"""What ``sla.check`` cannot judge, and what to write instead."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.measure.outcome import Outcome
from pytest_nfvperf.model.measure.stream_measurement import StreamResult
from pytest_nfvperf.runs.stream_runner import StreamRun


def refuse_others(given: Sequence[object]) -> None:
    """Raise ConfigError for the first that is no Outcome, or where there is nothing to judge."""
    if not given:
        raise ConfigError("sla.check() has nothing to judge: give it what search, study or soak returned")
    for one in given:
        if not isinstance(one, Outcome):
            raise ConfigError(f"sla.check() judges an Outcome, which search, study and soak return, {_instead(one)}")


def refuse_no_list(given: object) -> None:
    """Raise ConfigError for what is no list of outcomes."""
    if not isinstance(given, (list, tuple)):
        what = "write sla.check(outcome) for one" if isinstance(given, Outcome) else _instead(given)
        raise ConfigError(f"sla.check_each() judges a list of outcomes: {what}")


def _instead(stranger: object) -> str:
    match stranger:
        case None:
            return "not None: does the function that measured return its Outcome?"
        case StreamRun() | StreamResult():
            return (
                "not one run of streams, which has no interval to judge by. Measure TCP by study.tcp_throughput(...) "
                "and judge by sla.check_each(...), or assert on the run's result, such as "
                "run.result.goodput_bps > 1e9 (docs/how-to/streams.md)"
            )
        case list() | tuple():
            return (
                f"not a {type(stranger).__name__}: write sla.check_each(outcomes) for outcomes of several subjects, "
                "sla.check(*outcomes) for several of one"
            )
    return f"not {stranger!r}"
