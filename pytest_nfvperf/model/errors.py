"""The ways a test can go wrong that are not a failed SLA.

A user's mistake ends as ``pytest.UsageError`` (the plugin turns :class:`ConfigError` into it). A broken testbed ends as
:class:`TestbedError`; later tests cite the first cause. A rig that works and still could not measure what was asked for
ends as :class:`InconclusiveError`: one invalid trial is repeated, too many are that. A DUT that does not do what a test
needs of it ends as :class:`DutFailure`: that is a result, though no SLA has a figure for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping


class NfvperfError(Exception):
    """Base of every error that this project raises on purpose."""


class ConfigError(NfvperfError):
    """The user wrote something that cannot be used.

    Args:
        message: what is wrong and what to write instead.
        file: the file it is in, if it is in one.
        key: the key path inside the file, such as ``dut.ports[0].pci``, or an option.
        line: its line in the file, counted from 1.
    """

    def __init__(
        self, message: str, *, file: str | None = None, key: str | None = None, line: int | None = None
    ) -> None:
        self.message = message
        self.file = file
        self.key = key
        self.line = line
        location = f"{file}:{line}" if file and line else file
        where = ": ".join(part for part in (location, key) if part)
        super().__init__(f"{where}: {message}" if where else message)


class ArgumentError(ConfigError, ValueError):
    """The author of a test called something with an argument that cannot be.

    A ConfigError, so that the test ends as a usage error, and a ValueError for whoever calls us as a library.
    """


class InconclusiveError(NfvperfError):
    """The rig could not measure what the test asks: says nothing about the DUT, neither good nor bad.

    The message says what was to be measured, what prevented it with its figures, and what would help.
    """


class DetailedError(NfvperfError):
    """An error with named texts that show it.

    Args:
        message: what was expected and what was observed, in a sentence, with the figures; what to do about it.
        evidence: named texts (stderr, the end of a log, counters).
    """

    def __init__(self, message: str, *, evidence: Mapping[str, str] | None = None) -> None:
        self.message = message
        self.evidence = dict(evidence or {})
        super().__init__(message)

    def __str__(self) -> str:
        shown = [f"--- {name} ---\n{text.rstrip()}" for name, text in self.evidence.items() if text]
        return "\n".join([self.message, *shown])


class DutFailure(DetailedError, AssertionError):  # noqa: N818 - it is a failed assertion, and reads as one
    """The DUT did not do what the test asks, on a rig that worked: a FAIL, which no SLA need ask for."""


class TestbedError(DetailedError):
    """The testbed is broken, so a run can say nothing about the DUT."""

    __test__ = False  # pytest must not collect it for its name


class DeadlineError(TestbedError):
    """A state that was awaited did not come in time. Says what was awaited and what was seen."""


class GeneratorError(TestbedError):
    """The traffic generator refused, died or stopped answering."""


class OutOfTimeError(InconclusiveError):
    """The time limit of the run, or of one measurement, is used up: what is known by then is all there will be."""


class UnavailableError(NfvperfError):
    """This machine or testbed lacks what a test needs. The plugin skips the test, with the message as the reason."""


def why_refused(work: Callable[[], object]) -> str | None:
    """What is told where something is refused, without the evidence; None where it is not."""
    try:
        work()
    except TestbedError as error:
        return error.message
    except NfvperfError as error:
        return str(error)
    return None


def run_all(steps: Iterable[Callable[[], None]]) -> None:
    """Run every step, although some fail in whatever way; then raise the first error, a TestbedError if there is one.

    Steps take down what a run has made: one that fails unexpectedly must not keep the others from it.
    """
    errors: list[Exception] = []
    for step in steps:
        try:
            step()
        except Exception as error:  # noqa: BLE001 - raised below
            errors.append(error)
    if errors:
        raise next((error for error in errors if isinstance(error, TestbedError)), errors[0])
