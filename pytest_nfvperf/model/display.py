"""Figures for people, in one place: tables, reports and messages all say a figure the same way.

Three significant digits and the field's units. ``-`` stands for a figure that was not measured.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

MISSING = "-"

_SI = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_TIME_NS = ((1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns"))
_SMALLEST_PERCENT = 1e-6


def format_fps(frames_per_second: float | None) -> str:
    """Frames/s: ``4.02 Mpps``."""
    return _scaled(frames_per_second, [(factor, f"{prefix}pps") for factor, prefix in _SI])


def format_bps(bits_per_second: float | None) -> str:
    """Bit/s: ``25.1 Gbps``."""
    return _scaled(bits_per_second, [(factor, f"{prefix}bps") for factor, prefix in _SI])


def format_ns(nanoseconds: float | None) -> str:
    """A time given in nanoseconds: ``48.2 us``."""
    return _scaled(nanoseconds, _TIME_NS)


def format_seconds(seconds: float | None) -> str:
    """A time given in seconds: ``250 ms``; from two minutes on ``15 min`` or ``12 h``."""
    if seconds is not None and math.isfinite(seconds) and seconds >= 120:
        factor, unit = (3600, "h") if seconds >= 7200 else (60, "min")
        return f"{seconds / factor:.3g} {unit}"
    return format_ns(None if seconds is None else seconds * 1e9)


def format_ratio(ratio: float | None) -> str:
    """A ratio as per cent: ``99.5 %``; small ones as a number: ``7.5e-08``."""
    if ratio is None or not math.isfinite(ratio):
        return MISSING if ratio is None else str(ratio)
    if 0 < abs(ratio) < _SMALLEST_PERCENT:
        return f"{ratio:.2g}"
    # Four digits: the difference between 99.95 % and 100 % is the difference between PDR and NDR.
    return f"{ratio * 100:.4g} %"


def format_count(count: float | None, unit: str = "frames") -> str:
    """A count with thin groups: ``1,234,567 frames``."""
    if count is None or not math.isfinite(count):
        return MISSING if count is None else str(count)
    shown = f"{int(count):,}" if float(count).is_integer() else f"{count:,.1f}"
    return f"{shown} {unit}".rstrip()


def format_bytes(size: float | None) -> str:
    """``4.00 MiB``, ``12.0 KiB``; below 0 where something shrank."""
    if size is None:
        return MISSING
    return f"{size / (1 << 20):.2f} MiB" if abs(size) >= 1 << 20 else f"{size / 1024:.1f} KiB"


def format_value(value: float | None, unit: str) -> str:
    """A figure in a base unit of an Observation: pps, bps, ns, s, ratio, line_ratio, cores, bytes, or a count."""
    formatters = {
        "cores": lambda cores: f"{cores:.2f} cores",
        "bytes": format_bytes,
        "pps": format_fps,
        "bps": format_bps,
        "ns": format_ns,
        "s": format_seconds,
        "ratio": format_ratio,
        "line_ratio": format_ratio,
    }
    if value is None:
        return MISSING
    if unit == "line_ratio":
        return f"{format_ratio(value)} of line rate"
    formatter = formatters.get(unit)
    return formatter(value) if formatter else format_count(value, unit)


def format_margin(margin: float | None) -> str:
    """A signed margin as per cent, positive is better: ``+3.2 %``."""
    if margin is None or not math.isfinite(margin):
        return MISSING
    return f"{margin * 100:+.1f} %"


def _scaled(value: float | None, steps: Sequence[tuple[float, str]]) -> str:
    if value is None:
        return MISSING
    if not math.isfinite(value):
        return str(value)
    for factor, unit in steps:
        # 999.96 k is shown as 1.00 M, so the choice of unit looks at the rounded figure.
        if abs(float(f"{value:.3g}")) >= factor:
            return f"{_digits(value / factor)} {unit}"
    smallest, unit = steps[-1]
    return f"{_digits(value / smallest) if value else '0'} {unit}"


def _digits(value: float) -> str:
    rounded = float(f"{value:.3g}")
    decimals = 2 - math.floor(math.log10(abs(rounded))) if rounded else 0
    return f"{rounded:.{min(max(decimals, 0), 6)}f}"
