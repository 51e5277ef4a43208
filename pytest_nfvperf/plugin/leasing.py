"""Which testbed a process measures on: a free one of those that were given, held by a lock.

Among workers of one run the locks decide, not their numbers: one that replaces a killed worker finds its testbed
free. A worker that finds none because others of its run have them holds none, and runs what needs none. A process
that finds all in use by other runs waits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import pytest

from pytest_nfvperf.adapters.process.lock import Lease, holder_text, try_lease
from pytest_nfvperf.adapters.process.process import wait_until
from pytest_nfvperf.features import Point
from pytest_nfvperf.model.display import format_seconds
from pytest_nfvperf.model.errors import ConfigError, DeadlineError
from pytest_nfvperf.session.options import GivenTestbed, Options


class LeasedPlace(Protocol):
    """A place of a pool of testbeds that is wanted, then held.

    Attributes:
        waits: none is free, and this one is in the queue.
    """

    waits: bool

    def poll(self) -> str:
        """The name of the place, "" as long as there is none yet; ConfigError where there cannot be one."""
        ...

    def close(self) -> None:
        """Release it, or leave the queue. Can be called twice."""
        ...


PLACES = Point[Callable[[str], LeasedPlace]]("places")
"""What leases a place with these tags, by who has the pool."""

LEASES_KEY = pytest.StashKey[list[Lease | LeasedPlace]]()
_INTERVAL_S, _MARK_S = 0.2, 10.0


@dataclass(frozen=True, slots=True)
class Taken:
    """What a process got. ``given``: None for the embedded testbed. ``held``: False where its siblings have all."""

    given: GivenTestbed | None
    held: bool


def take_testbed(
    config: pytest.Config, options: Options, wanted: str, run_dir: Path | None, say: Callable[[str], None]
) -> Taken:
    """Lease a testbed until the process ends.

    Args:
        config: of this process, which keeps the lease.
        options: have the testbeds, and how long to wait for one.
        wanted: label of those to look at first.
        run_dir: of the run that this process is a worker of, with siblings; None for a process that has none.
        say: tells the user that it waits.

    Raises:
        ConfigError: there is no such testbed, or none became free in time.
    """
    leases = config.stash.setdefault(LEASES_KEY, [])
    if not options.testbeds:
        return Taken(None, run_dir is None or _hold(leases, run_dir))
    choice = _choice(options.testbeds, wanted)
    if choice[0].tags:
        taken = _lease_place(choice[0], leases, options.wait_s, run_dir, say)
    else:
        taken = _first_free(choice, leases)
        if taken is None and not _siblings_hold(run_dir):
            taken = _wait(choice, leases, options.wait_s, run_dir, say)
    if taken is None:
        return Taken(choice[0], held=False)
    if run_dir is not None:
        _tell_siblings(leases, run_dir)
    return Taken(taken, held=True)


def give_back(config: pytest.Config) -> None:
    """Let go of what this process holds."""
    for lease in config.stash.get(LEASES_KEY, []):
        lease.close()


def _choice(testbeds: Sequence[GivenTestbed], wanted: str) -> list[GivenTestbed]:
    """Those of the wanted label, as far as this machine has them; else all that it has; else the first, to say so."""
    here = [testbed for testbed in testbeds if testbed.path.is_file() or (testbed.tags and testbed.path.is_dir())]
    return [testbed for testbed in here if testbed.label == wanted] or here or list(testbeds[:1])


def _first_free(choice: Sequence[GivenTestbed], leases: list[Lease | LeasedPlace]) -> GivenTestbed | None:
    return next((testbed for testbed in choice if _hold(leases, testbed.path)), None)


def _hold(leases: list[Lease | LeasedPlace], place: Path, *, shared: bool = False) -> bool:
    lease = try_lease(place, shared=shared)
    if lease is not None:
        leases.append(lease)
    return lease is not None


def _tell_siblings(leases: list[Lease | LeasedPlace], run_dir: Path) -> None:
    """Hold the run's directory, too: a sibling that finds no free testbed looks there. It may be looking right now."""
    wait_until(lambda: _hold(leases, run_dir, shared=True), f"a lock on {run_dir}", _MARK_S)


def _siblings_hold(run_dir: Path | None) -> bool:
    """True when another worker of this run holds a testbed."""
    if run_dir is None:
        return False
    lease = try_lease(run_dir)
    if lease is not None:
        lease.close()
    return lease is None


def _wait(
    choice: Sequence[GivenTestbed],
    leases: list[Lease | LeasedPlace],
    wait_s: float,
    run_dir: Path | None,
    say: Callable[[str], None],
) -> GivenTestbed | None:
    holders = "; ".join(f"{testbed.path.name} by {holder_text(testbed.path)}" for testbed in choice)
    if wait_s:
        say(f"waits up to {format_seconds(wait_s)} for a testbed that is free; in use: {holders}")
    found: list[GivenTestbed] = []

    def ended() -> bool:
        found.extend(filter(None, [_first_free(choice, leases)]))
        return bool(found) or _siblings_hold(run_dir)

    try:
        wait_until(ended, "a free testbed", wait_s, interval_s=_INTERVAL_S)
    except DeadlineError as error:
        raise ConfigError(
            f"every testbed is in use: {holders}; wait longer (--nfv-wait), or give one more (--nfv-testbed)"
        ) from error
    return found[0] if found else None


def _lease_place(
    given: GivenTestbed,
    leases: list[Lease | LeasedPlace],
    wait_s: float,
    run_dir: Path | None,
    say: Callable[[str], None],
) -> GivenTestbed | None:
    """A place of labgrid's and its testbed file; None while none is free but what siblings hold."""
    lease = PLACES.part("labgrid")(given.tags)
    leases.append(lease)
    said: list[str] = []

    def ended() -> bool:
        place = lease.poll()
        if lease.waits and not said and not _siblings_hold(run_dir):
            said.append(f"waits up to {format_seconds(wait_s)} for a place of labgrid with {given.tags}")
            say(said[0])
        return bool(place) or (lease.waits and _siblings_hold(run_dir))

    try:
        wait_until(ended, f"a place of labgrid with {given.tags}", wait_s, interval_s=_INTERVAL_S)
    except DeadlineError as error:
        lease.close()
        raise ConfigError(
            f"no place of labgrid with {given.tags} became free: `labgrid-client who` lists who has them; wait longer "
            "(--nfv-wait)"
        ) from error
    place = lease.poll()
    if not place:
        lease.close()
        return None
    file = given.path / f"{place}.yaml"
    if not file.is_file():
        lease.close()
        raise ConfigError(f"labgrid leased the place '{place}', which has no testbed file here", file=str(file))
    return replace(given, path=file, tags="")
