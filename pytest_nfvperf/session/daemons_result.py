"""What routing daemons did not do in time is the DUT's result, unless the machine did not let them run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from pytest_nfvperf.adapters.host.cpu_account import CpuWaits
from pytest_nfvperf.model.display import format_seconds
from pytest_nfvperf.model.errors import DeadlineError, DutFailure, InconclusiveError

MOST_WAITED = 0.1
"""Share of the time until the deadline that a daemon may have been ready and without a CPU. BFD ends a session after
150 ms, BGP retries in seconds: a tenth of a deadline of some seconds is more than either bears."""


@contextmanager
def daemons_result(pids: Callable[[], Mapping[str, int]]) -> Iterator[None]:
    """Around a wait for what daemons have to do.

    Args:
        pids: of the daemons that run, by name.

    Raises:
        DutFailure: the deadline passed while the daemons could run; with the wait's evidence.
        InconclusiveError: it passed, and a daemon waited for a CPU for much of the time.
    """
    waits, began = CpuWaits(pids()), time.monotonic()
    try:
        yield
    except DeadlineError as error:
        who, waited_s = waits.longest(pids())
        elapsed_s = time.monotonic() - began
        if waited_s > MOST_WAITED * elapsed_s:
            raise InconclusiveError(
                f"{error.message}. But {who} was ready and waited {format_seconds(waited_s)} of "
                f"{format_seconds(elapsed_s)} for a CPU: the machine was too busy for its daemons; leave it alone "
                "meanwhile"
            ) from error
        raise DutFailure(error.message, evidence=error.evidence) from error
