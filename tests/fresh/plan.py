"""What is tried in which release."""

from __future__ import annotations

import platform
from dataclasses import dataclass

_PYTEST = (".venv/bin/python", "-m", "pytest", "-q")
_MEASURED = ("suites/throughput", "--nfv-profile", "smoke")
"""A short one. Whether a busy machine lets a figure be judged is not what this gate asks."""
_TOLERANT = ("--nfv-inconclusive", "warn")
_INCONCLUSIVE = 10


@dataclass(frozen=True, slots=True)
class Step:
    """A command in the clone, in the fresh root. ``passes``: exit statuses that will do.

    ``counts``: it is one run of pytest, which can write down how many tests ran.
    """

    name: str
    command: tuple[str, ...]
    passes: frozenset[int] = frozenset({0})
    counts: bool = True


MEASURE = Step("measure", (*_PYTEST, *_MEASURED, *_TOLERANT), passes=frozenset({0, _INCONCLUSIVE}))

SOME = Step(
    "some of the tests",
    (
        *_PYTEST,
        "tests/unit/test_programs.py",
        "tests/functional/test_ovs_instance.py",
        "tests/functional/test_ovs_topology.py",
        "tests/functional/test_embedded_generator.py",
        "tests/functional/test_iperf3.py",
        "tests/functional/test_bgp_path.py",
    ),
)
WHOLE = Step("the whole test suite", ("python3", ".ci/tests.py", "test"), counts=False)
"""As the gate runs it on the machine itself: ``make test``, and a few failed tests once more. It says what ran."""

RELEASES = ("bookworm", "trixie")
"""By codename."""


def machines_release() -> str:
    """Codename of what this machine runs, "" where it does not say; ``make test`` runs there."""
    return platform.freedesktop_os_release().get("VERSION_CODENAME", "")


def steps(*, whole: bool) -> tuple[Step, ...]:
    """What is run in a release."""
    return (WHOLE if whole else SOME, MEASURE)
