"""The text of an SLA failure."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import example, given
from hypothesis import strategies as st

from pytest_nfvperf.model.sla.verdict import Judgement, Verdict, failure_table, headline_of

FAILED = Verdict(
    Judgement.FAIL, "ndr >= 5 Mpps", "ndr", 5e6, "pps", 4.2e6, -0.16, "4.20 Mpps", "sla.yaml:3: rules[0]",
    "confirmed by 5 s: 0 lost of 42,000,000: loss ratio < 7.1e-08 at 95 %", ("trial-0007", "trial-0008", "trial-0009"),
)  # fmt: skip
MISSING = Verdict(
    Judgement.INCONCLUSIVE, "latency_p99 <= 100 us at 50 % of pdr", "latency_p99", 1e5, "ns", None, None,
    "latency_p99 was not measured by this test (it measured ndr)", "sla.yaml:4: rules[1]",
)  # fmt: skip
PASSED = Verdict(Judgement.PASS, "pdr >= 4 Mpps", "pdr", 4e6, "pps", 4.4e6, 0.1, "4.40 Mpps", "sla.yaml:3: rules[0]")


def test_the_table():
    text = failure_table([PASSED, MISSING, FAILED], "p1 tx_drops 120 frames\nunexplained 0", subject="phy2phy, 64 B")
    assert text == (
        "SLA of phy2phy, 64 B: 1 FAIL, 1 INCONCLUSIVE, 1 PASS\n"
        "\n"
        "verdict       requirement                        observed   limit      margin\n"
        "------------  ---------------------------------  ---------  ---------  -------\n"
        "FAIL          ndr >= 5 Mpps                      4.20 Mpps  5.00 Mpps  -16.0 %\n"
        "    reason: 4.20 Mpps\n"
        "    rests on: confirmed by 5 s: 0 lost of 42,000,000: loss ratio < 7.1e-08 at\n"
        "      95 %\n"
        "    evidence: trial-0008, trial-0009, and 1 before\n"
        "    rule: sla.yaml:3: rules[0]\n"
        "INCONCLUSIVE  latency_p99 <= 100 us at 50 % of   -          100 us     -\n"
        "              pdr\n"
        "    reason: latency_p99 was not measured by this test (it measured ndr)\n"
        "    rule: sla.yaml:4: rules[1]\n"
        "PASS          pdr >= 4 Mpps                      4.40 Mpps  4.00 Mpps  +10.0 %\n"
        "\n"
        "Where frames were lost:\n"
        "  p1 tx_drops 120 frames\n"
        "  unexplained 0"
    )


def test_a_long_headline_is_folded_and_is_one_line_as_a_reason():
    subject = "throughput test_ndr_pdr: phy2phy, frame 64, flows 1000, bidirectional, dpdk"
    text = failure_table([FAILED], subject=subject)
    assert text.splitlines()[:3] == [
        "SLA of throughput test_ndr_pdr: phy2phy, frame 64, flows 1000, bidirectional,",
        "  dpdk: 1 FAIL",
        "",
    ]
    assert headline_of(text) == f"SLA of {subject}: 1 FAIL"
    assert headline_of("'new' is slower\n  than 'old'") == "'new' is slower"


def test_columns_narrow_between_words_and_rows_of_the_ledger_stay_whole():
    wide = replace(
        FAILED,
        requirement="my_own_throughput_per_core >= 99.99 % of {datapath: linux-bridge, bridges: 10}",
        unit="line_ratio", observed=0.12345, limit=123.45, margin=-0.999, confidence="", evidence=(), reason="few",
    )  # fmt: skip
    losses = "p0 -> p1: 9 offered\n  -> 9  ovs  9 lost: no receive descriptor was free (rx_missed_errors of dpdk-p0)"
    assert failure_table([wide], losses).splitlines()[2:] == [
        "verdict  requirement                 observed  limit                   margin",
        "-------  --------------------------  --------  ----------------------  -------",
        "FAIL     my_own_throughput_per_core  12.35 %   1.234e+04 % of line     -99.9 %",
        "         >= 99.99 % of {datapath:    of line   rate",
        "         linux-bridge, bridges: 10}  rate",
        "    reason: few",
        "    rule: sla.yaml:3: rules[0]",
        "",
        "Where frames were lost:",
        "  p0 -> p1: 9 offered",
        "    -> 9  ovs  9 lost: no receive descriptor was free (rx_missed_errors of dpdk-p0)",
    ]


VERDICTS = st.builds(
    Verdict,
    judgement=st.sampled_from(Judgement),
    requirement=st.text("ab c", min_size=1, max_size=90),
    metric=st.just("ndr"),
    limit=st.none() | st.floats(0, 1e12),
    unit=st.sampled_from(["pps", "bps", "ns", "s", "ratio", "line_ratio", "frames", "cycles"]),
    observed=st.none() | st.floats(0, 1e12),
    margin=st.none() | st.floats(-1e3, 1e3),
    reason=st.text("ab c", max_size=400),
    rule=st.just("a/very/long/path/" * 10 + "sla.yaml:3"),
    confidence=st.text("ab c", max_size=200),
    evidence=st.lists(st.text("trial-0123", min_size=4, max_size=40), max_size=5).map(tuple),
)


@example(
    [
        Verdict(
            Judgement.FAIL, "r" * 60, "m", 123456789.123, "cycles", 987654321.987, -9.9e-3, "", "", "", ("trial-0123",)
        )
    ]
)
@given(st.lists(VERDICTS, max_size=6))
def test_never_wider_than_a_terminal(verdicts):
    text = failure_table(verdicts, subject="x" * 300)
    assert max(len(line) for line in text.splitlines()) <= 78
    for judgement in {verdict.judgement for verdict in verdicts}:
        assert judgement in text
    assert all(one in text for verdict in verdicts for one in verdict.evidence[-1:])
