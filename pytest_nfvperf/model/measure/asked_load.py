"""The load that a user asks soaks to have. A file of its own: every pytest run of the environment imports it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SoakLoad:
    """What load a user wants: frames/s per direction, or a share of the NDR (0..1); neither: the default."""

    fps: float | None = None
    ndr_share: float | None = None
