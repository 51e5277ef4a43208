"""The SLA files of one run, each read once: those of the command line, and those beside the suites."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

import pytest_nfvperf
from pytest_nfvperf.config.sla_file import load_sla
from pytest_nfvperf.model.sla.rules import Rule, Sla
from pytest_nfvperf.session.options import Options
from pytest_nfvperf.session.packs import PUBLISHED_FILE, pack_rules

SUITE_SLA = "sla.yaml"
_PACKAGE = Path(pytest_nfvperf.__file__).parent


class Slas:
    """Reads SLA files, and says which rules a test is judged by.

    Args:
        options: name the files and packs that replace the ``sla.yaml`` beside each suite.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._beside: dict[Path, Sla] = {}

    @cached_property
    def given(self) -> tuple[Sla, ...]:
        """SLA files of the command line; ConfigError for one that cannot be read."""
        return tuple(self._load(path) for path in self._options.slas)

    def rules_for(self, test_file: Path) -> tuple[Rule, ...]:
        """Rules for a test: those of the command line's files and packs, else those of the sla.yaml beside it."""
        if self._options.slas or self._options.packs:
            published = self.published([test_file.parent])
            packs = (rule for pack in self._options.packs for rule in pack_rules(pack, published))
            return (*(rule for sla in self.given for rule in sla.rules), *packs)
        sla = self.beside(test_file.parent)
        return sla.rules if sla else ()

    def published(self, folders: Iterable[Path]) -> list[Sla]:
        """The published.yaml of those folders that have one; ConfigError for one that cannot be read."""
        return [sla for folder in folders if (sla := self.beside(folder, PUBLISHED_FILE)) is not None]

    def beside(self, folder: Path, name: str = SUITE_SLA) -> Sla | None:
        """The sla.yaml in a folder; None where there is none, ConfigError for one that cannot be read."""
        path = folder / name
        if path not in self._beside and path.is_file():
            self._beside[path] = self._load(path)
        return self._beside.get(path)

    def _load(self, path: Path) -> Sla:
        return load_sla(path, shown_place(str(path), self._options.root))


def shown_place(place: str, root: Path) -> str:
    """A file, or a place in one ("/root/x/suites/cost/sla.yaml:6: rules[0]"), as a reader elsewhere knows it.

    Args:
        place: begins with the file's path.
        root: pytest's rootdir.

    Returns:
        The place from the rootdir, as node ids are; of a suite that came with the package
        "pytest_nfvperf/suites/cost/sla.yaml:6: rules[0]"; as it is where the file is elsewhere.
    """
    if place.startswith(f"{_PACKAGE}/suites/"):
        return place.removeprefix(f"{_PACKAGE.parent}/")
    return place.removeprefix(f"{root}/")
