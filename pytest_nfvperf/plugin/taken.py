"""What a run that goes on takes over of the earlier one, and what the user is told of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Taken:
    """Ids of tests, in their order, and why others are not among them.

    Attributes:
        run_dir: of the run.
        tests: that are not measured again.
        ended: that an earlier process ended on this rig: where the SLA is another, not all of them are taken over.
        anew: of those taken over, the ones that the SLA of now judges.
        unlike: evidence files of another rig than this one, and in what it differs.
    """

    run_dir: str
    tests: Sequence[str] = ()
    ended: Sequence[str] = ()
    anew: Sequence[str] = ()
    unlike: Mapping[str, str] = field(default_factory=dict)

    def lines(self, selected: int) -> Iterator[str]:
        """For the user. ``selected``: number of all tests of the run."""
        for file, why in self.unlike.items():
            yield f"what {file} has is measured again, since the rig is not the same: {why}"
        yield f"{len(self.tests)} of {selected} tests are taken over from {self.run_dir}"
        again = len(self.ended) - len(self.tests)
        if self.anew or again:
            yield f"the SLA is another: {len(self.anew)} of them judged anew, {again} others measured again for it"

    def to_message(self) -> dict[str, Any]:
        """As types that execnet carries."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}


def together(workers: Sequence[Taken]) -> Taken:
    """What workers take over, each on a testbed of its own; a file of another rig than everyone's is told of."""
    first = workers[0]
    unlike = {file: why for file, why in first.unlike.items() if all(file in one.unlike for one in workers)}
    return Taken(
        first.run_dir,
        _each_once(one.tests for one in workers),
        _each_once(one.ended for one in workers),
        _each_once(one.anew for one in workers),
        unlike,
    )


def _each_once(tests: Iterable[Sequence[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(test for of_one in tests for test in of_one))
