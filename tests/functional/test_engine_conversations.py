"""Streams that answer others, on a real engine and an ideal switch: conversations of several frames."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any

import pytest

from pytest_nfvperf.adapters.generators.embedded.ceiling import VhostLoop
from tests.functional.conversation_frames import CLOSE, HELD, streams
from tests.functional.engine_talk import PORT, STREAM, Talk, talk, talks
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
    answer = conversations(joined, window_ns=10_000_000)
    rows = answer["streams"]
    opened = rows[0]["sent"]
    assert opened + rows[0]["skipped"] + rows[0]["refused"] == 20_000
    for row in rows:
        assert [row[key] for key in ("duplicated", "out_of_order", "corrupted", "misdirected")] == [0, 0, 0, {}]
    for before, row in itertools.pairwise(rows):
        assert row["intended"] == row["sent"] == before["received"]
        assert (row["refused"], row["skipped"]) == (0, 0)
    (windows,) = (worker["windows"] for worker in answer["workers"])
    sums = dict(zip(windows["columns"], map(sum, zip(*windows["rows"], strict=True)), strict=True))
    # Conversations, and not their frames; a window that the trial's end has cut short is not there.
    assert rows[0]["sent"] / 2 < sums["received"] <= sums["sent"] <= rows[0]["sent"]
    assert answer["complete"] is (drop_every == 0)
    if drop_every == 0:
        assert rows[-1]["received"] == opened
    else:
        # Both directions drop every 50th frame of whatever step.
        sent, received = (sum(row[key] for row in rows) for key in ("sent", "received"))
        assert DROP_EVERY * (sent - received) == pytest.approx(sent, abs=2 * DROP_EVERY)
        assert all(row["received"] < row["sent"] for row in rows)


def test_conversations_that_came_so_far_are_closed_later(joined: Talk, drop_every: int) -> None:
    held = streams("client", "server", HELD, fps=50_000, frames=10_000, held_ns=300_000_000)
    answer = joined.ask(cmd="trial", residual_ns=1_000_000_000, streams=held, window_ns=10_000_000)
    rows = answer["streams"]
    close = rows[CLOSE]
    # What the thread opened late, or not at all, while it was away, is closed late, or not due.
    assert close["intended"] + close["failed_before"] == rows[0]["sent"]
    assert close["intended"] == close["sent"] == rows[CLOSE - 1]["received"]
    assert close["skipped"] == 0
    for row in rows:
        assert [row[key] for key in ("duplicated", "out_of_order", "corrupted", "refused")] == [0, 0, 0, 0]
    for before, row in itertools.pairwise(rows[CLOSE:]):
        assert row["intended"] == row["sent"] == before["received"]
    assert close["due"]["first_ns"] > 299_999_000 > rows[CLOSE - 1]["due"]["last_ns"]
    assert answer["complete"] is (drop_every == 0)
    (windows,) = (worker["windows"] for worker in answer["workers"])
    sent, received = ([row[windows["columns"].index(key)] for row in windows["rows"]] for key in ("sent", "received"))
    assert (sum(sent), sum(sent[29:])) == (rows[0]["sent"], 0)
    assert sum(received[:30]) == 0 < sum(received) <= rows[-1]["received"]


LEARNED = {"offset": 30, "size": 4, "bits": 32, "first": 0, "count": 1, "from": -16}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"answers": []}, "answers must be a list of indexes of earlier streams"),
        ({"answers": [2]}, "answers must be a list of indexes of earlier streams"),
        ({"answers": ["0"]}, "answers must be a list of indexes of earlier streams"),
        ({"answers": [0, 1]}, "stream 2 answers streams of two conversations"),
        ({"rx": "p1"}, "stream 2 cannot answer stream 0: the tx of each must be the other's only rx"),
        ({"rx": ["p0", "p1"]}, "stream 2 cannot answer stream 0: "),
        ({"fps": 1}, "a stream that answers has no fps, frames, queue_depth, start_ns and after"),
        ({"start_ns": 1}, "a stream that answers has no fps, frames, queue_depth, start_ns and after"),
        ({"answers": None, "after": 2}, "after must be the index of an earlier stream"),
        ({"answers": None, "after": 0, "rx": "p1"}, "stream 2 cannot be sent after stream 0: the tx of each must be"),
        ({"answers": None, "after": 0, "queue_depth": 1}, "a stream that is sent after another has no queue_depth"),
        ({"answers": None, "after": 0, "frames": 10**9 + 1}, "sent after another has at most 1000000000 frames"),
        ({"answers": None, "start_ns": -1}, r"start_ns must be 0\.\.10\^14"),
        ({"fields": [{**LEARNED, "from": 1}]}, r"fields\[0\]: a number is out of range"),
        ({"fields": [{**LEARNED, "from": -3}]}, r"fields\[0\] must learn a value that is in front of the signature"),
        ({"answers": None, "fields": [LEARNED]}, "only a stream that answers learns fields from arriving frames"),
    ],
)
def test_an_answer_that_cannot_be_is_refused(talk: Talk, change: dict[str, Any], message: str) -> None:
    for name in ("p0", "p1"):
        assert talk.ask(**{**PORT, "name": name})["ok"]
    back = {key: STREAM[key] for key in ("tx", "rx", "templates", "signatures")} | {"answers": [0], **change}
    if back["answers"] is None:
        back = {**STREAM, **change}
        del back["answers"]
    answer = talk.ask(cmd="trial", residual_ns=0, streams=[STREAM, STREAM, back])
    assert answer["code"] in {"bad_request", "bad_template"}
    assert re.search(message, answer["error"]), answer["error"]
    assert talk.ask(cmd="trial", residual_ns=10**8, streams=[STREAM])["ok"]
