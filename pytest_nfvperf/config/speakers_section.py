"""``speakers`` of the testbed file: routing daemons that run already. docs/bgp.md says what the keys mean."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field, field_validator

from pytest_nfvperf.config.strict import Name, PathText, Strict, Text
from pytest_nfvperf.config.yaml_file import Document
from pytest_nfvperf.model.testbed.testbed import LabSpeaker


class SpeakerModel(Strict):
    """One entry of ``speakers``."""

    name: Name = Field(description="what tests and reports call it", examples=["dut"])
    engine: Literal["frr", "bird"] = Field(description="which daemon it is")
    socket: PathText = Field(
        description="frr: the directory of its *.vty sockets; bird: its control socket",
        examples=["/run/frr", "/run/bird/bird.ctl"],
    )
    announces: dict[Text, Text] = Field(
        default_factory=dict,
        description="bird: static protocols of its configuration, by the prefix that each has",
        examples=[{"198.18.0.0/15": "clients"}],
    )

    @field_validator("announces")
    @classmethod
    def _prefixes(cls, value: dict[str, str]) -> dict[str, str]:
        for prefix in value:
            try:
                ipaddress.ip_network(prefix)
            except ValueError as error:
                raise ValueError(f"{prefix!r} is not a prefix: {error}") from None
        return value


def check_speakers(speakers: Sequence[SpeakerModel], document: Document) -> None:
    """ConfigError for a name that is used twice, and for prefixes of an FRR, which needs none to be named."""
    names = [speaker.name for speaker in speakers]
    for index, speaker in enumerate(speakers):
        if speaker.name in names[:index]:
            raise document.error(f"{speaker.name!r} is used twice", ("speakers", index, "name"))
        if speaker.announces and speaker.engine == "frr":
            raise document.error(
                "FRR announces what it is asked to: leave 'announces' out", ("speakers", index, "announces")
            )


def to_speakers(models: Sequence[SpeakerModel]) -> tuple[LabSpeaker, ...]:
    """The section as data."""
    return tuple(LabSpeaker(one.name, one.engine, one.socket, tuple(one.announces.items())) for one in models)


def speakers_section(speakers: Sequence[LabSpeaker]) -> list[dict[str, Any]] | None:
    """The section that reads back to ``speakers``; None when there are none."""
    return [_section(one) for one in speakers] or None


def _section(speaker: LabSpeaker) -> dict[str, Any]:
    section: dict[str, Any] = {"name": speaker.name, "engine": speaker.engine, "socket": speaker.socket}
    return {**section, "announces": dict(speaker.announces)} if speaker.announces else section
