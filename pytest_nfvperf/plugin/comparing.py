"""A run that compares sides: what a test comes to once its body has ended."""

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
    """Around a phase of a test: after its body, the comparison decides.

    What the test itself checks afterwards is no part of a comparison: it asks for figures that were not measured.

    Args:
        item: the test.
        phase: "setup" or "call".
        session: has the comparison, or none: then nothing happens here.

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
        text = f"the test ended by {type(error).__name__}: {error}; it checks what a comparison has not"
        session.recorder.emit(AttachmentData("note on the comparison", text=text))
    comparison.judge()
