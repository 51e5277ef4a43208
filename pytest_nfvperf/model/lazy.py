"""Names of a public module that are imported when somebody asks for them (PEP 562)."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def lazily(public: str, package: str, places: Mapping[str, str]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a public module.

    Args:
        public: name of the module whose names these are.
        package: what the places are below.
        places: public name to the module that has it.
    """

    def get(name: str) -> Any:
        place = places.get(name)
        if place is None:
            raise AttributeError(f"module {public!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{package}.{place}"), name)

    return get
