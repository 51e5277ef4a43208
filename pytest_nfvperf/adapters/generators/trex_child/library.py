"""Finds and imports one of TRex's client libraries; which one, the parent says.

Importing one puts old copies of yaml, scapy and zmq at the front of ``sys.path``, so a process can hold
one library only, and nothing else that needs those.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_nfvperf.adapters.generators.trex_child.failures import Failure

_PLACES = ("", "automation/trex_control_plane/interactive", "interactive", "trex_client/interactive")
_OLD_PLACES = ("automation/trex_control_plane/stl", "stl", "trex_client/stl")


@dataclass(frozen=True)
class Library:
    """An imported client library. ``api``: the module with STLClient and the classes of streams."""

    api: Any
    module: str
    where: str


def load(path: str) -> Library:
    """Import the library found under ``path``; "" means PyPI's, from the environment."""
    warnings.simplefilter("ignore")  # they are the library's own, of its age
    if not path:
        return _imported("trex_stl_lib.api", "PyPI trex-stl-lib")
    for places, module, file in (
        (_PLACES, "trex.stl.api", "trex/stl/api.py"),
        (_OLD_PLACES, "trex_stl_lib.api", "trex_stl_lib/api.py"),
    ):
        for place in places:
            directory = Path(path) / place
            if (directory / file).is_file():
                sys.path.insert(0, str(directory))
                return _imported(module, str(directory))
    raise Failure("no_client", f"there is no TRex client library under {path}")


def spoken(library: Library) -> str:
    """The version of the protocol that it tells servers, as its client object has it."""
    client = library.api.STLClient()
    # Where it is since v2.31, and where it was in 2019.
    version = client.ctx.api_ver if hasattr(client, "ctx") else client.conn.api_vers[0]
    return f"{version['major']}.{version['minor']}"


def _imported(module: str, where: str) -> Library:
    try:
        return Library(importlib.import_module(module), module, where)
    except ImportError as error:
        raise Failure("no_client", f"{where} cannot be imported: {error}") from error
