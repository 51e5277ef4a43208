"""Names of loads, in one normal form, so that an SLA finds the figure it is about.

A load is named either by a search's goal, ``50 % of pdr``, or by itself, ``4000000 pps``.
"""

from __future__ import annotations

import re

from pytest_nfvperf.model.display import format_fps

_OF_GOAL = re.compile(r"(?P<percent>[0-9.]+) ?% of (?P<goal>ndr|pdr|throughput)", re.ASCII)
_OF_FPS = re.compile(r"(?P<fps>[0-9.]+) pps", re.ASCII)


def share_of_goal(ratio: float, goal: str) -> str:
    """``0.5, "pdr"`` is ``50 % of pdr``."""
    return f"{round(ratio * 100, 6):g} % of {goal}"


def load_in_fps(load_fps: float) -> str:
    """``4000000 pps``, frames/s per direction."""
    return f"{round(load_fps)} pps"


def normal_load_name(name: str, load_fps: float) -> str:
    """The normal form of a measured load's name: a goal's share stays one, all else is the load itself."""
    match = _OF_GOAL.fullmatch(" ".join(name.split()))
    return share_of_goal(float(match["percent"]) / 100, match["goal"]) if match else load_in_fps(load_fps)


def same_load(one: str | None, other: str | None) -> bool:
    """True when both name the same load. Loads in frames/s may differ by 0.1 %, a rounding's worth."""
    if one == other:
        return True
    first, second = _OF_FPS.fullmatch(one or ""), _OF_FPS.fullmatch(other or "")
    if not (first and second):
        return False
    a, b = float(first["fps"]), float(second["fps"])
    return abs(a - b) <= 1e-3 * max(a, b)


def show_load(name: str) -> str:
    """For a person: ``4.00 Mpps`` for ``4000000 pps``."""
    match = _OF_FPS.fullmatch(name)
    return format_fps(float(match["fps"])) if match else name
