"""What is tried in which release."""

from __future__ import annotations

from dataclasses import dataclass

_MEASURED = ("suites/throughput", "--nfv-profile", "smoke")
"""A short one. Whether a busy machine lets a figure be judged is not what this gate asks."""
_TOLERANT = ("--nfv-inconclusive", "warn")
_INCONCLUSIVE = 10


@dataclass(frozen=True, slots=True)
class Step:
    """A pytest run in the fresh root. ``arguments``: pytest's; ``passes``: exit statuses that will do."""

    name: str
    arguments: tuple[str, ...]
    passes: frozenset[int] = frozenset({0})


MEASURE = Step("measure", (*_MEASURED, *_TOLERANT), passes=frozenset({0, _INCONCLUSIVE}))

SOME = Step(
    "some of the tests",
    (
        "tests/unit/test_programs.py",
        "tests/functional/test_ovs_instance.py",
        "tests/functional/test_ovs_topology.py",
        "tests/functional/test_embedded_generator.py",
        "tests/functional/test_iperf3_generator.py",
        "tests/functional/test_bgp_path.py",
    ),
)
WHOLE = Step("the whole test suite", ("tests/", "-m", "not kernel"))
"""Takes as long as ``make test``: by ``.ci/fresh --whole RELEASE``, not at each change."""

RELEASES = ("bookworm", "trixie")
"""By codename. This project's CI runs on the first, where ``make test`` runs, too."""


def steps(*, whole: bool) -> tuple[Step, ...]:
    """What is run in each release."""
    return (WHOLE if whole else SOME, MEASURE)
