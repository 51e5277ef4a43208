"""A run that compares sides: a test's result once its body has ended."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pytest_nfvperf.model.errors import NfvperfError
from pytest_nfvperf.model.evidence.records import AttachmentData
from pytest_nfvperf.plugin.labels import is_measuring
from pytest_nfvperf.session.run import NfvSession


@contextmanager
def judged(item: pytest.Item, phase: str, session: NfvSession) -> Iterator[None]:
    """Surround a phase of a test: after its body, the comparison decides.

    What the test itself checks afterwards is no part of the comparison: it needs figures that were not measured. Such a
    failure becomes a note.

    Args:
        item: the test.
        phase: "setup" or "call".
        session: without a comparison nothing happens here.

    Raises:
        as ``Comparison.judge``; what the test raised where it compared nothing.
    """
    comparison = session.comparison
    if comparison is None or phase != "call" or not is_measuring(item):
        yield
        return
    comparison.begin_test()
    try:
        yield
    except NfvperfError:
        raise
    except Exception as error:
        if not comparison.made:
            raise
        text = (
            f"the test ended by {type(error).__name__}: {error}; it checks figures that a comparison does not measure"
        )
        session.recorder.emit(AttachmentData("note on the comparison", text=text))
    comparison.judge()
