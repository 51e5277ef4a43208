"""What every StreamEngine keeps to: iperf3 between two namespaces, and the simulated one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from pytest_nfvperf.adapters.generators.fake import FakeStreams
from pytest_nfvperf.model.errors import GeneratorError
from pytest_nfvperf.model.measure.streams import StreamResult, StreamSpec
from pytest_nfvperf.ports.generator import StreamEnd, StreamEngine
from tests.functional.ovs_support import needs_root
from tests.functional.stream_support import pair


@dataclass(frozen=True)
class Rig:
    """An engine and its two ends."""

    engine: StreamEngine
    client: StreamEnd
    server: StreamEnd

    def run(self, spec: StreamSpec) -> StreamResult:
        return self.engine.run(spec, self.client, self.server)


@pytest.fixture(scope="module", params=["fake", pytest.param("iperf3", marks=needs_root)])
def rig(request: pytest.FixtureRequest) -> Iterator[Rig]:
    if request.param == "fake":
        yield Rig(FakeStreams(10e9), StreamEnd("a", "10.0.0.1", "e0"), StreamEnd("b", "10.0.0.2", "e0"))
        return
    with pair() as ends:
        yield Rig(ends.engine(), ends.client, ends.server)


def test_it_says_what_it_is(rig: Rig) -> None:
    info = rig.engine.info()
    assert info.engine
    assert info.version
    assert info.detail


@pytest.mark.parametrize(
    "spec",
    [
        StreamSpec(duration_s=0.5, omit_s=0.2),
        StreamSpec(streams=4, direction="both", duration_s=0.5),
        StreamSpec("udp", streams=2, direction="reverse", duration_s=0.5, bitrate_bps=2_000_000, buffer_bytes=500),
    ],
    ids=lambda spec: f"{spec.protocol}-{spec.direction}",
)
def test_a_result_has_what_was_asked_for(rig: Rig, spec: StreamSpec) -> None:
    result = rig.run(spec)
    assert result.spec == spec
    assert result.valid
    assert [counts.direction for counts in result.directions] == list(spec.directions)
    for counts in result.directions:
        assert len(counts.streams) == spec.streams
        assert counts.elapsed_ns / 1e9 == pytest.approx(spec.duration_s, abs=0.1)
        assert (counts.retransmits is None) == (spec.protocol == "udp")
        assert (counts.datagrams is None) == (counts.lost_datagrams is None) == (spec.protocol == "tcp")
    assert result.goodput_bps
    assert result.cores


def test_udp_is_held_to_its_bitrate(rig: Rig) -> None:
    result = rig.run(StreamSpec("udp", streams=2, duration_s=1.0, bitrate_bps=2_000_000, buffer_bytes=500))
    assert result.goodput_bps == pytest.approx(4_000_000, rel=0.05)
    assert result.directions[0].lost_datagrams == 0


def test_after_close_nothing_runs_and_closing_again_does(rig: Rig) -> None:
    rig.engine.close()
    rig.engine.close()
    with pytest.raises(GeneratorError, match="closed"):
        rig.run(StreamSpec())
