"""What OVS prints and sends, read back."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_nfvperf.adapters.ovs.built_topology import listening_sockets
from pytest_nfvperf.adapters.ovs.counters import (
    LOOKUP_ENDS,
    PORT_STATS,
    parse_pmd_perf,
    parse_pmd_stats,
    parse_port_stats,
)
from pytest_nfvperf.adapters.ovs.installation import locate
from pytest_nfvperf.adapters.ovs.openflow import connected
from pytest_nfvperf.adapters.ovs.ovsdb import RefusedError, Unixctl, present_columns
from pytest_nfvperf.adapters.ovs.sampler import parse_rxqs, rxq_question
from pytest_nfvperf.model.errors import ConfigError, DeadlineError, TestbedError

STATS = """\
pmd thread numa_id 0 core_id 1:
  packets received: 100
  packet recirculations: 3
  avg. datapath passes per packet: 1.03
  emc hits: 90
  smc hits: 0
  megaflow hits: 8
  avg. subtable lookups per megaflow hit: 1.00
  miss with success upcall: 1
  miss with failed upcall: 1
  avg. packets per output batch: 32.00
  idle cycles: 1000 (50.00%)
  processing cycles: 1000 (50.00%)
  avg cycles per packet: 20.00 (2000/100)
pmd thread numa_id 0 core_id 12:
  packets received: 11
main thread:
  packets received: 7
"""

PERF = """\

Time: 00:08:30.238
Measurement duration: 0.104 s

pmd thread numa_id 0 core_id 1:

  Iterations:              1488813  (0.07 us/it)
  - Used TSC cycles:     256217106  ( 94.8 % of total cycles)
  - idle iterations:       1488813  (100.0 % of used cycles)
  Rx packets:                  642  (6 Kpps, 1370 cycles/pkt)
  Datapath passes:             642  (1.00 passes/pkt)
  - EMC hits:                  621  ( 96.7 %)
  - SMC hits:                    0  (  0.0 %)
  - Megaflow hits:              20  (  3.1 %, 1.00 subtbl lookups/hit)
  - Upcalls:                     1  (  0.2 %, 0.0 us/upcall)
  - Lost upcalls:                0  (  0.0 %)
  Tx packets:                  642  (6 Kpps)
"""


def test_pmd_stats_are_counted_by_thread_and_in_sum() -> None:
    counters = parse_pmd_stats(STATS)
    assert counters["pmd.c01.packets_received"] == 100
    assert counters["pmd.c12.packets_received"] == 11
    assert counters["pmd.packets_received"] == 111
    assert counters["main.packets_received"] == 7
    assert (counters["pmd.cycles_busy"], counters["pmd.cycles_idle"]) == (1000, 1000)
    assert counters["pmd.upcalls_failed"] == 1
    assert "pmd.phwol_hits" not in counters, "not listed by this version: absent, not 0"
    assert not [name for name in counters if "avg" in name]


def test_pmd_perf_has_the_same_names_but_no_busy_cycles() -> None:
    counters = parse_pmd_perf(PERF)
    assert counters["pmd.packets_received"] == 642
    assert counters["pmd.emc_hits"] == 621
    assert counters["pmd.upcalls_ok"] == 1
    assert counters["pmd.c01.cycles_used"] == 256217106
    assert "pmd.cycles_busy" not in counters


def test_a_thread_that_received_nothing_has_looked_up_nothing() -> None:
    fresh = "pmd thread numa_id 0 core_id 1:\n\n  Iterations: 5  (0.07 us/it)\n  Rx packets: 0\n  Tx packets: 0\n"
    counters = parse_pmd_perf(fresh)
    assert counters["pmd.upcalls_failed"] == counters["pmd.c01.upcalls_ok"] == 0
    assert "pmd.simple_match_hits" not in counters, "perhaps not of this version"
    both = parse_pmd_perf(PERF + fresh.replace("core_id 1", "core_id 2"))
    assert (both["pmd.c02.emc_hits"], both["pmd.c01.emc_hits"], both["pmd.emc_hits"]) == (0, 621, 621)


def test_a_listing_of_another_shape_is_an_error() -> None:
    with pytest.raises(TestbedError, match="begin with 'packets received: 7', not with a thread"):
        parse_pmd_stats("packets received: 7\n")


def test_idle_cycles_below_zero_are_read_as_such() -> None:
    """OVS prints them as an unsigned number: 360 million less than 2**64 are 360 million below 0."""
    listing = STATS.replace("idle cycles: 1000 ", f"idle cycles: {(1 << 64) - 360_000_000} ")

    assert parse_pmd_stats(listing)["pmd.c01.cycles_idle"] == -360_000_000


UNKNOWN = (1 << 64) - 1
STANDARD = ("rx_packets", "tx_packets", "rx_bytes", "tx_bytes", "rx_dropped", "tx_dropped", "rx_errors", "tx_errors")


def entry(port: int, standard: dict[str, int], custom: dict[str, int]) -> bytes:
    """A port statistics entry as OVS sends it: an unrelated property, then the custom counters."""
    properties = struct.pack("!HHI", 0, 40, 0) + bytes(32)
    if custom:
        body = b"".join(
            struct.pack("!B", len(name)) + name.encode() + struct.pack("!Q", value) for name, value in custom.items()
        )
        head = struct.pack("!HHIIxxH", 0xFFFF, 16 + len(body), 0xAA01, 2, len(custom))
        padded = head + body
        properties += padded.ljust(-(-len(padded) // 8) * 8, b"\0")
    values = [standard.get(name, UNKNOWN) for name in STANDARD]
    return struct.pack("!HxxIII8Q", 80 + len(properties), port, 5, 6, *values) + properties


COUNTS = st.integers(0, UNKNOWN - 1)
NAMES = st.text("abcdefghijklmnopqrstuvwxyz_0123456789", min_size=1, max_size=40)
PORTS = st.dictionaries(
    st.integers(1, 65279),
    st.tuples(st.dictionaries(st.sampled_from(STANDARD), COUNTS), st.dictionaries(NAMES, COUNTS, max_size=6)),
    max_size=5,
)


@given(PORTS)
def test_port_statistics_come_back_as_sent(ports: dict[int, tuple[dict[str, int], dict[str, int]]]) -> None:
    body = b"".join(entry(port, standard, custom) for port, (standard, custom) in ports.items())
    assert parse_port_stats(body) == {port: {**standard, **custom} for port, (standard, custom) in ports.items()}


@contextmanager
def served(path: Path, serve: Callable[[socket.socket], None]) -> Iterator[None]:
    """Somebody who listens on a Unix socket and serves one connection."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        listener.listen()

        def run() -> None:
            connection, _ = listener.accept()
            with connection:
                serve(connection)

        thread = threading.Thread(target=run)
        thread.start()
        yield
        thread.join(5)


def message(kind: int, xid: int, payload: bytes = b"") -> bytes:
    return struct.pack("!BBHI", 5, kind, 8 + len(payload), xid) + payload


def test_port_statistics_in_parts_amid_other_messages_are_put_together(tmp_path: Path) -> None:
    more, last = (struct.pack("!HH4x", 4, flag) for flag in (1, 0))
    answer = b"".join(
        [
            message(0, 0),
            message(2, 77, b"ping"),
            message(19, 1, more + entry(1, {"rx_packets": 4}, {})),
            message(12, 9, b"port status"),
            message(19, 1, last + entry(2, {}, {"ovs_tx_retries": 5})),
        ]
    )
    heard = []

    def serve(connection: socket.socket) -> None:
        connection.recv(100)
        for at in range(0, len(answer), 7):
            connection.sendall(answer[at : at + 7])
        heard.append(connection.recv(100))

    with served(tmp_path / "s", serve):
        assert asked(tmp_path / "s") == {1: {"rx_packets": 4}, 2: {"ovs_tx_retries": 5}}
    assert heard == [message(3, 77, b"ping")]


def asked(management_socket: Path, deadline_s: float = 2.0) -> dict[int, dict[str, int]]:
    with connected(management_socket, deadline_s=deadline_s) as bridge:
        return parse_port_stats(bridge.ask(*PORT_STATS))


def test_port_statistics_refused_silent_or_absent_are_errors(tmp_path: Path) -> None:
    def refuse(connection: socket.socket) -> None:
        connection.recv(100)
        connection.sendall(message(1, 1, b"\x00\x01\x00\x02"))

    with served(tmp_path / "r", refuse), pytest.raises(TestbedError, match="OpenFlow error 00010002"):
        asked(tmp_path / "r")
    with served(tmp_path / "d", lambda c: c.recv(100) and None), pytest.raises(TestbedError, match="closed"):
        asked(tmp_path / "d")
    done = threading.Event()
    with served(tmp_path / "s", lambda c: done.wait(5) and None):
        with pytest.raises(DeadlineError, match=r"waited 0.1 s for statistics"):
            asked(tmp_path / "s", deadline_s=0.1)
        done.set()
    with pytest.raises(TestbedError, match=r"no statistics from .*/none"):
        asked(tmp_path / "none")


def reply(connection: socket.socket, answer: dict[str, object], pieces: int = 1) -> None:
    request = json.loads(connection.recv(1000))
    text = json.dumps({"id": request["id"], **answer}).encode()
    size = -(-len(text) // pieces)
    for at in range(0, len(text), size):
        connection.sendall(text[at : at + size])


def test_an_answer_in_pieces_that_end_in_brackets_is_put_together(tmp_path: Path) -> None:
    listing = "a}b}" * 50
    answer = {"result": listing, "error": None}
    with served(tmp_path / "s", lambda c: reply(c, answer, pieces=100)):
        ctl = Unixctl(tmp_path / "s", "ovs-vswitchd")
        assert ctl.call("coverage/show") == listing
        ctl.close()
        ctl.close()


def test_a_refusal_carries_the_daemons_words(tmp_path: Path) -> None:
    with served(tmp_path / "s", lambda c: reply(c, {"result": None, "error": "no datapath"})):
        ctl = Unixctl(tmp_path / "s", "ovs-vswitchd")
        with pytest.raises(RefusedError, match="ovs-vswitchd refused 'dpctl/show': no datapath"):
            ctl.call("dpctl/show")
        ctl.close()


def test_nobody_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TestbedError, match=r"ovs-vswitchd does not answer on .*/none"):
        Unixctl(tmp_path / "none", "ovs-vswitchd").call("version")


def test_only_columns_of_this_schema_are_asked_for() -> None:
    tables = {"Open_vSwitch": {"columns": {"bridges": {}, "cur_cfg": {}}}, "Bridge": {"columns": {"name": {}}}}
    assert present_columns({"tables": tables}) == {"Open_vSwitch": ["bridges", "cur_cfg"], "Bridge": ["name"]}


def test_a_prefix_with_something_else_in_it_is_the_users_mistake(tmp_path: Path) -> None:
    (tmp_path / "sbin").mkdir()
    vswitchd = tmp_path / "sbin" / "ovs-vswitchd"
    vswitchd.write_text("#!/bin/sh\necho something else\n")
    vswitchd.chmod(0o755)
    with pytest.raises(TestbedError, match="does not say a version of Open vSwitch: something else"):
        locate(str(tmp_path))
    vswitchd.write_text("#!/bin/sh\necho 'ovs-vswitchd (Open vSwitch) 3.3.4'\n")
    with pytest.raises(ConfigError, match=r"no ovsdb-server, looked for .*/sbin/ovsdb-server, .*/bin/ovsdb-server"):
        locate(str(tmp_path))


def test_listeners_are_told_from_connections(tmp_path: Path) -> None:
    table = tmp_path / "unix"
    table.write_text(
        "Num       RefCount Protocol Flags    Type St Inode Path\n"
        "0000000000000000: 00000002 00000000 00010000 0001 01 21 /run/a b.sock\n"
        "0000000000000000: 00000003 00000000 00000000 0001 03 22 /run/connected.sock\n"
        "0000000000000000: 00000003 00000000 00000000 0001 03 23\n"
    )
    assert listening_sockets(table) == {"/run/a b.sock"}


def test_a_real_listener_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "real.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        assert str(path) not in listening_sockets()
        listener.listen()
        assert str(path) in listening_sockets()
    assert str(path) not in listening_sockets()


@pytest.mark.parametrize(
    ("usage", "question"),
    [
        ("[-pmd core] [-secs secs] [dp]", ("rxq_busy_5s", ("-secs", "5"))),
        ("[-pmd core] [dp]", ("rxq_busy", ())),
        (None, ("rxq_busy", ())),
    ],
)
def test_queues_are_asked_for_the_shortest_time_that_this_ovs_knows(usage: str | None, question: object) -> None:
    """OVS 3.1 and later keep the last minute in steps of 5 s; before, there is the mean of all of it alone."""
    assert rxq_question(usage) == question


def test_the_column_of_a_queue_says_over_what_time_it_is() -> None:
    listing = "pmd thread numa_id 0 core_id 1:\n  port: p0   queue-id:  0 (enabled)   pmd usage: 44 %\n"
    assert dict(parse_rxqs(listing)) == {"p0.q0.rxq_busy": 0.44}
    assert dict(parse_rxqs(listing, "rxq_busy_5s")) == {"p0.q0.rxq_busy_5s": 0.44}


def test_every_packets_lookup_ends_somewhere() -> None:
    listing = (
        "pmd thread numa_id 0 core_id 1:\n  packets received: 1000\n  packet recirculations: 10\n  phwol hits: 1\n"
        "  mfex opt hits: 900\n  simple match hits: 700\n  emc hits: 250\n  smc hits: 20\n  megaflow hits: 30\n"
        "  miss with success upcall: 7\n  miss with failed upcall: 2\n"
    )
    counters = parse_pmd_stats(listing)
    ended = sum(counters[f"pmd.{kind}"] for kind in LOOKUP_ENDS)
    assert ended == counters["pmd.packets_received"] + counters["pmd.recirculations"] == 1010
