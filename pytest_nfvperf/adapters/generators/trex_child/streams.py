"""From the parent's plan of streams to the client library's objects.

From the library's statistics, whose keys are numbers and texts by turns, to plain JSON.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from typing import Any

MAC_OF_PACKET = 1
"""STLStreamDstMAC_PKT: the frame's own MAC addresses are sent, whatever the port has learnt."""


def stream_of(api: Any, plan: Mapping[str, Any]) -> Any:
    """One stream: a burst of exactly ``frames``, at ``fps``, counted under ``id``.

    A burst, because a duration gives frames x duration or one more.
    """
    count = api.STLFlowLatencyStats if plan["latency"] else api.STLFlowStats
    instructions = _instructions(api, plan["fields"])
    return api.STLStream(
        packet=api.STLPktBuilder(
            pkt_buffer=bytes.fromhex(plan["frame"]),
            vm=api.STLScVmRaw(instructions) if instructions else None,
            remove_fcs=False,
        ),
        mode=api.STLTXSingleBurst(pps=plan["fps"], total_pkts=plan["frames"]),
        isg=plan["start_after_us"],
        flow_stats=count(pg_id=plan["id"]) if plan["id"] is not None else None,
        mac_src_override_by_pkt=True,
        mac_dst_override_mode=MAC_OF_PACKET,
    )


def _instructions(api: Any, fields: Mapping[str, Any]) -> list[Any]:
    """What changes from frame to frame."""
    if not fields:
        return []
    made: list[Any] = []
    if "pairs" in fields:
        made += _address_and_port(api, fields["pairs"])
    for at, counter in enumerate(fields.get("counters", ())):
        name = f"counter{at}"
        made.append(
            api.STLVmFlowVar(
                name=name,
                init_value=_initial(counter),
                min_value=counter["first"],
                max_value=counter["last"],
                size=counter["bytes"],
                step=1,
                op="dec" if counter["down"] else "inc",
            )
        )
        made.append(api.STLVmWrFlowVar(fv_name=name, pkt_offset=counter["offset"]))
    made += [api.STLVmFixIpv4(offset=offset) for offset in fields["ipv4"]]
    return made


def _initial(counter: Mapping[str, Any]) -> int:
    """The value that the first frame has."""
    value: int = counter["last"] - counter["begin"] if counter["down"] else counter["first"] + counter["begin"]
    return value


def _address_and_port(api: Any, pairs: Mapping[str, Any]) -> list[Any]:
    """The address counts up; each time it comes round, so does the port."""
    return [
        api.STLVmTupleGen(
            name="flow",
            ip_min=str(ipaddress.IPv4Address(pairs["first_address"])),
            ip_max=str(ipaddress.IPv4Address(pairs["last_address"])),
            port_min=pairs["first_port"],
            port_max=pairs["last_port"],
            limit_flows=pairs["flows"],
        ),
        api.STLVmWrFlowVar(fv_name="flow.ip", pkt_offset=pairs["address_at"]),
        api.STLVmWrFlowVar(fv_name="flow.port", pkt_offset=pairs["port_at"]),
    ]


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
