"""Streams that answer others, on a real engine and an ideal switch: conversations of several frames."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pytest_nfvperf.adapters.generators.embedded.ceiling import VhostLoop
from tests.functional.conversation_frames import streams
from tests.functional.engine_talk import Talk, talk, talks
from tests.functional.generator_support import loop_in, run_dir

__all__ = ["talk", "talks"]

DROP_EVERY = 50


@pytest.fixture(params=[0, DROP_EVERY], ids=["whole", "losing"])
def drop_every(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def loop(drop_every: int) -> Iterator[VhostLoop]:
    with run_dir() as directory, loop_in(directory, drop_every=drop_every) as made:
        yield made


@pytest.fixture
def joined(talk: Talk, loop: VhostLoop) -> Talk:
    """An engine with the ports `client` and `server`, between which the loop forwards."""
    for name, device in zip(("client", "server"), loop.devices, strict=True):
        assert talk.ask(cmd="attach", name=name, device=device, mac="02:00:00:00:00:01")["ok"]
    return talk


def conversations(talk: Talk, *, frames: int = 20_000, fps: int = 50_000, **changes: Any) -> Any:
    return talk.ask(
        cmd="trial", residual_ns=200_000_000, streams=streams("client", "server", fps=fps, frames=frames), **changes
    )


def test_each_frame_that_comes_is_answered_once(joined: Talk, drop_every: int) -> None:
    answer = conversations(joined)
    rows = answer["streams"]
    opened = rows[0]["sent"]
    assert opened + rows[0]["skipped"] + rows[0]["refused"] == 20_000
    for row in rows:
        assert [row[key] for key in ("duplicated", "out_of_order", "corrupted", "misdirected")] == [0, 0, 0, {}]
    for before, row in zip(rows, rows[1:], strict=False):
        assert row["intended"] == row["sent"] == before["received"]
        assert (row["refused"], row["skipped"]) == (0, 0)
    assert answer["complete"] is (drop_every == 0)
    if drop_every == 0:
        assert rows[-1]["received"] == opened
    else:
        # Both directions drop every 50th frame of whatever step.
        sent, received = (sum(row[key] for row in rows) for key in ("sent", "received"))
        assert DROP_EVERY * (sent - received) == pytest.approx(sent, abs=2 * DROP_EVERY)
        assert all(row["received"] < row["sent"] for row in rows)
