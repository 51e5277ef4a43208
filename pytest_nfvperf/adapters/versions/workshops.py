"""Workshops of git trees that are gone: nothing can be built in them any more, and each takes hundreds of megabytes."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from pytest_nfvperf.adapters.process.process import run
from pytest_nfvperf.adapters.process.programs import find
from pytest_nfvperf.adapters.versions.registry import Registry
from pytest_nfvperf.model.errors import TestbedError

_GOING = ".going-"


def workshops_of(registry: Registry) -> Path:
    """Where ``git_build`` works for the versions of a registry."""
    return registry.directory.parent / "ovs-builds"


def remove_forsaken(registry: Registry) -> list[str]:
    """Remove each workshop of which the tree does not exist any more; none while anybody builds or adds a version.

    Returns:
        What was removed, or why nothing was, a line each.

    Raises:
        TestbedError: one cannot be removed.
    """
    place = workshops_of(registry)
    if not place.is_dir() or find("git") is None:
        return []
    with registry.unless_busy() as free:
        if not free:
            forsaken = [tree for _, tree in _forsaken(place)]
            return [f"left the workshop of {tree}, which is gone: a version is being added" for tree in forsaken]
        return list(_removed(place))


def clean() -> list[str]:
    """The same for the versions that this machine keeps."""
    return remove_forsaken(Registry())


def _removed(place: Path) -> Iterator[str]:
    try:
        for left in place.glob(f"{_GOING}*"):
            shutil.rmtree(left)
        for workshop, tree in list(_forsaken(place)):
            going = workshop.with_name(f"{_GOING}{workshop.name}")
            workshop.rename(going)  # a half of one is never found as a whole, even if we are killed
            shutil.rmtree(going)
            yield f"removed the workshop {workshop} of {tree}, which is gone"
    except OSError as error:
        raise TestbedError(f"a workshop cannot be removed: {error.strerror}: {error.filename}") from error


def _forsaken(place: Path) -> Iterator[tuple[Path, Path]]:
    """Workshops without their tree, each with where that was. One that does not say what it is of is left alone."""
    for workshop in sorted(place.glob("[!.]*")):
        tree = _tree_of(workshop)
        if tree is not None and tree.is_absolute() and not tree.exists():
            yield workshop, tree


def _tree_of(workshop: Path) -> Path | None:
    config = workshop / "tree/.git/config"
    if not config.is_file():
        return None
    try:
        return Path(run(["git", "config", "--file", str(config), "remote.origin.url"]).strip())
    except TestbedError:
        return None
