"""What is tried in which release."""

from __future__ import annotations

import platform
import re
from dataclasses import dataclass
from pathlib import Path

_PYTEST = (".venv/bin/python", "-m", "pytest", "-q")
_MEASURED = ("suites/throughput", "--nfv-profile", "smoke")
"""A short one. Whether a busy machine lets a figure be judged is not what this gate asks."""
_TOLERANT = ("--nfv-inconclusive", "warn")
_INCONCLUSIVE = 10
_FAILED = 1
TUTORIAL = Path(__file__).parents[2] / "docs/tutorial/ten-commands.md"


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
        "tests/measured/test_embedded_generator.py",
        "tests/functional/test_iperf3.py",
        "tests/measured/test_bgp_path.py",
        *("-m", "not thorough and not daily"),
    ),
)
WHOLE = Step("the whole test suite", ("python3", ".ci/tests.py", "test-all"), counts=False)
"""As .ci/run on the machine itself: ``make test-all``, and a few failed tests once more. It says what ran."""

_NOBODY = "setpriv --reuid 65534 --regid 65534 --clear-groups"
DEMO = Step(
    "the demo, of an ordinary user",
    ("bash", "-c", f"chmod o+x /root && HOME=/tmp exec {_NOBODY} .venv/bin/nfvperf demo"),
    counts=False,
)
"""Root's home, which the environment is in, is closed to other users at first."""

RELEASES = ("bookworm", "trixie")
"""By codename."""


def machines_release() -> str:
    """Codename of what this machine runs, "" where it does not say; ``make test`` runs there."""
    return platform.freedesktop_os_release().get("VERSION_CODENAME", "")


def steps(*, whole: bool) -> tuple[Step, ...]:
    """What is run in a release. Some of the tests measure, and so does the tutorial."""
    return (WHOLE, MEASURE) if whole else (SOME,)


def tutorial_commands() -> list[str]:
    """The tutorial's commands, each a line for a shell."""
    page = TUTORIAL.read_text(encoding="utf-8")
    blocks = re.findall(r"^<!-- tutorial -->\n```bash\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


def tutorial_steps() -> tuple[Step, ...]:
    """Each command of the tutorial; the last one ends in a red gate.

    The green gate may be inconclusive: whether a busy machine lets a figure be judged is not what is asked, and a
    second try takes it minutes. The red one is red on any machine.
    """
    *most, last = tutorial_commands()
    green, red = frozenset({0, _INCONCLUSIVE}), frozenset({_FAILED})
    made = [_tutorial_step(text, green if text.endswith("/pytest") else frozenset({0})) for text in most]
    installed = next(number for number, text in enumerate(most) if "pip install" in text)
    made.insert(installed + 1, DEMO)  # before anything is set up
    return (*made, _tutorial_step(last, red))


def _tutorial_step(text: str, passes: frozenset[int]) -> Step:
    return Step(f"tutorial: {text}", ("bash", "-c", text), passes, counts=False)
