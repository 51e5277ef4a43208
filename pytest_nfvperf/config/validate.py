"""Common to all files that users write: read into data classes by pydantic, with errors as sentences.

A key is a field of a data class. Its type, bounds, description and example make the reader, the JSON schema and what a
message says to write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import ErrorDetails

from pytest_nfvperf.config.units import BIT_RATE, SIZE, TIME, quantity, shortest
from pytest_nfvperf.config.yaml_file import Document, KeyPath, as_yaml, show_path
from pytest_nfvperf.model.display import did_you_mean, listed
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.fields import NO_KEY

_TYPES = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "string_type": "a text (quote it if it looks like a number)",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "a mapping",
    "dataclass_type": "a mapping",
}
_BOUNDS = {"greater_than_equal": ("at least", "ge"), "less_than_equal": ("at most", "le")}
_FORMER: Mapping[KeyPath, str] = {
    ("generator", "trex", "start"): "start TRex's server yourself, and write 'server: 127.0.0.1' below 'generator'",
}
"""Keys that a file could have, and what to do instead."""
_UNKNOWN = {"unexpected_keyword_argument", "extra_forbidden"}
_DIMENSIONS = {"bps": BIT_RATE, "s": TIME, "MiB": replace(SIZE, divisor=1 << 20)}
_T = TypeVar("_T")


def _known_version(value: Any) -> Any:
    if value is not True and value == 1:
        return value
    raise ValueError(f"this is schema {value!r}, but only schema 1 is known: write 'schema: 1'")


SchemaVersion = Annotated[
    Literal[1], BeforeValidator(_known_version), Field(description="version of this format", examples=[1])
]
"""What each file begins with."""


_adapter: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)


def _quantity(value: Any, unit: str, name: str) -> float:
    return quantity(value, _DIMENSIONS[unit], name)


def _with_unit(value: float, unit: str) -> str:
    return shortest(value, _DIMENSIONS[unit])


def read_as(kind: type[_T], document: Document) -> _T:
    """The document as this data class, whose fields are the keys that the file can have.

    Raises:
        ConfigError: for the first mistake, with file, line and key path; the others follow in its message.
    """
    try:
        read: _T = _adapter(kind).validate_python(document.data, extra="forbid", context=_quantity)
    except ValidationError as error:
        raise _config_error(json_schema(kind), document, error) from None
    return read


def written(data: Any) -> dict[str, Any]:
    """What a file says to be read as this data; defaults are left out."""
    said: dict[str, Any] = _adapter(type(data)).dump_python(
        data, by_alias=True, exclude_defaults=True, context=_with_unit
    )
    return said


class _FileSchema(GenerateJsonSchema):
    """Of a file: other keys are mistakes, and fields that no file can say are not there."""

    def dataclass_schema(self, schema: Any) -> dict[str, Any]:
        made = super().dataclass_schema(schema)
        summary = str(made.get("description", "")).partition("\n\n")[0]
        return {**made, "additionalProperties": False, "description": summary}

    def default_schema(self, schema: Any) -> dict[str, Any]:
        """Without a default that no file could say: a whole section, a number where a text with a unit is written."""
        made = super().default_schema(schema)
        default = made.get("default")
        unlike_text = made.get("type") == "string" and not isinstance(default, str)
        if isinstance(default, dict) or default == "" or unlike_text:
            made.pop("default", None)
        return made

    def field_is_present(self, field: Any) -> bool:
        return bool(field.get("validation_alias") != NO_KEY)


def json_schema(kind: type[Any], title: str = "") -> dict[str, Any]:
    made = _adapter(kind).json_schema(schema_generator=_FileSchema)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made, "title": title}


# From pydantic's errors to sentences that say where, what, and what to write instead.


def _config_error(schema: Mapping[str, Any], document: Document, error: ValidationError) -> ConfigError:
    # A list whose entries are wrong is also called too short, because they do not count.
    mistakes = [
        details for details in error.errors(include_url=False) if details["type"] != "too_short" or not details["input"]
    ]
    # A misspelt key is also a missing one. The spelling helps more, so it comes first.
    mistakes.sort(key=lambda details: details["type"] not in _UNKNOWN)
    # Pydantic adds "[key]" for a mapping's key that cannot be used.
    return refusal(document, [(_path(details), _sentence(schema, details)) for details in mistakes])


def refusal(document: Document, problems: Sequence[tuple[KeyPath, str]]) -> ConfigError:
    """The error for the first problem, with the others in its message."""
    (path, sentence), *others = problems
    for other_path, other in others:
        sentence += f"\n  also line {document.line(other_path)}: {show_path(other_path)}: {other}"
    return document.error(sentence, path)


class Faults:
    """Collects what pydantic cannot see, so that a file's author is told of all at once."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._problems: list[tuple[KeyPath, str]] = []

    @contextmanager
    def at(self, *path: str | int) -> Iterator[None]:
        """Note a ValueError, with the key that it is about."""
        try:
            yield
        except ValueError as error:
            self.note(path, str(error))

    def note(self, path: KeyPath, problem: str) -> None:
        self._problems.append((path, problem))

    def refuse(self) -> None:
        """Raise ConfigError if there were any."""
        if self._problems:
            raise refusal(self._document, self._problems)


def _path(details: ErrorDetails) -> KeyPath:
    return tuple(step for step in details["loc"] if step != "[key]")


def _sentence(schema: Mapping[str, Any], details: ErrorDetails) -> str:
    kind, given, path = details["type"], details["input"], _path(details)
    if given is None or kind in {"missing", "too_short", "string_too_short", "string_pattern_mismatch"}:
        what = "is missing" if kind == "missing" else f"{given!r} cannot be used here" if given else "is empty"
        return what + (_example(schema, path) or ": leave it out" * (given is None))
    if kind in _UNKNOWN:
        return _unknown_key(schema, path)
    if kind == "literal_error":
        expected = [choice.strip("'") for choice in details["ctx"]["expected"].replace(" or ", ", ").split(", ")]
        return f"must be {' or '.join(expected)}, not {given!r}{did_you_mean(str(given), expected)}"
    if kind in _BOUNDS:
        words, bound = _BOUNDS[kind]
        return f"must be {words} {details['ctx'][bound]}, not {given!r}"
    if kind in _TYPES:
        return f"must be {_TYPES[kind]}, not {given!r}"
    return f"{details['msg'].removeprefix('Value error, ')}" + ("" if kind == "value_error" else f", not {given!r}")


def _unknown_key(schema: Mapping[str, Any], path: KeyPath) -> str:
    key, known = str(path[-1]), list(_section(schema, path[:-1]).get("properties", {}))
    if path in _FORMER:
        return f"the key {key!r} is gone: {_FORMER[path]}"
    hint = did_you_mean(key, known) or _known_elsewhere(schema, key)
    return f"unknown key {key!r}{hint} (known here: {listed(known)})"


def _example(schema: Mapping[str, Any], path: KeyPath) -> str:
    """``: write e.g. ...`` from the example of the key that the path is in, if it has one."""
    while path and isinstance(path[-1], int):
        path = path[:-1]
    key = _section(schema, path[:-1]).get("properties", {}).get(path[-1], {}) if path else {}
    return f": write e.g. '{path[-1]}: {as_yaml(key['examples'][0])}'" if "examples" in key else ""


def _known_elsewhere(schema: Mapping[str, Any], key: str) -> str:
    """``, did you mean generator.engine?``: where else in the file such a key belongs; "" if nowhere."""
    paths = [path for path in _paths_below(schema, schema, ()) if path[-1] == key]
    return f", did you mean {' or '.join(map(show_path, paths[:2]))}?" if paths else ""


def _paths_below(schema: Mapping[str, Any], section: Mapping[str, Any], path: KeyPath) -> Iterator[KeyPath]:
    for key, value in section.get("properties", {}).items():
        yield (*path, key)
        yield from _paths_below(schema, _resolved(schema, value), (*path, key))


def _section(schema: Mapping[str, Any], path: KeyPath) -> Mapping[str, Any]:
    """What the schema says of the value at this path; nothing where it knows none."""
    found = _resolved(schema, schema)
    for step in path:
        if isinstance(step, int):  # a list stands for its entries
            continue
        below = found.get("properties", {}).get(step) or next(iter(found.get("patternProperties", {}).values()), None)
        found = _resolved(schema, below or found.get("additionalProperties") or {})
    return found


def _resolved(schema: Mapping[str, Any], value: Any) -> Mapping[str, Any]:
    """Behind references, alternatives and lists: the section that they hold, or the value itself."""
    if not isinstance(value, Mapping):
        return {}
    for alternative in value.get("anyOf", ()):
        if (found := _resolved(schema, alternative)).get("properties"):
            return found
    if "$ref" in value:
        return _resolved(schema, schema["$defs"][value["$ref"].rpartition("/")[2]])
    return _resolved(schema, value["items"]) if "items" in value else value
