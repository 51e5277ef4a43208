"""Where TRex's client libraries are looked for. Which fits the server, the handshake says."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from pytest_nfvperf.model.testbed.testbed import GeneratorSpec
from pytest_nfvperf.model.user_paths import expanded

VARIABLE = "NFV_TREX_DIR"
"""Environment variable: where a TRex distribution is installed."""

PYPI = ""
"""Stands for PyPI's trex-stl-lib, which speaks STL 4.1, the language of servers of 2019."""

USUAL_PLACES = (Path("/opt/trex"),)
_NUMBERS = re.compile(r"\d+")


def candidates(spec: GeneratorSpec, environ: Mapping[str, str] = os.environ) -> list[str]:
    """Directories to try, best first; :data:`PYPI` last, if it is installed. Only the one that is given, if one is."""
    if spec.client:
        return [spec.client]
    given = [spec.trex.start.path] if spec.trex.start else []
    given += [expanded(environ[VARIABLE])] if environ.get(VARIABLE) else []
    found = [
        path for place in USUAL_PLACES if place.is_dir() for path in (place, *place.iterdir()) if holds_client(path)
    ]
    found.sort(key=_version, reverse=True)
    pypi = [PYPI] if find_spec("trex_stl_lib") is not None else []
    return [*given, *map(str, found), *pypi]


def holds_client(path: Path) -> bool:
    """True for a directory of TRex, and for that of its client alone."""
    places = ("automation/trex_control_plane", "trex/stl", "trex_client", "trex_stl_lib", "interactive/trex")
    return any((path / place).is_dir() for place in places)


def _version(path: Path) -> tuple[int, ...]:
    return tuple(int(number) for number in _NUMBERS.findall(path.name))
