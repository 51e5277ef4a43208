"""testpmd's forward statistics, read strictly: what is not known is an error, never 0. Pure.

The lines are those of ``show fwd stats all`` (testpmd's guide, "Testpmd Runtime Functions"), unchanged from DPDK
20.11 to 25.11.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pytest_nfvperf.model.errors import TestbedError

KNOWN_VERSIONS = "20.11 to 25.11"
_PORT = re.compile(r"-+ Forward statistics for port (\d+) +-+")
_TOTAL = re.compile(r"\++ Accumulated forward statistics for all ports ?\++")
_RULE = re.compile(r"-+|\++")
_COUNTS = re.compile(r"(RX|TX)-packets: (\d+) +(?:RX|TX)-dropped: (\d+) *(?:RX|TX)-total: (\d+)")
_ONE = re.compile(r"(RX-error|RX-nombufs): *(\d+)")


@dataclass(frozen=True, slots=True)
class ForwardStats:
    """What testpmd says of one port since ``start``.

    ``tx_dropped``: frames that it could not send, because the port's ring was full.
    """

    received: int
    rx_dropped: int
    sent: int
    tx_dropped: int


def parse_forward_stats(text: str, version: str) -> dict[int, ForwardStats]:
    """By testpmd's number of the port.

    Args:
        text: the answer to ``show fwd stats all``.
        version: of DPDK, for the error.

    Raises:
        TestbedError: a line of another format, a port twice, or one without both of its lines; names the version.
    """
    found: dict[int, dict[str, tuple[int, int]]] = {}
    port: int | None = None
    for line in (raw.strip() for raw in text.splitlines()):
        if header := _PORT.fullmatch(line):
            port = int(header[1])
            if port in found:
                raise _unknown(line, version)
            found[port] = {}
        elif _TOTAL.fullmatch(line):
            break  # sums of what was read
        elif counts := _COUNTS.fullmatch(line):
            if port is None or counts[1] in found[port]:
                raise _unknown(line, version)
            found[port][counts[1]] = (int(counts[2]), int(counts[3]))
        elif line and not _RULE.fullmatch(line) and not _ONE.fullmatch(line):
            raise _unknown(line, version)
    return {number: _stats(number, sides, version) for number, sides in found.items()}


def _stats(number: int, sides: dict[str, tuple[int, int]], version: str) -> ForwardStats:
    if sides.keys() != {"RX", "TX"}:
        raise _unknown(f"port {number} with lines for {', '.join(sides) or 'nothing'}", version)
    return ForwardStats(*sides["RX"], *sides["TX"])


def _unknown(line: str, version: str) -> TestbedError:
    return TestbedError(
        f"dpdk-testpmd of DPDK {version} prints statistics that are not understood: {line!r}; the formats of DPDK "
        f'{KNOWN_VERSIONS} are known. Run the VNF as kind "loop", or with another DPDK'
    )
