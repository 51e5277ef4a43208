"""Commands with the arguments of pytest behind ``--``."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_nfvperf.model.bisect.judging import Judged
from pytest_nfvperf.model.evidence.conclusion import EXIT_STATUS, RunFate

USAGE = 2
"""The status of argparse for a mistake, which is "interrupted" of a run, and "bad" for ``git bisect run``."""
_USAGE_OF = {
    "compare": EXIT_STATUS[RunFate.USAGE],
    "bisect": EXIT_STATUS[RunFate.USAGE],
    "history": EXIT_STATUS[RunFate.USAGE],
    "judge": int(Judged.CANNOT_TELL),
}


def split(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """What stands before "--" is ours, what stands behind it is pytest's; of other commands all is ours."""
    if "--" not in argv or argv[0] not in _USAGE_OF:
        return list(argv), []
    at = list(argv).index("--")
    return list(argv[:at]), list(argv[at + 1 :])


def usage_status(argv: Sequence[str]) -> int:
    """The status that a mistake on this command line ends with."""
    return _USAGE_OF.get(argv[0] if argv else "", USAGE)
