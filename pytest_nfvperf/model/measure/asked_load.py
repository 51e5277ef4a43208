"""The load that a user asks soaks to have. A file of its own: every pytest run of the environment imports it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SoakLoad:
    """What load a user wants: frames/s per direction, or a share of the NDR (0..1); neither: the default."""

    fps: float | None = None
    ndr_share: float | None = None


def checked_fps(load: object) -> float:
    """A load that a test names, frames/s per direction; ConfigError for what is none."""
    from pytest_nfvperf.model.errors import ConfigError  # noqa: PLC0415 - as above

    if isinstance(load, bool) or not isinstance(load, (int, float)):
        raise ConfigError(f"the load is {load!r}: write frames per second and direction as a number, such as 4e6")
    if not 1 <= load < float("inf"):
        raise ConfigError(f"the load is {load:g} frames per second and direction: write a number from 1, such as 4e6")
    return load
