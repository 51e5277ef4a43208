"""Common to all files that users write: from data classes to pydantic's models, and from its errors to sentences."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields, is_dataclass, replace
from functools import cache, partial, reduce
from operator import or_
from types import GenericAlias, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
    create_model,
    field_validator,
)
from pydantic import Field as Described
from pydantic_core import ErrorDetails

from pytest_nfvperf.config.units import BIT_RATE, SIZE, TIME, Dimension, quantity, shortest
from pytest_nfvperf.config.yaml_file import Document, KeyPath, as_yaml, show_path
from pytest_nfvperf.model.display import did_you_mean, listed
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.testbed.keys import Form, Key

_QUANTITIES = {
    "bps": (BIT_RATE, r"^[0-9.eE+]+ ?[kMGT]?bps$", "100 Gbps"),
    "s": (TIME, r"^[0-9.eE+]+ ?(ns|us|ms|s|min|h)$", "500 ms"),
    "MiB": (replace(SIZE, divisor=1 << 20), r"^[0-9.eE+]+ ?([KMG]iB|bytes)$", "1024 MiB"),
}
_RANGES = r"^\s*\d+(-\d+)?(\s*,\s*\d+(-\d+)?)*\s*$"
_EXAMPLES: dict[str, tuple[str, list[Any]]] = {
    "CPUs": ("[2, 3] or '2-5,8'", [[2, 3], "2-5,8"]),
    "ports": ("[5201, 5202] or '5201-5264'", ["5201-5264", [5201, 5202]]),
}
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
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}
_BOUNDS = {"greater_than_equal": ("at least", "ge"), "less_than_equal": ("at most", "le")}
Model = TypeVar("Model", bound=BaseModel)
_Note = TypeVar("_Note")


class Strict(BaseModel):
    """Frozen; an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())


class VersionedFile(Strict):
    """What each file begins with."""

    schema_: Annotated[Literal[1], Described(alias="schema", description="version of this format", examples=[1])]

    @field_validator("schema_", mode="before")
    @classmethod
    def _known_version(cls, value: Any) -> Any:
        if value is not True and value == 1:
            return value
        raise ValueError(f"this is schema {value!r}, but only schema 1 is known: write 'schema: 1'")


# From a data class to the model of a section, and from its data to what a file says.


@cache
def section_of(kind: type, base: type[Strict] = Strict) -> type[Strict]:
    """The model of the section whose keys are the fields of this data class that have a Key."""
    found: dict[str, Any] = {}
    for each, key, hint in _keys(kind):
        annotation = _annotation(hint)
        said: dict[str, Any] = {"description": key.meaning or None}
        if key.example is not None:
            said["examples"] = [key.example]
        if each.default_factory is not MISSING:
            said["default_factory"] = each.default_factory
        elif _form(hint).mapping:
            said["default_factory"] = tuple
        elif is_dataclass(each.default) or each.default == "" or _form(hint).unit:
            # JSON has no such default. Read as None, the key is left out, and then the data class has its own.
            annotation, said["default"] = annotation | None, None
        elif each.default is not MISSING:
            said["default"] = each.default
        found[key.written or each.name] = (annotation, Described(**said))
    doc = (kind.__doc__ or "").partition("\n\n")[0]
    return create_model(kind.__name__, __base__=base, __doc__=doc, **found)


def data_of(kind: type, section: BaseModel, *first: Any) -> Any:
    """The data class of a section that was read. ``first``: values of leading fields that have no Key."""
    keys = {each.name: getattr(section, key.written or each.name) for each, key, _ in _keys(kind)}
    return kind(*first, **{name: value for name, value in keys.items() if value is not None})


def section_text(data: Any) -> dict[str, Any]:
    """What a file says to be read as this data; a key that would say its empty default is left out."""
    section = {}
    for each, key, hint in _keys(type(data)):
        value = getattr(data, each.name)
        is_default = value == (each.default if each.default_factory is MISSING else each.default_factory())
        if is_default and (not value or is_dataclass(value)):
            continue
        section[key.written or each.name] = _plain(value, _form(hint))
    return section


def _keys(kind: type) -> list[tuple[Field[Any], Key, Any]]:
    hints = get_type_hints(kind, include_extras=True)
    found = [(each, _note(hints[each.name], Key), hints[each.name]) for each in fields(kind)]
    return [(each, key, hint) for each, key, hint in found if key is not None]


def _note(hint: Any, kind: type[_Note]) -> _Note | None:
    """The note of this class in an annotation; ``Annotated[A | None, ...]`` is looked through."""
    for part in getattr(hint, "__metadata__", ()):
        if isinstance(part, kind):
            return part
    inner = [hint.__origin__] if get_origin(hint) is Annotated else []
    inner += get_args(hint) if get_origin(hint) in {Union, UnionType} else []
    return next((note for part in inner if (note := _note(part, kind)) is not None), None)


def _form(hint: Any) -> Form:
    return _note(hint, Form) or Form()


def _annotation(hint: Any) -> Any:
    """What pydantic reads an annotation of a data class by."""
    if is_dataclass(hint):
        kind: Any = hint
        return Annotated[section_of(kind), AfterValidator(partial(data_of, kind))]
    if get_origin(hint) is Annotated:
        form = next((note for note in hint.__metadata__ if isinstance(note, Form)), None)
        base = _annotation(hint.__origin__) if form is None else _formed(hint.__origin__, form)
        for note in hint.__metadata__:
            base = base if isinstance(note, (Form, Key)) else Annotated[base, note]
        return base
    if get_origin(hint) in {Union, UnionType}:
        return reduce(or_, map(_annotation, get_args(hint)))
    if get_origin(hint) is tuple:
        return GenericAlias(tuple, tuple(part if part is ... else _annotation(part) for part in get_args(hint)))
    return _formed(hint, Form()) if hint in {str, int, bool} else hint


def _formed(base: Any, form: Form) -> Any:
    """An annotation for pydantic, of a type and what can be written for it."""
    made: Any
    if form.words:
        made = Annotated[Literal[form.words], BeforeValidator(partial(_refuse_slips, form))]
    elif form.unit:
        dimension, pattern, example = _QUANTITIES[form.unit]
        schema = WithJsonSchema({"type": "string", "pattern": pattern, "examples": [example]})
        made = Annotated[float, BeforeValidator(partial(_quantity, dimension)), schema]
    elif form.ranges:
        made = _ranges(form)
    elif form.mapping:
        made = _mapping(get_args(base)[0])
    elif base is str:
        least = 1 if form.pattern is None else None
        made = Annotated[str, Described(min_length=least, pattern=form.pattern or None, max_length=form.longest)]
    elif base is int:
        made = Annotated[int, Described(strict=True, ge=form.least, le=form.most)]
    elif base is bool:
        made = Annotated[bool, Described(strict=True)]
    else:
        made = Annotated[_annotation(base), Described(min_length=form.least)]
    if form.scalar:
        types = WithJsonSchema({"type": ["string", "number", "boolean"]})
        made = Annotated[made, BeforeValidator(_scalar_text), types]
    return made if form.check is None else Annotated[made, AfterValidator(form.check)]


def _refuse_slips(form: Form, value: Any) -> Any:
    for slip, message in form.instead:
        if value == slip:
            raise ValueError(message)
    return value


def _scalar_text(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


def _ranges(form: Form) -> Any:
    shown, examples = _EXAMPLES[form.ranges]
    schema = {"type": "array", "items": {"type": "integer", "minimum": form.least}}
    return Annotated[
        GenericAlias(tuple, (_formed(int, Form(form.least, form.most)), ...)),
        BeforeValidator(partial(_number_list, form.ranges, shown)),
        WithJsonSchema({"anyOf": [schema, {"type": "string", "pattern": _RANGES}], "examples": examples}),
    ]


def _number_list(what: str, example: str, value: Any) -> Any:
    """Reads ``[2, 3]`` as it is, and ``"2-5,8"`` as the kernel writes CPU lists."""
    if not isinstance(value, str):
        return value
    numbers: list[int] = []
    for part in value.split(","):
        match = re.fullmatch(r"\s*(\d{1,5})(?:-(\d{1,5}))?\s*", part, re.ASCII)
        if match is None:
            raise ValueError(f"'{value}' is not a list of {what}: write {example}")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise ValueError(f"'{part.strip()}' runs backwards: write '{last}-{first}'")
        numbers += range(first, last + 1)
    return numbers


def _mapping(entry: Any) -> Any:
    if is_dataclass(entry):
        kind: Any = entry
        key = get_type_hints(kind, include_extras=True)[fields(kind)[0].name]
        named = AfterValidator(lambda read: tuple(data_of(kind, section, name) for name, section in read.items()))
        return Annotated[GenericAlias(dict, (_annotation(key), section_of(kind))), named]
    pairs = AfterValidator(lambda read: tuple(read.items()))
    return Annotated[GenericAlias(dict, tuple(map(_annotation, get_args(entry)))), pairs]


def _plain(value: Any, form: Form) -> Any:
    if is_dataclass(value):
        return section_text(value)
    if form.unit:
        return shortest(value, _QUANTITIES[form.unit][0])
    if form.mapping:
        pairs = [(getattr(one, fields(one)[0].name), section_text(one)) if is_dataclass(one) else one for one in value]
        return dict(pairs)
    if not isinstance(value, tuple):
        return value
    if form.ranges and len(value) > 1 and value == tuple(range(value[0], value[0] + len(value))):
        return f"{value[0]}-{value[-1]}"
    return [_plain(one, Form()) for one in value]


def _quantity(dimension: Dimension, value: Any, info: ValidationInfo) -> Any:
    return value if value is None else quantity(value, dimension, info.field_name or "the value")


# From pydantic's errors to sentences that say where, what, and what to write instead.


def validated(model: type[Model], document: Document) -> Model:
    """The document as a model.

    Raises:
        ConfigError: for the first mistake, with file, line and key path; the others follow in its message.
    """
    try:
        return model.model_validate(document.data)
    except ValidationError as error:
        raise _config_error(model, document, error) from None


def _config_error(model: type[BaseModel], document: Document, error: ValidationError) -> ConfigError:
    # A list whose entries are wrong is also called too short, because they do not count.
    mistakes = [
        details for details in error.errors(include_url=False) if details["type"] != "too_short" or not details["input"]
    ]
    # A misspelt key is also a missing one. The spelling helps more, so it comes first.
    mistakes.sort(key=lambda details: details["type"] != "extra_forbidden")
    # Pydantic adds "[key]" for a mapping's key that cannot be used.
    problems = [(_path(details), _sentence(model, details)) for details in mistakes]
    (path, sentence), *others = problems
    for other_path, other in others:
        sentence += f"\n  also line {document.line(other_path)}: {show_path(other_path)}: {other}"
    return document.error(sentence, path)


def _path(details: ErrorDetails) -> KeyPath:
    return tuple(step for step in details["loc"] if step != "[key]")


def _sentence(model: type[BaseModel], details: ErrorDetails) -> str:
    kind, given, path = details["type"], details["input"], _path(details)
    if kind in {"missing", "too_short", "string_too_short", "string_pattern_mismatch"}:
        what = "is missing" if kind == "missing" else f"{given!r} cannot be used here" if given else "is empty"
        return what + _example(model, path)
    if kind == "extra_forbidden":
        holder, key = _model_at(model, path[:-1]), str(path[-1])
        known = [field.alias or name for name, field in holder.model_fields.items()] if holder else []
        hint = did_you_mean(key, known) or _known_elsewhere(model, key)
        return f"unknown key {key!r}{hint} (known here: {listed(known)})"
    if kind == "literal_error":
        expected = [choice.strip("'") for choice in details["ctx"]["expected"].replace(" or ", ", ").split(", ")]
        return f"must be {' or '.join(expected)}, not {given!r}{did_you_mean(str(given), expected)}"
    if kind in _BOUNDS:
        words, key = _BOUNDS[kind]
        return f"must be {words} {details['ctx'][key]}, not {given!r}"
    if kind in _TYPES:
        return f"must be {_TYPES[kind]}, not {given!r}"
    return f"{details['msg'].removeprefix('Value error, ')}" + ("" if kind == "value_error" else f", not {given!r}")


def _known_elsewhere(model: type[BaseModel], key: str) -> str:
    """``, did you mean generator.engine?``: where else in the file such a key belongs; "" if nowhere."""
    places = list(_places_of(model, key, ()))
    return f", did you mean {' or '.join(map(show_path, places[:2]))}?" if places else ""


def _places_of(model: type[BaseModel], key: str, path: KeyPath) -> Iterator[KeyPath]:
    for name, field in model.model_fields.items():
        here = (*path, field.alias or name)
        if here[-1] == key:
            yield here
        below = _model_in(field.annotation)
        if below is not None:
            yield from _places_of(below, key, here)


def _example(model: type[BaseModel], path: KeyPath) -> str:
    """``: write e.g. ...`` from the examples of the field that the path is in, if it has any."""
    while path and isinstance(path[-1], int):
        path = path[:-1]
    holder = _model_at(model, path[:-1])
    for name, field in holder.model_fields.items() if holder else ():
        if path[-1] in {name, field.alias} and field.examples:
            return f": write e.g. '{path[-1]}: {as_yaml(field.examples[0])}'"
    return ""


def _model_at(model: type[BaseModel], path: KeyPath) -> type[BaseModel] | None:
    """The model that the keys at this path belong to."""
    found: type[BaseModel] | None = model
    is_entry = False
    for step in path:
        # An index of a list, or a key that the user chose, leads to an entry of the same model.
        if isinstance(step, int) or is_entry:
            is_entry = False
            continue
        known = {field.alias or name: field.annotation for name, field in found.model_fields.items()} if found else {}
        found, is_entry = _model_in(known.get(step)), get_origin(known.get(step)) is dict
    return found


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for part in get_args(annotation) if (model := _model_in(part))), None)
