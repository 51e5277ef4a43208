"""iperf3's command lines, from a StreamSpec (iperf3(1))."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_nfvperf.model.measure.stream_measurement import StreamSpec

FINE_INTERVAL_S = 0.1
COARSE_INTERVAL_S = 1.0
_FINE_UP_TO_S = 30
STALL_MS = 3000
"""How long nothing may arrive, or an acknowledgement be missing, before iperf3 gives up."""
CONNECT_MS = 3000


@dataclass(frozen=True, slots=True)
class Binding:
    """Where an end listens or connects from: its address and the port of the server."""

    address: str
    port: int


def interval_s(spec: StreamSpec) -> float:
    """How often iperf3 counts: the measured time is made of whole intervals."""
    whole = float(spec.omit_s).is_integer() and float(spec.duration_s).is_integer()
    return COARSE_INTERVAL_S if whole and spec.run_s > _FINE_UP_TO_S else FINE_INTERVAL_S


def server_command(binary: Path, server: Binding, interval: float) -> list[str]:
    """A server for one test, that ends after it."""
    command = [str(binary), "--server", "--one-off", *_common(server.address, server.port, interval)]
    return [*command, "--rcv-timeout", str(STALL_MS)]


def client_command(binary: Path, client: str, server: Binding, interval: float, options: Sequence[str]) -> list[str]:
    """A client, bound to an address, that runs ``options`` against a server."""
    command = [str(binary), "--client", server.address, *_common(client, server.port, interval)]
    return [*command, "--connect-timeout", str(CONNECT_MS), *options]


def stream_options(spec: StreamSpec) -> list[str]:
    """What a client is told of a spec.

    The warm-up is not left to ``--omit``: that takes whole seconds only, and the ends begin to count at
    different moments. The intervals of the whole run are reported instead, and those after the warm-up counted.
    """
    options = ["--time", str(spec.run_s), "--parallel", str(spec.streams)]
    options += {"forward": [], "reverse": ["--reverse"], "both": ["--bidir"]}[spec.direction]
    if "reverse" in spec.ways:  # a client that only sends refuses it
        options += ["--rcv-timeout", str(STALL_MS)]
    if spec.protocol == "udp":
        options += udp_options(spec.bitrate_bps)
    else:
        options += ["--snd-timeout", str(STALL_MS)]
    return options + _sizes(spec)


def udp_options(bitrate_bps: int | None) -> list[str]:
    """UDP at a rate of each stream; 0 means no limit. 64-bit numbers, so that long runs do not wrap."""
    return ["--udp", "--bitrate", str(bitrate_bps or 0), "--udp-counters-64bit"]


def _common(address: str, port: int, interval: float) -> list[str]:
    """The report goes to standard output: with ``--logfile`` 3.12 crashes where it would have to report an error."""
    options: Sequence[str] = ("--bind", address, "--port", str(port), "--interval", str(interval))
    return [*options, "--json"]


def _sizes(spec: StreamSpec) -> list[str]:
    asked = {
        "--window": spec.window_bytes,
        "--set-mss": spec.mss_bytes,
        "--length": spec.buffer_bytes,
        "--congestion": spec.congestion,
    }
    return [part for option, value in asked.items() if value is not None for part in (option, str(value))]
