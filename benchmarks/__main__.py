"""``python -m benchmarks``: all of them, or those whose names are given."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.bisections import bisections
from benchmarks.chains import patch_chain_flat
from benchmarks.comparisons import handicaps_of_five_percent, handicaps_of_two_percent, same_against_same
from benchmarks.dearer_bisections import dearer_bisections
from benchmarks.faults import injected_faults
from benchmarks.frame_costs import frame_costs
from benchmarks.generator import against_testpmd, large_frames, lossless, pacing
from benchmarks.killed_bisections import killed_bisections
from benchmarks.ledger import ledger_cost
from benchmarks.lost_workers import lost_workers
from benchmarks.mutations import mutations
from benchmarks.noise import causes_of_noise
from benchmarks.overlays import overlay_cost
from benchmarks.plugin_start import plugin_start
from benchmarks.rack import rack
from benchmarks.report_size import report_size
from benchmarks.rings import rings
from benchmarks.scale import chain_against_vsctl, long_chains, many_namespaces, many_ports
from benchmarks.searches import gate_against_quick, quick_repeats, repeats_under_load
from benchmarks.slower_bisections import slower_bisections
from benchmarks.soak import soak_sampling
from benchmarks.table import Figure, show
from benchmarks.testbench import Bench, bench
from benchmarks.times import cpu_of_pytest, ovs_ready, topology_change
from benchmarks.whole_runs import whole_runs

WITHOUT_RIG: dict[str, Callable[[], list[Figure]]] = {
    "plugin-start": plugin_start,
    "report-size": report_size,
    "frame-costs": frame_costs,
    "rack": rack,
    "lost-workers": lost_workers,
    "killed-bisections": killed_bisections,
    "slower-bisections": slower_bisections,
    "dearer-bisections": dearer_bisections,
    "whole-runs": whole_runs,
    "mutations": mutations,
}
"""Those that need no rig, or have rigs of their own: they run before the one of all others takes the CPUs."""

ON_THE_RIG: dict[str, Callable[[Bench], list[Figure]]] = {
    "bisections": bisections,
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
    "rings": rings,
    "quick-repeats": quick_repeats,
    "repeats-beside-work": repeats_under_load,
    "patch-chain-flat": patch_chain_flat,
    "overlay-cost": overlay_cost,
    "soak-sampling": soak_sampling,
    "faults": injected_faults,
    "causes-of-noise": causes_of_noise,
    "gate": gate_against_quick,
    "same-against-same": same_against_same,
    "handicaps-5": handicaps_of_five_percent,
    "handicaps-2": handicaps_of_two_percent,
}

ASKED_FOR = {
    "gate",
    "handicaps-2",
    "handicaps-5",
    "killed-bisections",
    "lost-workers",
    "mutations",
    "rack",
    "same-against-same",
    "slower-bisections",
    "whole-runs",
}
"""Those that take minutes to two hours: run when they are named."""


def main(names: list[str]) -> int:
    """Run benchmarks and show the figures."""
    known = [*WITHOUT_RIG, *ON_THE_RIG]
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"no benchmark {unknown[0]!r}; there are: {', '.join(known)}", file=sys.stderr)
        return 2
    chosen = names or [name for name in known if name not in ASKED_FOR]
    results = Path("reports") / f"bench-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    figures: list[Figure] = []
    try:
        for name in chosen:
            if name in WITHOUT_RIG:
                print(f"{name} ...", flush=True)
                figures += WITHOUT_RIG[name]()
        on_the_rig = [name for name in chosen if name in ON_THE_RIG]
        with bench(results) if on_the_rig else nullcontext() as made:
            for name in on_the_rig:
                assert made is not None
                print(f"{name} ...", flush=True)
                figures += ON_THE_RIG[name](made)
    finally:
        # Some take hours: an interruption does not lose the figures of those that have ended.
        show(figures, results / "figures.json")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
