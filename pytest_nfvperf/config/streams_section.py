"""``streams`` of a testbed file, to and from the model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pytest_nfvperf.config.testbed_model import StreamsModel
from pytest_nfvperf.model.testbed.testbed import StreamsSpec


def to_streams(model: StreamsModel, beside: Path) -> StreamsSpec:
    """What a file asks for; a path with a directory is relative to ``beside``, a mere name is looked for."""
    path = model.path if model.path is None or "/" not in model.path else str(beside / model.path)
    return StreamsSpec(model.engine, path, model.ports, model.client_cpus, model.server_cpus)


def streams_section(spec: StreamsSpec) -> dict[str, Any] | None:
    """As a file has it; None where nothing is set."""
    section = {
        "path": spec.path,
        "ports": _ports(spec.ports),
        "client_cpus": list(spec.client_cpus),
        "server_cpus": list(spec.server_cpus),
    }
    given = {name: value for name, value in section.items() if value}
    return {"engine": spec.engine, **given} if given else None


def _ports(ports: Sequence[int]) -> list[int] | str:
    """A range where it is one: there are usually many."""
    in_a_row = len(ports) > 1 and list(ports) == list(range(ports[0], ports[-1] + 1))
    return f"{ports[0]}-{ports[-1]}" if in_a_row else list(ports)
