"""What the PMD threads counted, from whichever listing this version has.

OVS has ``dpif-netdev/pmd-stats-show`` up to 3.x and ``pmd-perf-show`` (no busy cycles in it) after.
Parsed strictly: a listing of another shape is an error, a counter that is not listed is absent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pytest_nfvperf.model.errors import TestbedError

_THREAD = re.compile(r"^(?:pmd thread numa_id \d+ core_id (?P<core>\d+)|(?P<main>main thread)):?$")
_COUNT = re.compile(r"^-?\s*(?P<name>[A-Za-z][A-Za-z ]*?):\s+(?P<count>\d+)(?:\s|$)")

_STATS_NAMES = {
    "packets received": "packets_received",
    "packet recirculations": "recirculations",
    "phwol hits": "phwol_hits",
    "mfex opt hits": "mfex_opt_hits",
    "simple match hits": "simple_match_hits",
    "emc hits": "emc_hits",
    "smc hits": "smc_hits",
    "megaflow hits": "megaflow_hits",
    "miss with success upcall": "upcalls_ok",
    "miss with failed upcall": "upcalls_failed",
    "idle cycles": "cycles_idle",
    "processing cycles": "cycles_busy",
}
_PERF_NAMES = {
    "rx packets": "packets_received",
    "tx packets": "tx_packets",
    "phwol hits": "phwol_hits",
    "mfex opt hits": "mfex_opt_hits",
    "simple match hits": "simple_match_hits",
    "emc hits": "emc_hits",
    "smc hits": "smc_hits",
    "megaflow hits": "megaflow_hits",
    "upcalls": "upcalls_ok",
    "lost upcalls": "upcalls_failed",
    "used tsc cycles": "cycles_used",
    "iterations": "iterations",
}


LOOKUP_ENDS = (
    "phwol_hits",
    "simple_match_hits",
    "emc_hits",
    "smc_hits",
    "megaflow_hits",
    "upcalls_ok",
    "upcalls_failed",
)
"""Where a lookup ends, as far as a version has it: they add up to the packets received and recirculated.

``mfex_opt_hits`` is none of them: it counts headers that were parsed by an optimised function.
"""


def parse_pmd_stats(text: str) -> dict[str, int]:
    """Counters of ``pmd-stats-show``: "pmd.c01.emc_hits" of one PMD, "pmd.emc_hits" of all, "main.emc_hits"."""
    return _parse(text, _STATS_NAMES)


_LOOKUPS = ("emc_hits", "smc_hits", "megaflow_hits", "upcalls_ok", "upcalls_failed")
"""Listed by ``pmd-perf-show`` only for a thread that has received something: 0 indeed for one that has not."""


def parse_pmd_perf(text: str) -> dict[str, int]:
    """Counters of ``pmd-perf-show``, named alike; the cycles are only "cycles_used" (busy and idle)."""
    counters = _parse(text, _PERF_NAMES)
    idle = [name.rpartition(".")[0] for name, count in counters.items() if (name[-8:], count) == ("received", 0)]
    return {f"{thread}.{lookup}": 0 for thread in idle for lookup in _LOOKUPS} | counters


def _parse(text: str, names: dict[str, str]) -> dict[str, int]:
    counters: dict[str, int] = {}
    for thread, name, count in _counts(text, names):
        counters[f"{thread}.{name}"] = count
        if thread != "main":
            counters[f"pmd.{name}"] = counters.get(f"pmd.{name}", 0) + count
    return counters


def _counts(text: str, names: dict[str, str]) -> Iterator[tuple[str, str, int]]:
    thread: str | None = None
    for line in map(str.strip, text.splitlines()):
        header = _THREAD.match(line)
        if header is not None:
            thread = "main" if header["main"] else f"pmd.c{int(header['core']):02d}"
            continue
        count = _COUNT.match(line)
        name = names.get(count["name"].lower()) if count is not None else None
        if count is None or name is None:
            continue
        if thread is None:
            raise TestbedError(f"PMD statistics begin with {line!r}, not with a thread", evidence={"listing": text})
        yield thread, name, _signed(int(count["count"]))


def _signed(count: int) -> int:
    """OVS takes what a PMD slept from its idle cycles; those of a PMD that was stopped can be below 0 by that."""
    return count - (1 << 64) if count >= 1 << 63 else count
