"""Arguments of calls and paths that users write: checks with messages that say what to write instead."""

from __future__ import annotations

import inspect
import math
import os
import re
import reprlib
from collections import abc
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, reduce, wraps
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, Unpack, get_args, get_origin, get_type_hints

from pytest_nfvperf.model.display import did_you_mean, listed
from pytest_nfvperf.model.errors import ArgumentError

# Paths as users write them in options, files and variables.


def expanded(text: str) -> str:
    """The path with a ``~`` at its beginning as the home directory.

    A shell leaves that to the program in ``--nfv-results=~/x`` and ``NAME=~/ovs``. A name of nobody stays as it is: a
    directory can be called ``~backup``.
    """
    return os.path.expanduser(text)  # noqa: PTH111 - Path.expanduser raises for a name of nobody


def path_from(base: Path, text: str) -> Path:
    """The path, which counts from ``base`` where it is relative."""
    return base / expanded(text)


def is_there(base: Path, text: str) -> bool:
    """False also for what can be no path."""
    return os.path.exists(path_from(base, text))  # noqa: PTH110 - Path.exists raises for a name that is too long


def expand_named_path(base: Path, text: str) -> str:
    """``WHERE`` or ``NAME=WHERE`` without a ``~``. A path that has "=" in it and is there begins with ``./`` then."""
    name, equals, where = text.partition("=")
    if not equals or "/" in name:
        return expanded(text)
    return f"./{text}" if is_there(base, text) else f"{name}={expanded(where)}"


# Arguments of the calls that the author of a test writes, checked at the call.
#
# A wrong one ends the test as a usage error that says what to write, before anything is measured. Unchecked, it
# would fail later, and be reported as our fault or the DUT's.

_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}", re.IGNORECASE)
_LONGEST_VALUE = 80
_LARGE = 100_000

T = TypeVar("T", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Allowed:
    """What an argument may be. ``write``: for the message: "a whole number from 1 to 4094".

    ``advice``: better words for a particular wrong value; "" for none.
    """

    write: str
    accepts: Callable[[Any], bool]
    advice: Callable[[Any], str] = lambda _: ""


def whole(least: int, most: int | None = None, unit: str = "") -> Allowed:
    """A whole number; ``True`` and ``1e6`` are none."""
    # Large bounds have their digits grouped, as Python reads them, too: 9216, 16_777_216.
    bounds = " to ".join(str(at) if abs(at) < _LARGE else f"{at:_}" for at in (least, most) if at is not None)

    def accepts(value: Any) -> bool:
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        return is_whole and least <= value and (most is None or value <= most)

    def advice(value: Any) -> str:
        if isinstance(value, float) and value.is_integer() and accepts(int(value)):
            return f"write {int(value):_}, a whole number, instead of a decimal one"
        return ""

    return Allowed(" ".join(filter(None, ("a whole number from", bounds, unit))), accepts, advice)


def number(least: float, most: float = math.inf, unit: str = "", *, above: bool = False) -> Allowed:
    """A finite number. ``above``: more than the least."""

    def accepts(value: Any) -> bool:
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return is_number and least <= value <= most and math.isfinite(value) and not (above and value == least)

    bounds = f"{'above' if above else 'from'} {least:g}" + ("" if math.isinf(most) else f" to {most:g}")
    return Allowed(" ".join(filter(None, ("a number", bounds, unit))), accepts)


INTEGER = Allowed("a whole number", lambda value: isinstance(value, int) and not isinstance(value, bool))
FIGURE = Allowed("a number", lambda value: isinstance(value, (int, float)) and not isinstance(value, bool))
TEXT = Allowed("a text", lambda value: isinstance(value, str))
FLAG = Allowed("True or False", lambda value: isinstance(value, bool))
NAME = Allowed("a name, such as 'br0'", lambda value: isinstance(value, str) and bool(value.strip()))
MAC = Allowed(
    "a MAC address, such as '02:00:00:00:00:01'", lambda value: isinstance(value, str) and bool(_MAC.fullmatch(value))
)
UNICAST_MAC = Allowed(
    "a MAC address of one sender, whose first byte is even, such as '02:00:00:00:00:01'",
    lambda value: MAC.accepts(value) and int(value[:2], 16) % 2 == 0,
)
IP = Allowed("an IPv4 or IPv6 address, such as '198.18.0.1'", lambda value: isinstance(value, str) and _is_ip(value))
VALUES = Allowed(
    "a list of values", lambda value: hasattr(value, "__iter__") and not isinstance(value, (str, bytes, type))
)
CALLABLE = Allowed("a function", callable)
CHECKED_LATER = Allowed("anything", lambda _: True)
"""By who knows more about it."""
Name = Annotated[str, NAME]
Ip = Annotated[str, IP]
IpVersion = Annotated[int, Allowed("4 or 6", lambda value: INTEGER.accepts(value) and value in {4, 6})]
Mtu = Annotated[int, Allowed("a whole number of bytes, without Ethernet header and FCS, such as 1500", INTEGER.accepts)]
"""Its range is checked with the topology, which names the port."""
_BUILTIN = {int: INTEGER, float: FIGURE, str: TEXT, bool: FLAG}


def _is_ip(text: str) -> bool:
    import ipaddress  # noqa: PLC0415 - every pytest run of the environment imports this module

    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def word(*known: str) -> Allowed:
    """One of several words; members of a StrEnum are such words, too."""

    def advice(value: Any) -> str:
        return f"write one of {listed(known)}{did_you_mean(value, known)}".rstrip("?") if isinstance(value, str) else ""

    return Allowed(f"one of {listed(known)}", lambda value: isinstance(value, str) and value in known, advice)


def optional(rule: Allowed) -> Allowed:
    return Allowed(f"{rule.write}, or None", lambda value: value is None or rule.accepts(value), rule.advice)


def one(kind: type | tuple[type, ...], write: str, advice: Callable[[Any], str] = lambda _: "") -> Allowed:
    return Allowed(write, lambda value: isinstance(value, kind), advice)


def several(rule: Allowed, least: int = 0, most: int | None = None) -> Allowed:
    def accepts(value: Any) -> bool:
        if not isinstance(value, (list, tuple, range)):
            return False
        return least <= len(value) and (most is None or len(value) <= most) and all(map(rule.accepts, value))

    count = {(2, 2): "two", (0, None): "any number"}.get((least, most), f"{least} or more")
    return Allowed(f"a list or tuple of {count}, each {rule.write}", accepts)


def either(first: Allowed, second: Allowed) -> Allowed:
    return Allowed(
        f"{first.write}, or {second.write}",
        lambda value: first.accepts(value) or second.accepts(value),
        lambda value: first.advice(value) or second.advice(value),
    )


def checked(shown: str | None = None) -> Callable[[T], T]:
    """Check what a function, a method or a class is called with against its annotations, before it does anything.

    ``shown``: the call as an author writes it, such as "search.ndr_pdr"; the name if not given.
    """

    def decorate(made: T) -> T:
        target: Any = made
        name = shown or target.__name__
        call = target.__init__ if isinstance(made, type) else target
        signature = inspect.signature(call)
        allowed = cache(lambda: _rules(target))  # at the first call: annotations may name what is defined later

        @wraps(call)
        def check_then_call(*args: Any, **kwargs: Any) -> Any:
            for argument, value in _arguments(signature, name, allowed(), args, kwargs):
                if rule := allowed().get(argument):
                    refuse(name, argument, value, rule)
            return call(*args, **kwargs)

        if not isinstance(made, type):
            checking: Any = check_then_call
            return checking  # type: ignore[no-any-return]
        target.__init__ = check_then_call
        return made

    return decorate


def _rules(target: Any) -> dict[str, Allowed | None]:
    """What each argument may be, by its name; None where its type says nothing that can be checked."""
    rules: dict[str, Allowed | None] = {}
    for name, hint in get_type_hints(target, include_extras=True).items():
        if get_origin(hint) is Unpack:  # **settings, by a TypedDict
            settings = get_type_hints(get_args(hint)[0], include_extras=True)
            rules |= {key: rule_of(setting) for key, setting in settings.items()}
        elif name != "return":
            rules[name] = rule_of(hint)
    return rules


def rule_of(hint: Any) -> Allowed | None:
    """What a value of this type may be; an Allowed in an annotation says it better. None: anything."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        said = (note for note in hint.__metadata__ if isinstance(note, Allowed))
        return next(said, None) or _bounded(hint.__metadata__) or rule_of(parts[0])
    if origin in _BY_ORIGIN:
        return _BY_ORIGIN[origin](parts)
    if not isinstance(hint, type) or hint is Any or origin is not None or getattr(hint, "_is_protocol", False):
        return None
    if issubclass(hint, StrEnum):
        return word(*hint)
    return _BUILTIN.get(hint) or one(hint, f"{'an' if hint.__name__[0] in 'AEIOU' else 'a'} {hint.__name__}")


def _bounded(notes: tuple[Any, ...]) -> Allowed | None:
    """The rule of a key of a file, whose bounds stand in pydantic's Field."""
    bounds = [bound for note in notes for bound in getattr(note, "metadata", ())]
    least = next((bound.ge for bound in bounds if hasattr(bound, "ge")), None)
    return None if least is None else whole(least, next((bound.le for bound in bounds if hasattr(bound, "le")), None))


def _alternatives(parts: tuple[Any, ...]) -> Allowed | None:
    rules = list(dict.fromkeys(rule_of(part) for part in parts if part is not NoneType))
    if None in rules:
        return None
    rule = reduce(either, filter(None, rules))
    return optional(rule) if NoneType in parts else rule


def _entries(parts: tuple[Any, ...]) -> Allowed:
    entry = rule_of(parts[0])
    if entry is None:
        return Allowed("a list or tuple", lambda value: isinstance(value, (list, tuple)))
    return several(entry) if ... in parts or len(parts) == 1 else several(entry, len(parts), len(parts))


_BY_ORIGIN: dict[Any, Callable[[tuple[Any, ...]], Allowed | None]] = {
    Union: _alternatives,
    UnionType: _alternatives,
    tuple: _entries,
    abc.Sequence: _entries,
    Literal: lambda words: word(*words),
    **dict.fromkeys((abc.Iterable, abc.Collection), lambda _: VALUES),
    abc.Callable: lambda _: CALLABLE,
}


def refuse(call: str, name: str, value: object, rule: Allowed) -> None:
    """Raise ArgumentError if the rule does not allow the value."""
    if not rule.accepts(value):
        advice = rule.advice(value) or f"write {rule.write}"
        raise ArgumentError(f"{call}(): {name} is {shown_value(value)}: {advice}")


def shown_value(value: object) -> str:
    """A value as its author wrote it, short, with its type where that is what may be wrong."""
    if callable(value) and hasattr(value, "__name__"):
        return f"the {'class' if isinstance(value, type) else 'function'} {value.__name__}"
    try:
        text = repr(value)
    except Exception as error:  # noqa: BLE001 - of a foreign class, while we tell what is wrong with it
        text = f"<{type(value).__name__} whose repr raises {type(error).__name__}>"
    if type(value).__module__ != "builtins":
        text = re.sub(r"\(.*\)$", "(...)", text, flags=re.DOTALL)
    if len(text) > _LONGEST_VALUE:
        text = reprlib.repr(text)[1:-1]
    return text


def _arguments(
    signature: inspect.Signature, name: str, allowed: Mapping[str, Allowed | None], args: Any, kwargs: Mapping[str, Any]
) -> Iterator[tuple[str, Any]]:
    """All that are given, by name; of ``*parts`` each under that name."""

    def misfit(strangers: Iterable[str], problem: str = "") -> ArgumentError:
        """An argument that the call does not have, too many of them, or one that is missing."""
        stranger = next((key for key in strangers if key not in named), None)
        if stranger is None:
            return ArgumentError(f"{name}(): {problem}. It has {listed(named)}")
        hint = did_you_mean(stranger, named) or "."
        return ArgumentError(f"{name}() has no argument {stranger!r}{hint} It has {listed(named)}")

    kinds = {parameter.name: parameter.kind for parameter in signature.parameters.values()}
    named = [each for each, kind in kinds.items() if kind is not inspect.Parameter.VAR_KEYWORD and each != "self"]
    if len(named) < len(kinds) - ("self" in kinds):
        named += sorted(set(allowed) - set(named))
    try:
        bound = signature.bind(*args, **kwargs).arguments
    except TypeError as error:
        raise misfit(kwargs, str(error)) from None
    settings: dict[str, Any] = next(
        (value for key, value in bound.items() if kinds[key] is inspect.Parameter.VAR_KEYWORD), {}
    )
    if strangers := [key for key in settings if key not in allowed]:
        raise misfit(strangers)
    for argument, value in bound.items():
        if kinds[argument] is inspect.Parameter.VAR_KEYWORD:
            yield from value.items()
        elif kinds[argument] is inspect.Parameter.VAR_POSITIONAL:
            yield from ((argument, one_value) for one_value in value)
        else:
            yield argument, value
