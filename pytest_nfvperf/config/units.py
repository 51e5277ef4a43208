"""Quantities as users write them: "100 Gbps", "4 Mpps", "50 us", "50 %", "512 MiB".

Only the units listed here exist, spelt exactly so: "4 mpps" would be milli to anyone who is strict
and mega to anyone who is not, and an SLA must not depend on which of them reads it.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, replace

from pytest_nfvperf.model.display import did_you_mean, listed
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.measure.compare import MARGIN
from pytest_nfvperf.model.metrics import Metric


@dataclass(frozen=True, slots=True)
class Dimension:
    """One kind of quantity: its units as whole factors of the smallest, and what to write instead.

    Attributes:
        base: the smallest unit.
        bare: a number without a unit is understood.
        divisor: smallest units in one unit of the result. Whole factors and one division keep "57 %" exactly 0.57; a
            multiplication by 0.01 would not.
        result: unit of the result; "" where it is the smallest.
        signed: it can be below 0.
    """

    noun: str
    base: str
    units: Mapping[str, float]
    example: str
    bare: bool = False
    divisor: float = 1
    result: str = ""
    signed: bool = False

    @property
    def unit(self) -> str:
        """The unit that ``quantity`` computes in, as observations name it."""
        return self.result or self.base


def _count(noun: str, unit: str, example: str) -> Dimension:
    return Dimension(noun, unit, {unit: 1}, example, bare=True)


FRAME_RATE = Dimension("a frame rate", "pps", {"pps": 1, "kpps": 1e3, "Mpps": 1e6, "Gpps": 1e9}, "4 Mpps")
BIT_RATE = Dimension("a bit rate", "bps", {"bps": 1, "kbps": 1e3, "Mbps": 1e6, "Gbps": 1e9, "Tbps": 1e12}, "100 Gbps")
CONNECTION_RATE = Dimension("a connection rate", "conn/s", {"conn/s": 1, "kconn/s": 1e3, "Mconn/s": 1e6}, "10 kconn/s")
TIME_NS = Dimension("a time", "ns", {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9, "min": 6e10, "h": 3.6e12}, "50 us")
TIME = replace(TIME_NS, divisor=1e9, result="s")
RATIO = Dimension("a ratio", "ppm", {"ppm": 1, "%": 1e4}, "0.5 %", bare=True, divisor=1e6, result="ratio")
SIZE = Dimension("a size", "bytes", {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}, "512 MiB")
DIMENSIONS = (
    *(FRAME_RATE, BIT_RATE, TIME, RATIO, SIZE),
    CONNECTION_RATE,
    _count("a number of frames", "frames", "100 frames"),
    _count("a number of connections", "connections", "0 connections"),
    _count("a number of cycles", "cycles", "250 cycles"),
    _count("a number of instructions", "instructions", "2500 instructions"),
    _count("a number of cores", "cores", "1.5 cores"),
    _count("a CPU time per gigabit", "cpu-s/Gbit", "2 cpu-s/Gbit"),
    _count("a number of segments", "segments", "100 segments"),
    _count("how often", "times", "0 times"),
    _count("a number of virtual functions", "VFs", "64 VFs"),
    _count("a number of times a second", "times/s", "1000 times/s"),
)
BY_UNIT = {dimension.unit: dimension for dimension in (*DIMENSIONS, TIME_NS)}
"""By the unit that figures are in."""

_QUANTITY = re.compile(r"(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(?P<unit>\S.*)?", re.ASCII)
_SEPARATED = re.compile(r"[+-]?\d[\d,._'\u2019 \u00a0\u2009\u202f]*\d")
"""Digits, and whatever people write between thousands or before decimals."""
_NOT_FINITE = re.compile(r"[+-]?(nan|\.nan|inf|\.inf|infinity)\b.*", re.IGNORECASE)
_SPELLINGS = {"sec": "s", "seconds": "s", "byte": "bytes", "B": "bytes", "packets": "frames"}
_PREFIXES = {"m": "milli", "u": "micro", "n": "nano"}
_BITS = re.compile(r"(?P<prefix>[kKMGT]?)((?P<byte>[Bb]ytes?|B)|[Bb]its?|b)(ps|/s)")
LOOK_ALIKES: dict[int, str | int | None] = {
    **{0xFEE0 + letter: chr(letter) for letter in range(0x21, 0x7F)},  # of full width
    **str.maketrans("µμ−–KМΜКΚТΤрѕс", "uu--KMMKKTTpsc"),  # noqa: RUF001
    **dict.fromkeys(map(ord, "≥≧⩾"), ">=") | dict.fromkeys(map(ord, "≤≦⩽"), "<="),
    **dict.fromkeys([0x200B, 0xFEFF], ""),  # of no width
}
"""What is written here, by what looks so: both mu, minus, dash, Kelvin, Cyrillic, Greek."""


def dimensions_of(metric: Metric) -> list[Dimension]:
    """Those that a limit of the metric may have, that of its base unit first."""
    units = (unit for unit in (metric.unit, *metric.also) if unit in BY_UNIT)
    return [replace(BY_UNIT[unit], signed=metric.signed) for unit in units]


class UnitError(ValueError):
    """A text that is no quantity of the wanted dimension; says what to write instead."""


def quantity(text: object, wanted: Dimension, name: str = "the value") -> float:
    """The text in the unit that the dimension is computed in: pps, bps, s, bytes, a ratio, a count.

    Args:
        text: what the user wrote; a number where only bare numbers make sense.
        wanted: the dimension it must have.
        name: what the quantity is, for the message.

    Raises:
        UnitError: what is wrong with it and what to write instead.
    """
    if isinstance(text, bool) or not isinstance(text, str | int | float):
        raise UnitError(f"{text!r} is not {wanted.noun}: write e.g. '{wanted.example}'")
    shown = " ".join(str(text).split())
    if separated := _refused_separators(shown):
        raise UnitError(separated)
    if odd := next((letter for letter in shown if not letter.isascii()), ""):
        if (plain := shown.translate(LOOK_ALIKES)).isascii():
            quantity(plain, wanted, name)
        instead = f"'{plain}'" if plain.isascii() else f"e.g. '{wanted.example}'"
        raise UnitError(f"'{shown}' has '{odd}' ({unicodedata.name(odd, ascii(odd))}): write {instead}")
    match = _QUANTITY.fullmatch(shown)
    if match is None and not _NOT_FINITE.fullmatch(shown):
        raise UnitError(f"'{shown}' is not {wanted.noun}: {name} is a number and a unit, e.g. '{wanted.example}'")
    value = math.nan if match is None else _convert(float(match["number"]), match["unit"], wanted, name, shown)
    if not math.isfinite(value):
        raise UnitError(f"'{shown}' is not a finite number: write e.g. '{wanted.example}'")
    if value < 0 and not wanted.signed:
        raise UnitError(f"'{shown}' is negative, but {name} cannot be: write e.g. '{wanted.example}'")
    return value


def _refused_separators(shown: str) -> str | None:
    """The refusal of a number that has a comma, or something between its thousands; None for others."""
    match = _SEPARATED.match(shown)
    if match is None:
        return None
    first, *others = re.split(r"\D", match[0].lstrip("+-"))
    separators = re.findall(r"\D", match[0].lstrip("+-"))
    sign, rest = match[0].removesuffix(match[0].lstrip("+-")), shown[match.end() :]
    if separators in ([], ["."]):
        return None
    if separators == [","]:
        decimal, whole = f"'{sign}{first}.{others[0]}{rest}'", f"'{sign}{first}{others[0]}{rest}'"
        ambiguous = f" before decimals, {whole} between thousands" if len(others[0]) == 3 else ""
        return f"'{shown}' has a comma: write {decimal}{ambiguous}"
    *_, last = separators
    decimals = f".{others.pop()}" if last in ".," and separators.count(last) == 1 else ""
    if any(len(part) != 3 for part in others):
        return f"'{shown}' has more than one number"
    return f"'{shown}' has its thousands apart: write '{sign}{first}{''.join(others)}{decimals}{rest}'"


def _convert(number: float, unit: str | None, wanted: Dimension, name: str, shown: str) -> float:
    if unit is None:
        if wanted.bare:
            return number
        raise UnitError(f"'{shown}' has no unit: write '{shown} {wanted.example.split()[1]}' for {name}")
    home = next((dimension for dimension in DIMENSIONS if unit in dimension.units), None)
    if home is None:
        raise UnitError(_unknown_unit(shown, unit, wanted))
    if home.base != wanted.base:
        raise UnitError(f"'{shown}' is {home.noun}, but {name} is {wanted.noun}: write e.g. '{wanted.example}'")
    return number * wanted.units[unit] / wanted.divisor


def _unknown_unit(shown: str, unit: str, wanted: Dimension) -> str:
    number = shown.removesuffix(unit).strip()
    if rate := _BITS.fullmatch(unit):  # a byte has eight bits
        factor = BIT_RATE.units[f"{rate['prefix'].replace('K', 'k')}bps"] * (8 if rate["byte"] else 1)
        spelt = shortest(float(number) * factor, BIT_RATE)
        instead = f"'{spelt}'" if wanted.base == BIT_RATE.base else f"{wanted.noun}, e.g. '{wanted.example}'"
        return f"'{shown}' is {BIT_RATE.noun}, {spelt}: write {instead}"
    same = _SPELLINGS.get(unit) or next((known for known in wanted.units if known.lower() == unit.lower()), None)
    if same is not None and same in wanted.units:
        prefix = _PREFIXES.get(unit[0]) if unit[1:] == same[1:] else None
        what = f"is {prefix}" if prefix else f"has unit '{unit}', which is spelt '{same}'"
        return f"'{shown}' {what}: write '{number} {same}'"
    units = listed(wanted.units)
    hint = did_you_mean(unit, wanted.units) or did_you_mean(
        unit, [name for every in DIMENSIONS for name in every.units]
    )
    return f"'{shown}' has unknown unit '{unit}'{hint}: {wanted.noun} is written in {units}, e.g. '{wanted.example}'"


def shortest(value: float, dimension: Dimension) -> str:
    """A text that parses back to exactly this value, in the largest unit that can: ``1e11`` is ``100 Gbps``."""
    for unit, factor in sorted(dimension.units.items(), key=lambda item: -item[1]):
        number = value * dimension.divisor / factor
        shown = str(int(number)) if number.is_integer() else repr(number)
        if number >= 1 and len(shown) < 12 and quantity(f"{shown} {unit}", dimension) == value:
            return f"{shown} {unit}"
    return f"{value * dimension.divisor!r} {dimension.base}"


def read_margin(text: str | None) -> float:
    """Read the margin of a comparison, a share above 0; None gives the default."""
    if text is None:
        return MARGIN
    try:
        share = quantity(text, RATIO, "the margin of a comparison")
    except UnitError as error:
        raise ConfigError(str(error), key="--margin") from error
    if not 0 < share <= 0.5:
        raise ConfigError(f"{text!r} is no margin: write a share above 0, up to 50 %, such as '2 %'", key="--margin")
    return share
