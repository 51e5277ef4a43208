"""What every Generator keeps to: the embedded one on real rings, TRex, the simulated one.

TRex is a real server where NFV_TREX_DIR names one, and recordings of one everywhere (see trex_support).
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

import pytest

from pytest_nfvperf.adapters.generators.embedded.ceiling import VhostLoop, ceiling_of, loop_ports
from pytest_nfvperf.adapters.generators.fake import FakeGenerator
from pytest_nfvperf.model.disturbance.trial import TrialResult
from pytest_nfvperf.model.errors import ConfigError, GeneratorError
from pytest_nfvperf.model.topology.ports import PortRole
from pytest_nfvperf.model.traffic.traffic import IMIXES, Imix, Traffic, Vxlan
from pytest_nfvperf.model.traffic.trial import Direction
from pytest_nfvperf.ports.generator import Generator, GeneratorPort
from tests.functional.generator_support import MTU, Rig, check_identities, loop_in, looped_rig, run_dir, spec
from tests.functional.ovs_support import needs_root
from tests.functional.trex_support import TrexLab, needs_trex, recorded_generator, recorder, trex_lab

TREX = [pytest.param("trex", marks=[needs_root, needs_trex]), "trex-replayed"]
OVER_IPV6 = Vxlan(src_ip="2001:db8::1", dst_ip="2001:db8::2")
IMIX_IN_VXLAN = Imix("vxlan", ((114, 7), (594, 4), (1518, 1)))


Loop = VhostLoop | TrexLab | str


@contextlib.contextmanager
def trex_generator(loop: Loop, request: pytest.FixtureRequest) -> Iterator[Generator]:
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower().replace("trex-replayed", "").replace("trex", "")).strip(
        "-"
    )
    if isinstance(loop, TrexLab):
        with contextlib.closing(loop.generator(recorder(name))) as generator:
            yield generator
        return
    with run_dir() as directory, recorded_generator(directory, name) as generator:
        yield generator


@pytest.fixture(scope="module", params=["fake", "embedded", *TREX])
def loop(request: pytest.FixtureRequest) -> Iterator[Loop]:
    if request.param == "embedded":
        with run_dir() as directory, loop_in(directory) as made:
            yield made
    elif request.param == "trex":
        with trex_lab() as lab:
            yield lab
    else:
        yield str(request.param)


@pytest.fixture(scope="module")
def embedded(loop: Loop) -> Iterator[Rig | None]:
    """The embedded engine, which the tests share; None where the loop is another engine's."""
    if isinstance(loop, VhostLoop):
        with run_dir() as directory, looped_rig(directory, loop) as made:
            yield made
    else:
        yield None


@pytest.fixture
def rig(embedded: Rig | None, loop: Loop, request: pytest.FixtureRequest) -> Iterator[Rig]:
    """Without ports."""
    if embedded is None:
        with rig_of(loop, request) as made:
            yield made
        return
    yield embedded
    embedded.generator.detach([port.name for port in embedded.ports])


@contextlib.contextmanager
def rig_of(loop: Loop, request: pytest.FixtureRequest) -> Iterator[Rig]:
    if isinstance(loop, TrexLab) or loop == "trex-replayed":
        with trex_generator(loop, request) as generator:
            yield Rig(generator, tuple(loop_ports(("0", "1"), mtu=MTU)))
    elif isinstance(loop, VhostLoop):
        with run_dir() as directory, looped_rig(directory, loop) as made:
            yield made
    else:
        yield Rig(FakeGenerator(10_000_000), tuple(loop_ports(("fake0", "fake1"), mtu=MTU)))


@pytest.fixture
def ready(rig: Rig) -> Rig:
    rig.attach()
    return rig


def run(rig: Rig, directions: tuple[Direction, ...] = (), **changes: object) -> TrialResult:
    """A valid trial: what the rig itself disturbs, on a machine that others use too, is repeated, as in any run."""
    for _ in range(5):
        result = rig.generator.run_trial(spec(directions or rig.directions, **changes))  # type: ignore[arg-type]
        if result.valid:
            break
    return result


def test_it_fits_the_port(rig: Rig) -> None:
    generator: Generator = rig.generator
    info = generator.info()
    assert info.engine
    assert info.version


def test_every_frame_is_accounted_for(ready: Rig) -> None:
    result = run(ready)
    assert [counts.direction for counts in result.counts] == list(ready.directions)
    for counts in result.counts:
        assert counts.intended == 2000
        check_identities(counts)


@pytest.mark.parametrize(("load_fps", "duration_s", "intended"), [(10, 0.3, 3), (1000, 0.3, 300), (999, 0.1, 99)])
def test_intended_is_the_floor_of_load_times_duration(
    ready: Rig, load_fps: int, duration_s: float, intended: int
) -> None:
    for counts in run(ready, load_fps=load_fps, duration_s=duration_s).counts:
        assert counts.intended == intended


def test_a_direction_alone_leaves_the_other_silent(ready: Rig) -> None:
    result = run(ready, ready.directions[:1])
    assert len(result.counts) == 1
    check_identities(result.counts[0])


def test_latency_is_recorded_from_both_times(ready: Rig) -> None:
    for counts in run(ready).counts:
        assert counts.latency is not None
        assert counts.latency_raw is not None
        assert counts.latency.total == counts.latency_raw.total > 0
        assert 0 < counts.latency.min_ns <= counts.latency.max_ns
        assert counts.latency_raw.max_ns <= counts.latency.max_ns
        assert [count for _, count in counts.latency.counts if count < 1] == []
        assert list(counts.latency.counts) == sorted(counts.latency.counts)


def test_latency_is_absent_when_not_asked_for(ready: Rig) -> None:
    result = run(ready, latency=False)
    assert result.latency is None
    assert {counts.latency_raw for counts in result.counts} == {None}


@pytest.mark.parametrize("traffic", [Traffic(frame_size=1518), Traffic(frame_size=9000), Traffic(flows=16)])
def test_frames_of_any_size_come_through(ready: Rig, traffic: Traffic) -> None:
    for counts in run(ready, traffic=traffic).counts:
        check_identities(counts)
        assert counts.sent_bytes == counts.sent * traffic.mean_frame_size


@pytest.mark.parametrize(
    "traffic",
    [
        Traffic(frame_size=IMIXES["simple"]),
        Traffic(vlan=7),
        Traffic(flows=1000),
        Traffic(frame_size=128, flows=70_000),
        Traffic(src_mac="02:00:00:00:0a:01", dst_mac="02:00:00:00:0a:02", src_ip="10.0.0.1", dst_ip="10.1.0.1"),
        Traffic(frame_size=84, vlan=7).over_ipv6(),
        Traffic(frame_size=128, flows=1000).over_ipv6(),
        Traffic(frame_size=114, vlan=7, vxlan=Vxlan()),
        Traffic(frame_size=IMIX_IN_VXLAN, flows=300, vxlan=Vxlan(vni=42)),
        Traffic(frame_size=1518, flows=16, vxlan=OVER_IPV6).over_ipv6(),
    ],
    ids=lambda traffic: (
        f"{traffic.frame_label}-{traffic.flows}-{traffic.vlan}-{traffic.src_ip}"
        + (f"-{traffic.headers_label}" if traffic.headers_label else "")
    ),
)
def test_traffic_of_every_kind_comes_through_uncorrupted(ready: Rig, traffic: Traffic) -> None:
    for counts in run(ready, traffic=traffic).counts:
        check_identities(counts)
        if counts.sent % 12 == 0:
            assert counts.sent_bytes == round(counts.sent * traffic.mean_frame_size)


def test_elapsed_time_gives_the_load(ready: Rig) -> None:
    for counts in run(ready, load_fps=10_000, duration_s=0.5).counts:
        # what was skipped at either end shortens it; a healthy trial is within that
        assert counts.elapsed_ns <= 0.5e9 * 1.001
        assert counts.elapsed_ns >= 0.5e9 * (1 - counts.skipped / counts.intended) * 0.999


def test_trials_do_not_see_one_another(ready: Rig) -> None:
    for _ in range(3):
        for counts in run(ready, duration_s=0.02, residual_s=0.2).counts:
            check_identities(counts)


def test_an_unknown_port_is_a_mistake_of_the_user(ready: Rig) -> None:
    with pytest.raises(ConfigError, match=r"direction nowhere->ceiling1 uses 'nowhere', which is not attached"):
        ready.generator.run_trial(spec((Direction("nowhere", "ceiling1"),)))
    with pytest.raises(ConfigError, match="which is not attached"):
        ready.generator.learn(Traffic(), [Direction("ceiling0", "nowhere")])


def test_a_name_attached_twice_is_a_mistake_of_the_user(ready: Rig) -> None:
    with pytest.raises(ConfigError, match="port 'ceiling0' is attached twice"):
        ready.generator.attach(ready.ports[:1])


def test_frames_beyond_the_mtu_are_a_mistake_of_the_user(rig: Rig) -> None:
    rig.generator.attach([GeneratorPort(p.name, p.device, p.mac, mtu=1500) for p in rig.ports])
    with pytest.raises(
        ConfigError, match=r"frames of 1519 bytes do not fit port 'ceiling0', whose MTU of 1500 carries"
    ):
        run(rig, traffic=Traffic(frame_size=1519))


@pytest.mark.parametrize("mtu", [67, 9199])
def test_an_impossible_mtu_is_a_mistake_of_the_user(rig: Rig, mtu: int) -> None:
    with pytest.raises(ConfigError, match=f"MTU {mtu} is outside 68..9198"):
        rig.generator.attach([GeneratorPort("odd", rig.ports[0].device, rig.ports[0].mac, mtu=mtu)])


def test_a_forwarder_needs_its_peer(rig: Rig) -> None:
    lonely = GeneratorPort("fwd", rig.ports[0].device, rig.ports[0].mac, role=PortRole.FORWARDER, peer="gone")
    with pytest.raises(ConfigError, match="port 'fwd' forwards to 'gone', which is not attached"):
        rig.generator.attach([lonely])


def test_two_directions_cannot_share_a_sender(ready: Rig) -> None:
    with pytest.raises(ConfigError, match="two directions send on port 'ceiling0'"):
        ready.generator.run_trial(spec((ready.directions[0], ready.directions[0])))


def test_ports_can_be_taken_again(ready: Rig) -> None:
    for _ in range(3):
        ready.generator.detach(["ceiling0", "ceiling1", "never attached"])
        with pytest.raises(ConfigError, match="no port is attached"):
            run(ready)
        ready.attach()
        for counts in run(ready).counts:
            check_identities(counts)


def test_after_close_nothing_goes_and_closing_again_does(loop: Loop, request: pytest.FixtureRequest) -> None:
    with rig_of(loop, request) as rig:
        rig.attach()
        rig.generator.close()
        rig.generator.close()
        with pytest.raises(GeneratorError, match="closed"):
            rig.generator.attach(rig.ports)


def test_a_ceiling_can_be_found(ready: Rig) -> None:
    assert ceiling_of(ready.generator, Traffic(), ready.directions, repeats=1) > 1000
