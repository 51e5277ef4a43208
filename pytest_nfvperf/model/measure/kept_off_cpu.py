"""How much loss the time explains that PMD threads were kept off their CPU."""

from __future__ import annotations

KEPT_OFF_FLOOR_NS = 100_000
"""Shorter stalls fit into any ring and explain no loss; and they are read to some 50 us only."""

KEPT_OFF_SLACK = 1.5
"""A stall costs more than its own length: the queue it leaves has to be worked off too."""
