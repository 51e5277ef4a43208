"""The iperf3 engine between two real namespaces."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pytest_nfvperf.adapters.generators.iperf3 import Iperf3Engine
from pytest_nfvperf.model.streams import StreamResult, StreamSpec
from pytest_nfvperf.ports.streams import StreamEngine
from tests.functional.ovs_support import needs_root
from tests.functional.stream_support import Pair, pair

pytestmark = needs_root


@pytest.fixture(scope="module")
def shared() -> Iterator[Pair]:
    with pair() as made:
        yield made


@pytest.fixture(scope="module")
def engine(shared: Pair) -> Iterator[Iperf3Engine]:
    made = shared.engine()
    yield made
    made.close()


def check_counts(result: StreamResult) -> None:
    spec = result.spec
    assert result.invalid == ()
    assert [way.way for way in result.ways] == list(spec.ways)
    for way in result.ways:
        assert len(way.streams) == spec.streams
        assert abs(way.elapsed_ns / 1e9 - spec.duration_s) <= 0.1
        assert all(stream.received_bytes > 0 for stream in way.streams)
    assert result.received_bytes
    assert result.goodput_bps == pytest.approx(sum(8e9 * way.received_bytes / way.elapsed_ns for way in result.ways))


@pytest.mark.parametrize("streams", [1, 2, 4, 8, 16])
def test_parallel_tcp_streams_are_counted_at_the_receiver(engine: Iperf3Engine, shared: Pair, streams: int) -> None:
    port: StreamEngine = engine
    result = port.run(StreamSpec(streams=streams, duration_s=0.8, omit_s=0.2), shared.client, shared.server)
    check_counts(result)
    assert result.retransmits is not None
    assert result.ways[0].datagrams is None
