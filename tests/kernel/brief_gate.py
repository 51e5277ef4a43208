"""A plugin for a pytest in the guest: its gate profile reads each side of a comparison once, and briefly.

Under emulation a node takes longer to build than a stream to run. What is wanted there is that it works.
"""

from __future__ import annotations

from dataclasses import replace

from pytest_nfvperf.model.measure.profile import GATE, PROFILES, QUICK

PROFILES["gate"] = replace(
    GATE,
    comparison_repeats=1,
    comparison_stream_s=QUICK.comparison_stream_s,
    comparison_omit_s=QUICK.comparison_omit_s,
    comparison_budget_s=0.0,
)
