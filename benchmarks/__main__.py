"""``python -m benchmarks``: all of them, or those whose names are given."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.bisections import bisections
from benchmarks.chains import patch_chain_flat
from benchmarks.comparisons import planted_handicaps, same_against_same
from benchmarks.faults import injected_faults
from benchmarks.generator import against_testpmd, large_frames, lossless, pacing
from benchmarks.ledger import ledger_cost
from benchmarks.plugin_start import plugin_start
from benchmarks.rack import rack
from benchmarks.report_size import report_size
from benchmarks.scale import chain_against_vsctl, long_chains, many_namespaces, many_ports
from benchmarks.searches import gate_beside_quick, quick_repeats, repeats_beside_work
from benchmarks.soak import soak_sampling
from benchmarks.table import Figure, show
from benchmarks.testbench import Bench, bench
from benchmarks.times import cpu_of_pytest, ovs_ready, topology_change
from benchmarks.witness import band_witness

BENCHMARKS: dict[str, Callable[[Bench], list[Figure]]] = {
    "plugin-start": plugin_start,
    "report-size": report_size,
    "bisections": bisections,
    "rack": rack,
    "ovs-ready": ovs_ready,
    "topology-change": topology_change,
    "ledger-cost": ledger_cost,
    "cpu-of-pytest": cpu_of_pytest,
    "chain-against-vsctl": chain_against_vsctl,
    "long-chains": long_chains,
    "many-namespaces": many_namespaces,
    "many-ports": many_ports,
    "pacing": pacing,
    "large-frames": large_frames,
    "lossless": lossless,
    "against-testpmd": against_testpmd,
    "quick-repeats": quick_repeats,
    "repeats-beside-work": repeats_beside_work,
    "patch-chain-flat": patch_chain_flat,
    "soak-sampling": soak_sampling,
    "faults": injected_faults,
    "band-witness": band_witness,
    "gate": gate_beside_quick,
    "same-against-same": same_against_same,
    "handicaps": planted_handicaps,
}

ASKED_FOR = {"gate", "handicaps", "rack", "same-against-same"}
"""Those that take minutes to the better part of an hour: run when they are named."""


def main(names: list[str]) -> int:
    """Run benchmarks and show the figures."""
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        print(f"no benchmark {unknown[0]!r}; there are: {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    results = Path("reports") / f"bench-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    figures: list[Figure] = []
    with bench(results) as made:
        for name in names or [name for name in BENCHMARKS if name not in ASKED_FOR]:
            print(f"{name} ...", flush=True)
            figures += BENCHMARKS[name](made)
    show(figures, results / "figures.json")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
