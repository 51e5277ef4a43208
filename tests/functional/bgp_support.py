"""Two namespaces joined by a link, and speakers in them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest

from pytest_nfvperf.adapters.machine.reaper import open_journal
from pytest_nfvperf.adapters.net.cabling import Cabling
from pytest_nfvperf.adapters.net.ends import End, VethPair
from pytest_nfvperf.adapters.net.namespaces import LiveNamespace, NamespacePlan
from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.features.routing.bird import DIRECTORIES as BIRD_DIRECTORIES
from pytest_nfvperf.features.routing.bird import BirdSpeaker
from pytest_nfvperf.features.routing.frr import DIRECTORIES as FRR_DIRECTORIES
from pytest_nfvperf.features.routing.frr import FrrSpeaker
from pytest_nfvperf.features.routing.model import Neighbor, SpeakerConfig
from pytest_nfvperf.features.routing.ports import BgpSpeaker
from tests.functional.ovs_support import leftovers, needs_root, run_base

T = TypeVar("T", bound=BgpSpeaker)

HERE, THERE = "12.12.12.1", "12.12.12.2"
HERE6, THERE6 = "2001:db8:12::1", "2001:db8:12::2"


def _has(name: str, directories: Sequence[str]) -> bool:
    return any(os.access(Path(directory) / name, os.X_OK) for directory in directories)


needs_frr = pytest.mark.skipif(not _has("bgpd", FRR_DIRECTORIES), reason="FRR is not installed: apt-get install frr")
needs_bird = pytest.mark.skipif(
    not _has("bird", BIRD_DIRECTORIES), reason="BIRD is not installed: apt-get install bird2"
)
needs_daemons = [needs_root, needs_frr, needs_bird]


@dataclass(frozen=True)
class Link:
    """Two namespaces, one link: 12.12.12.1/30 here, 12.12.12.2/30 there."""

    journal: Journal
    here: str
    there: str
    stack: ExitStack

    def frr(self, config: SpeakerConfig, role: str = "frr") -> FrrSpeaker:
        """FRR here, closed with the link."""
        return self._closing(FrrSpeaker(self.journal, self.here, config, role=role))

    def bird(self, config: SpeakerConfig, role: str = "bird") -> BirdSpeaker:
        """BIRD there, closed with the link."""
        return self._closing(BirdSpeaker(self.journal, self.there, config, role=role))

    def _closing(self, speaker: T) -> T:
        self.stack.callback(speaker.close)
        return speaker


@contextmanager
def link() -> Iterator[Link]:
    """Make it; nothing of it is left afterwards."""
    with run_base() as base:
        base.chmod(0o755)
        journal = open_journal(base)
        try:
            with ExitStack() as stack:
                here, there = LiveNamespace.several(
                    journal, [NamespacePlan("here", ipv6=True), NamespacePlan("there", ipv6=True)]
                )
                cabling = Cabling(journal, here)
                for thing in (there, here, cabling):
                    stack.callback(thing.close)
                ends = [
                    End("eth0", namespace.path, addresses=(f"{v4}/30", f"{v6}/64"))
                    for namespace, v4, v6 in ((here, HERE, HERE6), (there, THERE, THERE6))
                ]
                cabling.join([VethPair(*ends)])
                yield Link(journal, here.name, there.name, stack)
        finally:
            journal.close()
        assert leftovers(journal.tag) == []


def here(**changes: object) -> SpeakerConfig:
    """AS 64999 at 12.12.12.1, as S1's FRR; ``changes``: of the neighbour."""
    return SpeakerConfig(64999, HERE, (Neighbor(**{"address": THERE, "asn": 65000, **changes}),))  # type: ignore[arg-type]


def there(**changes: object) -> SpeakerConfig:
    """AS 65000 at 12.12.12.2, as S1's BIRD."""
    return SpeakerConfig(65000, THERE, (Neighbor(**{"address": HERE, "asn": 64999, **changes}),))  # type: ignore[arg-type]
