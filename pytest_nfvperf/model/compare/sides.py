"""The sides of a comparison, as a command line names them: ``A``, ``A=WHERE``, ``--set A:other_config:KEY=VALUE``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.near import did_you_mean, listed
from pytest_nfvperf.model.testbed.ovs_settings import INSTALLED, checked_name, refused_setting

MARGIN = 0.02
"""Sides are the same where the interval of their ratio lies within 1 +- this."""

COLUMN = "other_config"
"""Of the table Open_vSwitch: what a setting may be in."""


@dataclass(frozen=True, slots=True)
class Side:
    """One Open vSwitch of a comparison.

    ``where``: "installed", a path, or the name of a kept version or of one that the testbed names. ``settings``: keys
    of Open_vSwitch other_config beside the testbed's.
    """

    name: str
    where: str
    settings: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Comparing:
    """What a run compares: two or more sides, the baseline first.

    ``margin``: how far from 1 the interval of a ratio may reach for "same", as a share: 0.02 for 2 %.
    """

    sides: tuple[Side, ...]
    margin: float = MARGIN

    @property
    def baseline(self) -> Side:
        return self.sides[0]


def given_sides(given: Sequence[str], settings: Sequence[str] = ()) -> tuple[Side, ...]:
    """The sides that a command line names; ConfigError says what to write.

    ``given``: "WHERE" or "NAME=WHERE" each, the baseline first. ``settings``: "SIDE:other_config:KEY=VALUE", or without
    "SIDE:" for every side.
    """
    sides: dict[str, Side] = {}
    for text in given:
        side = _side(text)
        if side.name in sides:
            raise ConfigError(
                f"{side.name!r} is given twice: each side needs a name of its own, such as again={side.where}"
            )
        sides[side.name] = side
    if len(sides) < 2:
        only = f"{next(iter(sides))!r} alone" if sides else "nothing"
        raise ConfigError(f"a comparison needs two sides or more, not {only}: write `nfvperf compare A B -- suites/`")
    for text in settings:
        _set(sides, text)
    return tuple(sides.values())


def _side(text: str) -> Side:
    name, equals, where = text.partition("=")
    if not equals or "/" in name:
        name, where = text.rstrip("/").rpartition("/")[2], text
    if not where or not name:
        raise ConfigError(f"{text!r} names no side: write NAME, or NAME=WHERE such as new=/opt/ovs-3.3.4")
    return Side(name if name == INSTALLED else checked_name(name), where)


def _set(sides: dict[str, Side], text: str) -> None:
    """Give the sides that a setting is about this setting."""
    place, equals, value = text.partition("=")
    *side, column, key = place.rsplit(":", 2) if place.count(":") else ("", "")
    if not equals or not key or column != COLUMN:
        raise ConfigError(
            f"{text!r} is no setting: write SIDE:{COLUMN}:KEY=VALUE, such as "
            f"new:{COLUMN}:emc-insert-inv-prob=0; without SIDE: it is every side's",
            key="--set",
        )
    if reason := refused_setting(key, value):
        raise ConfigError(f"{text!r}: {reason}", key="--set")
    for name in side or sides:
        if name not in sides:
            hint = did_you_mean(name, sides)
            raise ConfigError(f"{text!r}: no side is called {name!r}{hint} (sides: {listed(sides)})", key="--set")
        settings = {**dict(sides[name].settings), key: value}
        sides[name] = replace(sides[name], settings=tuple(settings.items()))
