"""What the models of all files that users write are made of."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo

from pytest_nfvperf.config.units import Dimension, quantity
from pytest_nfvperf.model.user_paths import expanded

Count = Annotated[int, Field(strict=True, ge=1)]
Flag = Annotated[bool, Field(strict=True)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=64)]
Text = Annotated[str, Field(min_length=1)]
PathText = Annotated[Text, AfterValidator(expanded)]
"""Of this machine; ``~`` is the home directory, as in a shell."""


class Strict(BaseModel):
    """Frozen, and a key it does not know is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())


def as_quantity(dimension: Dimension) -> BeforeValidator:
    """Reads a number with its unit, into the dimension's base unit."""

    def convert(value: Any, info: ValidationInfo) -> Any:
        return value if value is None else quantity(value, dimension, info.field_name or "the value")

    return BeforeValidator(convert)
