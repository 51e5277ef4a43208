"""The simulated rig: what searches are tested on must itself be right."""

from __future__ import annotations

import pytest

from pytest_nfvperf.adapters.generators.fake import FakeGenerator
from pytest_nfvperf.model.disturbance.trial import Reason, TrialResult
from pytest_nfvperf.model.errors import GeneratorError
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import Direction, TrialSpec
from pytest_nfvperf.ports.generator import GeneratorPort

DIRECTION = (Direction("a", "b"),)


def run(generator: FakeGenerator, load_fps: int) -> TrialResult:
    if not generator.specs:
        generator.attach([GeneratorPort(name, "x", "x") for name in ("a", "b")])
    return generator.run_trial(TrialSpec(Traffic(), load_fps, 1.0, DIRECTION))


@pytest.mark.parametrize("refuse", [True, False])
def test_capacity_is_where_loss_begins(refuse: bool) -> None:
    generator = FakeGenerator(1_000_000, refuse=refuse)
    assert run(generator, 1_000_000).lost == 0
    over = run(generator, 1_250_000)
    assert over.loss_ratio == pytest.approx(0.2)
    assert over.counts[0].refused == (250_000 if refuse else 0)
    assert over.valid


def test_loss_at_any_load() -> None:
    assert run(FakeGenerator(1_000_000, loss_ratio=0.01), 1000).loss_ratio == pytest.approx(0.01)


def test_noise_is_the_same_for_the_same_seed() -> None:
    def losses(seed: int) -> list[int]:
        generator = FakeGenerator(1_000_000, noise=0.01, seed=seed)
        return [run(generator, 1_000_000).lost for _ in range(10)]

    assert losses(1) == losses(1) != losses(2)
    assert any(losses(1))


def test_every_nth_trial_is_invalid() -> None:
    generator = FakeGenerator(1_000_000, invalid_every=3)
    assert [run(generator, 1000).valid for _ in range(6)] == [True, True, False, True, True, False]


def test_beyond_its_ceiling_it_falls_behind() -> None:
    generator = FakeGenerator(10_000_000, ceiling_fps=1_000_000)
    assert run(generator, 1_000_000).valid
    assert [reason.code for reason in run(generator, 2_000_000).invalid] == [Reason.FELL_BEHIND]


def test_death() -> None:
    generator = FakeGenerator(1_000_000, fail_at=2)
    run(generator, 1000)
    with pytest.raises(GeneratorError, match="the simulated generator died"):
        run(generator, 1000)
