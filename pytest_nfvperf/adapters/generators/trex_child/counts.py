"""From the library's statistics, whose keys are numbers and texts by turns, to plain JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

_PORT = ("opackets", "ipackets", "obytes", "ibytes", "oerrors", "ierrors")


def stream_counts(stats: Mapping[Any, Any], plan: Mapping[str, Any]) -> dict[str, Any]:
    """What one stream's own counters say; ``elsewhere`` arrived at a port that it was not sent to."""
    found = _of(stats.get("flow_stats") or {}, plan["id"])
    if found is None:
        raise ValueError(f"the server has no counters of stream {plan['id']}")
    received = _by_port(found["rx_pkts"])
    return {
        "id": plan["id"],
        "rx_port": plan["rx_port"],
        "sent": _by_port(found["tx_pkts"]).get(plan["port"], 0),
        "sent_bytes": _by_port(found["tx_bytes"]).get(plan["port"], 0),
        "received": received.get(plan["rx_port"], 0),
        "received_bytes": _by_port(found["rx_bytes"]).get(plan["rx_port"], 0),
        "elsewhere": {str(port): frames for port, frames in received.items() if frames and port != plan["rx_port"]},
        "latency": _latency(stats, plan) if plan["latency"] else None,
    }


def port_counts(stats: Mapping[Any, Any], ports: Iterable[int]) -> dict[str, dict[str, int]]:
    """The ports' own counters."""
    return {str(port): {key: int(_of(stats, port)[key]) for key in _PORT} for port in ports}


def settled(stats: Mapping[Any, Any], plans: Iterable[Mapping[str, Any]]) -> bool:
    """True when nothing that was sent is still missing."""
    return all(count["received"] >= count["sent"] > 0 for count in (stream_counts(stats, plan) for plan in plans))


def _latency(stats: Mapping[Any, Any], plan: Mapping[str, Any]) -> dict[str, Any]:
    found = _of(stats.get("latency") or {}, plan["id"])
    if found is None:
        raise ValueError(f"the server has no latency of stream {plan['id']}")
    latency = found["latency"]
    return {
        "errors": dict(found["err_cntrs"]),
        "min_us": latency["total_min"],
        "max_us": latency["total_max"],
        "histogram": {str(bucket): int(count) for bucket, count in latency["histogram"].items()},
    }


def _of(stats: Mapping[Any, Any], key: int) -> Any:
    return stats.get(key, stats.get(str(key)))


def _by_port(counter: Mapping[Any, int]) -> dict[int, int]:
    return {int(port): int(frames) for port, frames in counter.items() if str(port).isdigit()}
