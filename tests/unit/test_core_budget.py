"""A rate asked for at a budget of cores: what fewer or more cores than that say, and what is refused."""

from __future__ import annotations

import pytest

from pytest_nfvperf.config.sla_file import parse_limit
from pytest_nfvperf.model.figure import exact
from pytest_nfvperf.model.measure.outcome import Outcome
from pytest_nfvperf.model.sla.judge import judge
from pytest_nfvperf.model.sla.rules import Rule, budget_of, within
from pytest_nfvperf.model.sla.verdict import Judgement
from pytest_nfvperf.model.statistics import Samples
from tests.outcomes import measured

PASS, FAIL, OPEN = Judgement.PASS, Judgement.FAIL, Judgement.INCONCLUSIVE


def outcome(cores: int, mpps: float = 5.0, **labels: str) -> Outcome:
    samples = Samples("forwarding_rate", "pps", (mpps * 1e6,) * 6, ("t1",))
    labelled = tuple(sorted(labels.items()))
    return measured(Outcome(labelled, "frmol", 64.0, 1, samples=(samples,), cores=cores))


@pytest.mark.parametrize(
    ("cores", "labels", "limit", "judgement"),
    [
        (2, {}, ">= 4 Mpps", PASS),
        (2, {}, ">= 6 Mpps", FAIL),
        (1, {}, ">= 4 Mpps", PASS),  # with one more it does as much, or more
        (1, {}, ">= 6 Mpps", OPEN),
        (4, {}, ">= 4 Mpps", OPEN),
        (4, {}, ">= 6 Mpps", FAIL),  # with fewer it does no more
        (0, {}, ">= 4 Mpps", OPEN),
        (2, {"node_cpus": "shared"}, ">= 4 Mpps", PASS),
        (2, {"node_cpus": "shared"}, ">= 6 Mpps", OPEN),
        (2, {"node_cpus": "own"}, ">= 6 Mpps", FAIL),
    ],
)
def test_a_verdict_at_two_cores(cores: int, labels: dict[str, str], limit: str, judgement: Judgement) -> None:
    rule = Rule((), (("forwarding_rate", parse_limit("forwarding_rate", limit, "2 cores")),), "sla.yaml:3")
    (verdict,) = judge((rule,), labels, outcome(cores, **labels).figures, lambda _: None)
    assert verdict.judgement is judgement
    assert verdict.requirement == f"forwarding_rate {limit} at 2 cores"


@pytest.mark.parametrize(
    ("cores", "text"),
    [
        (1, "on 1 core, and the SLA is about 2 cores"),
        (0, "how many cores the datapath had is not known, and the SLA is about 2 cores"),
    ],
)
def test_the_reason_names_both_numbers(cores: int, text: str) -> None:
    seen = within(exact("ndr", 1.0, "pps", cores=cores), 2)
    assert (seen if isinstance(seen, str) else seen.detail) == text


@pytest.mark.parametrize(("text", "cores"), [("2 cores", 2), ("1  core", 1), ("0 cores", None), ("2 Mpps", None)])
def test_what_a_budget_is(text: str, cores: int | None) -> None:
    assert budget_of(text) == cores


@pytest.mark.parametrize(
    ("metric", "limit", "at", "text"),
    [
        ("forwarding_rate", ">= 95 % of {overlay: none}", "2 cores", "forwarding_rate at 2 cores must be a rate"),
        ("forwarding_rate", ">= 4 Mpps", "many cores", "a budget of cores is such as '2 cores'"),
        ("packet_time", "<= 100 ns", "2 cores", "packet_time is not taken at a load: leave 'at' out"),
    ],
)
def test_what_is_refused(metric: str, limit: str, at: str, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        parse_limit(metric, limit, at)
