"""Requirements that can never be judged, whatever the DUT does: said before the measurement, not after it.

Only what is certain is told. What depends on the measurement stays with the judge, which calls it INCONCLUSIVE.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_nfvperf.model.sla.core_budget import budget_text
from pytest_nfvperf.model.sla.load_name import share_of_goal
from pytest_nfvperf.model.sla.rules import Limit

_GOALS = ("ndr", "pdr", "throughput")
_SHARE = re.compile(r"[0-9.]+ % of (?P<goal>\w+)", re.ASCII)
_NOT_OF_SEARCHES = re.compile(
    r"(tcp|udp|mirror|response|responses|connect|reconnect|restart|establishment|withdrawal|announcement|outage"
    r"|recovery|survival|prefixes|session|sample|sampling|spoiled|load_latency|instructions|failed_connects"
    r"|sender_cores|receiver_cores|softirq_cores|datapath_cores|pmd_cores|cpu_per_gigabit|context_switches|retransmits"
    r"|rate_change|latency_p99_change|cycles_change|memory_growth)(_.*)?|.*_slope"
)
"""Metrics that streams, mirrors, routing, soaks and comparisons have, and no search."""


@dataclass(frozen=True, slots=True)
class Foreseen:
    """What is known of a test's measurements before they begin. None: it is not known.

    Attributes:
        line_rate: whether a link that the frames cross has one.
        latency_shares: loads at which latency is measured, as ratios of the PDR.
        repeats: how often a load is searched.
        searches_only: every figure is a search's.
        without_cores: the datapath, by its name, where it has no poll-mode threads.
        profile: the measuring profile, by its name.
    """

    line_rate: bool | None = None
    latency_shares: tuple[float, ...] | None = None
    repeats: int | None = None
    searches_only: bool = False
    without_cores: str | None = None
    profile: str = ""


def why_never(metric: str, limit: Limit, foreseen: Foreseen) -> str | None:
    """Why a requirement can never be judged, and what to write instead; None where it can be, or nobody knows.

    Args:
        metric: what is required.
        limit: how much of it, and where.
        foreseen: what is known of the measurement.
    """
    if limit.unit == "line_ratio" and foreseen.line_rate is False:
        return no_line_rate(metric)
    if foreseen.searches_only and _NOT_OF_SEARCHES.fullmatch(metric):
        return f"no search measures {metric}, and the tests it selects only search: correct the selector or the metric"
    if limit.at is not None and foreseen.latency_shares is not None:
        share = _SHARE.fullmatch(limit.at)
        if share is not None:
            return _unmeasured_share(metric, limit.at, share["goal"], foreseen.latency_shares, foreseen.profile)
    if foreseen.repeats is not None and foreseen.repeats < limit.repeats:
        made = "makes one search" if foreseen.repeats == 1 else f"makes {foreseen.repeats} searches"
        return f"asks for {limit.repeats} repeats, and this run {made}: add --nfv-repeat {limit.repeats}"
    if limit.cores is not None and foreseen.without_cores is not None:
        return (
            f"asks for a rate at {budget_text(limit.cores)}, and datapath {foreseen.without_cores} has no PMD threads "
            "whose cores could be counted: leave 'at' out, or select another datapath"
        )
    return None


def no_line_rate(metric: str) -> str:
    """Why a share of line rate cannot be judged where no link has one, and what to write."""
    return (
        f"{metric} is required as a share of line rate, and no port that the frames cross has one: write a rate, such "
        "as '>= 4 Mpps', or line_rate of the ports in the testbed file"
    )


def _unmeasured_share(metric: str, at: str, goal: str, shares: Sequence[float], profile: str) -> str | None:
    """Why a metric is not measured at a share of a search's load; None where it is."""
    if metric.startswith("latency_"):
        measured = [share_of_goal(share, "pdr") for share in shares]
        return None if at in measured else _measured_at(metric, at, measured, f"profile {profile}")
    if metric in {"loss_ratio", "lost_frames"}:
        measured = [share_of_goal(1.0, goal)] if metric == "loss_ratio" else []
        return None if at in measured else _measured_at(metric, at, measured, "a confirmation")
    return None


def _measured_at(metric: str, at: str, measured: Sequence[str], who: str) -> str:
    where = f"{who} measures it at {', '.join(measured)}" if measured else f"{metric} is only counted at frames/s"
    return f"{metric} is not measured at {at}: {where}; write one of these, or a load in frames/s, such as '4 Mpps'"
