"""The JSON-lines protocol: its page is replayed on a real engine, and what is not in it is refused.

The page is docs/reference/engine-protocol.md.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import Any

import pytest

from pytest_nfvperf.adapters.generators.embedded.build import build
from tests.functional.engine_talk import (
    FRAME,
    PORT,
    SECONDS,
    STREAM,
    TRIAL,
    Talk,
    documented_line,
    examples,
    shape,
    talk,
    talks,
)

__all__ = ["talk", "talks"]

FIELD = {"offset": 26, "size": 4, "bits": 32, "first": 0xC6120001, "count": 10}
CHECKSUM = {"kind": "internet", "offset": 24, "start": 14, "end": 0}


def test_the_document_is_what_the_engine_does(talk: Talk) -> None:
    pairs = examples()
    assert {request["cmd"] for request, _ in pairs} == {
        *("hello", "attach", "detach", "links", "stats", "learn", "trial", "stop", "forward", "distance", "quit")
    }
    for request, documented in pairs:
        answer = talk.line(json.dumps(request))
        assert shape(answer) == shape(documented), request["cmd"]
        assert answer["id"] == documented["id"]
        if not documented["ok"]:
            assert answer == documented
    assert talk.process.wait(5) == 0


def test_counts_of_the_documented_trial(talk: Talk) -> None:
    talk.ask(**PORT)
    request, documented = next(pair for pair in examples() if pair[0]["cmd"] == "trial")
    assert request["streams"][0]["templates"] == [FRAME]
    answer = talk.line(json.dumps(request))
    stream, wanted = answer["streams"][0], documented["streams"][0]
    for key in ("intended", "duplicated", "out_of_order", "beyond_window", "corrupted", "fell_behind", "unbuilt"):
        assert stream[key] == wanted[key], key
    assert stream["sent"] + stream["skipped"] == 10
    assert stream["received"] == stream["sent"]
    assert sum(count for _, count in stream["latency"]["counts"]) == stream["sent"]


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        ("hello", "bad_json", r"not JSON: .* \(column \d+\)"),
        ("", "bad_json", "not JSON: "),
        ('{"id": 1, "id": 2}', "bad_json", "duplicate object key"),
        ("[1]", "bad_request", "a request must be a JSON object"),
        ("{}", "bad_request", 'a request needs an integer "id"'),
        ('{"id": "1", "cmd": "hello"}', "bad_request", 'a request needs an integer "id"'),
        ('{"id": 1}', "bad_request", 'a request needs a "cmd"'),
        ('{"id": 1, "cmd": "fly"}', "unknown_command", r'unknown command "fly" \(known: hello attach'),
        ('{"id": 1, "cmd": "hello", "who": "me"}', "bad_request", "hello: .*unpacked: who"),
        ('{"id": 1, "cmd": "attach"}', "bad_request", "attach: .*name"),
        ('{"id": 1, "cmd": "trial"}', "bad_request", "trial: .*streams"),
        (
            '{"id": 1, "cmd": "trial", "streams": [], "residual_ns": 0}',
            "bad_request",
            r"a trial has 1..64 streams, not 0",
        ),
        ('{"id": 1, "cmd": "forward", "action": "stop"}', "not_forwarding", "nothing to stop"),
        ('{"id": 1, "cmd": "forward", "action": "fly"}', "bad_request", 'start or stop, not "fly"'),
    ],
)
def test_what_is_not_a_request_is_refused(talk: Talk, line: str, code: str, message: str) -> None:
    answer = talk.line(line)
    assert answer["ok"] is False
    assert answer["code"] == code
    assert re.search(message, answer["error"]), answer["error"]
    assert talk.ask(cmd="hello")["ok"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mac": "02:00"}, 'mac is not a MAC address: "02:00"'),
        ({"role": "king"}, 'role must be endpoint, forwarder, monitor or host, not "king"'),
        ({"vnf_mode": "nat"}, 'vnf_mode must be io, mac or macswap, not "nat"'),
        ({"role": "forwarder", "vnf_mode": "mac"}, "vnf_mode mac needs eth_peer"),
        ({"unread": True}, "only a monitor can be unread"),
        ({"addresses": ["02:00:00:00:00:02"]}, "addresses are for a monitor"),
        ({"role": "monitor", "addresses": ["02:00"]}, 'an address is not a MAC address: "02:00"'),
        ({"role": "monitor", "addresses": ["02:00:00:00:00:02"] * 17}, "at most 16 addresses apart, not 17"),
        ({"mtu": 67}, r"mtu must be 68..9198, not 67"),
        ({"queues": 0}, r"queues must be 1..64, not 0"),
        ({"name": "n" * 64}, "name is longer than 63 characters"),
        ({"device": "d" * 512}, "device is longer than 511 characters"),
        ({"colour": "red"}, "attach: .*unpacked: colour"),
        ({"device": "net_nonsense"}, "cannot attach p0"),
    ],
)
def test_a_port_that_cannot_be_is_refused(talk: Talk, change: dict[str, Any], message: str) -> None:
    answer = talk.ask(**{**PORT, **change})
    assert not answer["ok"]
    assert re.search(message, answer["error"]), answer["error"]
    assert talk.ask(**PORT)["ok"]


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        ({"tx": "p9"}, "unknown_port", 'no port "p9" is attached'),
        ({"fps": 0}, "bad_request", "fps must be 1 to below the TSC's frequency"),
        ({"fps": 10**11}, "bad_request", "fps must be 1 to below the TSC's frequency"),
        ({"frames": 0}, "bad_request", r"frames must be 1\.\."),
        ({"templates": []}, "bad_template", "a stream needs at least one template"),
        ({"templates": ["xyz0"]}, "bad_template", "template 0: not lower-case hex"),
        ({"templates": [FRAME[:80]]}, "bad_template", "template 0: a template must have 60 to 9216 bytes"),
        ({"templates": FRAME}, "bad_request", "stream: templates, signatures and order must be lists"),
        ({"signatures": [42, 42]}, "bad_template", "signatures must have one offset for each template: 2 for 1"),
        ({"signatures": [47]}, "bad_template", "template 0: the signature's 14 bytes .* use a longer frame"),
        ({"signatures": ["42"]}, "bad_template", "template 0: the signature's 14 bytes must be behind the first 14"),
        ({"order": [1]}, "bad_template", "the order names a template that is not there"),
        ({"order": []}, "bad_template", "the order must have 1 to 65536 entries"),
        ({"order": [0] * 65537}, "bad_template", "the order must have 1 to 65536 entries"),
        ({"fields": [FIELD] * 9}, "bad_request", "a stream has at most 8 fields, not 9"),
        ({"fields": [{"offset": 26}]}, "bad_request", r"fields\[0\]: .*size"),
        ({"fields": [{**FIELD, "first": -1}]}, "bad_request", r"fields\[0\]: first and step must be 0 to 2\^64 - 1"),
        ({"fields": [{**FIELD, "step": str(1 << 64)}]}, "bad_request", r"fields\[0\]: first and step must be 0 to"),
        ({"fields": [{**FIELD, "offset": 57}]}, "bad_template", r"fields\[0\] is beyond the end of a template"),
        ({"fields": [FIELD, {**FIELD, "offset": 29}]}, "bad_template", r"fields\[1\] overlaps a field before it"),
        ({"fields": [{**FIELD, "offset": 40}]}, "bad_template", r"fields\[0\] overlaps the signature"),
        ({"fields": [{**FIELD, "shift": 1}]}, "bad_template", r"fields\[0\] has bits that do not fit its window"),
        ({"fields": [{**FIELD, "bits": 3}]}, "bad_template", r"fields\[0\] has too few bits for its count of values"),
        ({"checksums": [CHECKSUM] * 9}, "bad_request", "a stream has at most 8 checksums, not 9"),
        ({"checksums": [{**CHECKSUM, "kind": "md5"}]}, "bad_request", 'kind must be internet or crc32c, not "md5"'),
        ({"checksums": [{**CHECKSUM, "fields": [0]}]}, "bad_template", "names a field that is not there"),
        ({"checksums": [{**CHECKSUM, "fields": [8]}]}, "bad_request", "fields and checksums must be lists of indexes"),
        ({"checksums": [{**CHECKSUM, "checksums": [0]}]}, "bad_template", "inner ones come first"),
        ({"checksums": [{**CHECKSUM, "offset": 55}]}, "bad_template", r"checksums\[0\] overlaps the signature"),
        ({"checksums": [{**CHECKSUM, "offset": 59}]}, "bad_template", "is beyond the end of a template"),
        ({"changeable": [[22]]}, "bad_request", r"changeable\[0\] must be an offset and a number of bytes"),
        ({"changeable": [[59, 2]]}, "bad_template", r"changeable\[0\] is beyond the end of a template"),
        ({"changeable": [[13, 2]]}, "bad_template", r"changeable\[0\] is in front of compared_from"),
        ({"fields": [{**FIELD, "offset": 26 + 2**32}]}, "bad_request", r"fields\[0\]: a number is out of range"),
        ({"checksums": [{**CHECKSUM, "start": 2**32}]}, "bad_request", "offset, start and end must be within a frame"),
        ({"changeable": [[2**32 + 20, 2]]}, "bad_request", r"changeable\[0\] must be an offset and a number of bytes"),
        ({"templates": [FRAME + "00" * 1600]}, "bad_template", 'template 0 .*port "p0" with its MTU of 1500 has'),
        ({"balances": []}, "bad_template", "balances must have one pair for each template: 0 for 1"),
        ({"balances": [[40]]}, "bad_request", r"balances\[0\] must be an offset and whether it is never zero"),
        ({"balances": [[41, True]]}, "bad_template", r"balances\[0\] overlaps the signature"),
        (
            {"balances": [[40, True]], "checksums": [CHECKSUM]},
            "bad_template",
            "balances are for templates that have no",
        ),
        ({"combinations": 0}, "bad_request", "combinations must be 1 or more"),
        ({"compared_from": 61}, "bad_template", "compared_from is beyond the end of a template"),
        ({"rx": []}, "bad_request", "rx must be a port or a list of 1..32 ports, not of 0"),
        ({"rx": ["p0", "p0"]}, "bad_request", 'rx names port "p0" twice'),
        ({"rx": ["p0", "p9"]}, "unknown_port", 'no port "p9" is attached'),
        ({"speed": 1}, "bad_request", "stream: .*unpacked: speed"),
    ],
)
def test_a_stream_that_cannot_be_is_refused(talk: Talk, change: dict[str, Any], code: str, message: str) -> None:
    talk.ask(**PORT)
    answer = talk.ask(cmd="trial", residual_ns=0, streams=[{**STREAM, **change}])
    assert (answer["ok"], answer["code"]) == (False, code), answer
    assert re.search(message, answer["error"]), answer["error"]
    assert talk.ask(cmd="trial", residual_ns=10**8, streams=[STREAM])["ok"]


def test_a_ninth_stream_on_one_port_is_refused(talk: Talk) -> None:
    talk.ask(**PORT)
    answer = talk.ask(cmd="trial", residual_ns=0, streams=[STREAM] * 9)
    assert answer["code"] == "bad_request"
    assert answer["error"] == 'more than 8 streams send on port "p0": send fewer classes of traffic there'
    assert talk.ask(cmd="trial", residual_ns=10**8, streams=[STREAM] * 8)["ok"]


@pytest.mark.parametrize("during", ["nothing", "trial", "intervals", "forward"])
def test_end_of_input_ends_it(talk: Talk, during: str) -> None:
    talk.ask(**PORT)
    assert talk.process.stdin is not None
    if during == "forward":
        talk.ask(cmd="forward", action="start")
    if during == "intervals":
        talk.ask(**TRIAL, streams=[SECONDS])
    if during == "trial":
        stream = {**STREAM, "frames": 600_000}
        talk.process.stdin.write(json.dumps({"id": 1, "cmd": "trial", "residual_ns": 0, "streams": [stream]}) + "\n")
        talk.process.stdin.flush()
    talk.process.stdin.close()
    assert talk.process.wait(5) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "usage: nfvperf-gen --parent PID --nice NICE"),
        (["--parent", "x", "--nice", "0"], '--parent wants a process id, not "x"'),
        (["--parent", "1", "--nice", "0"], "parent 1 is gone"),
        (["--parent", str(os.getpid()), "--nice", "21"], '--nice wants -20..19, not "21"'),
    ],
)
def test_wrong_arguments_are_named(arguments: list[str], message: str) -> None:
    done = subprocess.run([str(build()), *arguments], capture_output=True, text=True, check=False, timeout=10)
    assert done.returncode == 1
    assert message in done.stderr


def test_intervals_add_up_to_the_trial(talk: Talk) -> None:
    talk.ask(**PORT)
    lines = [talk.ask(**TRIAL, streams=[{**SECONDS, "frames": 20_000}])]
    while "ok" not in lines[-1]:
        lines.append(talk.read())
    *intervals, answer = lines
    assert {json.dumps(shape(line)) for line in intervals} == {json.dumps(shape(documented_line("interval")))}
    told = [line["interval"]["streams"][0] for line in intervals]
    at = [line["interval"]["at_ns"] for line in intervals]
    assert at == sorted(at)
    assert len(told) >= 5
    stream = answer["streams"][0]
    for key in ("sent", "refused", "skipped", "received", "highest_seq", "duplicated", "corrupted"):
        assert [one[key] for one in told] == sorted(one[key] for one in told), key
        assert told[-1][key] == stream[key], key
    assert sum(one["latency"]["samples"] for one in told) == sum(count for _, count in stream["latency"]["counts"])
    assert max(one["latency"]["max_ns"] for one in told) == stream["latency"]["max_ns"]


def test_a_trial_with_intervals_can_be_stopped(talk: Talk) -> None:
    talk.ask(**PORT)
    assert "interval" in talk.ask(**TRIAL, streams=[SECONDS])
    talk.send(id=2, cmd="hello")
    refused = talk.answer(2)
    assert (refused["code"], refused["ok"]) == ("busy", False)
    talk.send(id=3, cmd="stop")
    assert talk.answer(3) == {"id": 3, "ok": True}
    stream = talk.answer(1)["streams"][0]
    assert stream["intended"] == stream["sent"] + stream["refused"] + stream["skipped"]
    assert 0 < stream["received"] == stream["sent"] < SECONDS["frames"]
    assert talk.ask(cmd="trial", residual_ns=10**8, streams=[STREAM])["streams"][0]["received"] > 0


def test_an_interval_too_short_is_refused(talk: Talk) -> None:
    talk.ask(**PORT)
    answer = talk.ask(**{**TRIAL, "interval_ns": 1000}, streams=[STREAM])
    assert answer["error"] == "interval_ns must be 10000000 or more, or 0 for none"


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        ({"cpus": []}, "bad_request", "distance: cpus must be a list of CPU numbers"),
        ({"cpus": ["1"]}, "bad_request", "distance: cpus must be CPU numbers"),
        ({"cpus": [0]}, "bad_request", "CPU 0 is a polling thread's own"),
        ({"cpus": [1], "turns": 9}, "bad_request", r"distance: turns must be 10..20000, limit_ns 1..100000000"),
        ({"cpus": [100_000]}, "cannot_run", "no thread on CPU 100000: "),
        ({"cpus": [1], "far": True}, "bad_request", "distance: .*unpacked: far"),
    ],
)
def test_a_distance_that_cannot_be_is_refused(talk: Talk, change: dict[str, Any], code: str, message: str) -> None:
    answer = talk.ask(cmd="distance", **change)
    assert (answer["ok"], answer["code"]) == (False, code), answer
    assert re.search(message, answer["error"]), answer["error"]
    assert talk.ask(cmd="distance", cpus=[1])["ok"]


def test_the_distance_is_found_beside_a_thread_that_never_leaves(talk: Talk) -> None:
    spin = "import os; os.sched_setaffinity(0, [1]); os.nice(-20); print('on', flush=True)\nwhile True: pass"
    with subprocess.Popen([sys.executable, "-c", spin], stdout=subprocess.PIPE, text=True) as spinner:
        try:
            assert spinner.stdout is not None
            assert spinner.stdout.readline() == "on\n"
            (found,) = talk.ask(cmd="distance", cpus=[1], turns=1000, limit_ns=100_000_000)["distances"]
        finally:
            spinner.kill()
    assert found["turns"] == 1000
    assert found["preempted"] is True
    # A line's way between two cores of one machine takes tens to hundreds of ns: below is a cache of one's own.
    assert 5 < found["low_ns"] <= found["median_ns"] < 20_000


def test_a_distance_too_slow_in_coming_has_no_figure(talk: Talk) -> None:
    (found,) = talk.ask(cmd="distance", cpus=[1], turns=20_000, limit_ns=1)["distances"]
    assert found["turns"] == 0
    assert "median_ns" not in found
