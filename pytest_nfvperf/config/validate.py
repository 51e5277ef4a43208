"""Common to the models of all files that users write: field types, and errors as sentences."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, ValidationInfo
from pydantic_core import ErrorDetails

from pytest_nfvperf.config.units import Dimension, quantity
from pytest_nfvperf.config.yaml_file import Document, KeyPath, as_yaml, show_path
from pytest_nfvperf.model.arguments import expanded
from pytest_nfvperf.model.display import did_you_mean, listed
from pytest_nfvperf.model.errors import ConfigError

Count = Annotated[int, Field(strict=True, ge=1)]
Flag = Annotated[bool, Field(strict=True)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=64)]
Text = Annotated[str, Field(min_length=1)]
PathText = Annotated[Text, AfterValidator(expanded)]
"""Of this machine; ``~`` is the home directory, as in a shell."""


class Strict(BaseModel):
    """Frozen; an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())


def as_quantity(dimension: Dimension) -> BeforeValidator:
    """Reads a number with its unit, into the dimension's base unit."""

    def convert(value: Any, info: ValidationInfo) -> Any:
        return value if value is None else quantity(value, dimension, info.field_name or "the value")

    return BeforeValidator(convert)


# From pydantic's errors to sentences that say where, what, and what to write instead.

Model = TypeVar("Model", bound=BaseModel)

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
    problems = [(tuple(details["loc"]), _sentence(model, details)) for details in mistakes]
    (path, sentence), *others = problems
    for other_path, other in others:
        sentence += f"\n  also line {document.line(other_path)}: {show_path(other_path)}: {other}"
    return document.error(sentence, path)


def _sentence(model: type[BaseModel], details: ErrorDetails) -> str:
    kind, given, path = details["type"], details["input"], tuple(details["loc"])
    if kind in {"missing", "too_short", "string_too_short", "string_pattern_mismatch"}:
        what = "is missing" if kind == "missing" else f"{given!r} cannot be used here" if given else "is empty"
        return what + _example(model, path)
    if kind == "extra_forbidden":
        holder, key = _model_at(model, path[:-1]), str(path[-1])
        known = [field.alias or name for name, field in holder.model_fields.items()] if holder else []
        return f"unknown key {key!r}{did_you_mean(key, known)} (known here: {listed(known)})"
    return _wrong_value(details)


def _wrong_value(details: ErrorDetails) -> str:
    kind, given = details["type"], details["input"]
    if kind == "literal_error":
        expected = [choice.strip("'") for choice in details["ctx"]["expected"].replace(" or ", ", ").split(", ")]
        return f"must be {' or '.join(expected)}, not {given!r}{did_you_mean(str(given), expected)}"
    if kind in _BOUNDS:
        words, key = _BOUNDS[kind]
        return f"must be {words} {details['ctx'][key]}, not {given!r}"
    if kind in _TYPES:
        return f"must be {_TYPES[kind]}, not {given!r}"
    return f"{details['msg'].removeprefix('Value error, ')}" + ("" if kind == "value_error" else f", not {given!r}")


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
    for step in path:
        if isinstance(step, int):
            continue
        fields = {field.alias or name: field.annotation for name, field in found.model_fields.items()} if found else {}
        found = _model_in(fields.get(step))
    return found


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for part in get_args(annotation) if (model := _model_in(part))), None)
