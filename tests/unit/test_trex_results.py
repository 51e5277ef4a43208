"""What a real TRex v3.08 said, recorded: read, counted, judged."""

from __future__ import annotations

import copy
import json
import socket
from pathlib import Path
from typing import Any

import pytest
from changed_answers import CANNOT_BE, changed_at, leaves

from pytest_nfvperf.adapters.generators.checks import parsing_answer
from pytest_nfvperf.adapters.generators.engine import EngineRefusedError
from pytest_nfvperf.features.trex import child as owner
from pytest_nfvperf.features.trex.child import explain_refusal, is_of_dead_run, user_name
from pytest_nfvperf.features.trex.child_process import all_received, port_counts, refusal, stream_counts, text_of
from pytest_nfvperf.features.trex.stream_plan import TrexPort
from pytest_nfvperf.features.trex.trial_results import (
    bucket_ends_ns,
    complete_latency,
    merge_latencies,
    sending_time,
    trial_result,
)
from pytest_nfvperf.model.disturbance.trial import Reason, TrialResult
from pytest_nfvperf.model.disturbance.validity import generator_reasons
from pytest_nfvperf.model.errors import ConfigError, GeneratorError
from pytest_nfvperf.model.testbed.testbed import GeneratorSpec
from pytest_nfvperf.model.traffic.mix import TrafficMix
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import Direction, TrialSpec
from pytest_nfvperf.ports.generator import GeneratorPort

DATA = Path(__file__).parents[1] / "data" / "trex"
SAMPLE: dict[str, Any] = json.loads((DATA / "stats-sample.json").read_text())["final"]
"""5 kpps each way for 4 s, a fifth of it latency frames; the server sent one frame more, as it does by duration."""

DIRECTIONS = (Direction("a", "b"), Direction("b", "a"))
PORTS = {
    name: TrexPort(number, GeneratorPort(name, str(number), "02:00:00:00:00:0a")) for number, name in enumerate("ab")
}
SPEC = TrialSpec(Traffic(), 5000, 4.0, DIRECTIONS)
PLAN = [
    {
        "sent": direction,
        "id": number,
        "port": direction,
        "rx_port": 1 - direction,
        "latency": latency,
        "frame": "00" * 60,
    }
    for direction, number, latency in ((0, 10, False), (0, 20, True), (1, 11, False), (1, 21, True))
]


def answer(**changes: Any) -> dict[str, Any]:
    return {
        "streams": [stream_counts(SAMPLE, plan) for plan in PLAN],
        "ports": port_counts(SAMPLE, (0, 1)),
        "elapsed": {"shortest_s": 3.99, "longest_s": 4.01},
        "complete": True,
        "cpu_percent": 17.5,
        "links": {"a": True, "b": True},
        **changes,
    }


def judged(**changes: Any) -> TrialResult:
    return trial_result(SPEC, answer(**changes), PLAN, PORTS)


def codes(result: TrialResult) -> set[Reason]:
    return {reason.code for reason in result.invalid}


def test_the_recorded_trial_is_counted_to_the_frame() -> None:
    result = judged()
    for counts in result.counts:
        assert (counts.sent, counts.received, counts.lost, counts.foreign) == (20_001, 20_001, 0, 0)
        assert counts.sent_bytes == counts.received_bytes == 20_001 * 64
        assert counts.elapsed_ns == 4_000_000_000
    assert result.valid
    assert result.health.busy_ratio == 0.175


def test_classes_are_counted_by_their_own_streams() -> None:
    """The plain frames of the recorded trial as one class, its latency frames as another."""
    mix = TrafficMix(plain=(Traffic(), "80 %"), sampled=(Traffic(vlan=7), "20 %"))
    plan = [{**stream, "sent": at} for at, stream in enumerate(PLAN)]
    spec = TrialSpec(mix, 5000, 4.0, DIRECTIONS)
    told = answer()
    told["streams"][3]["received"] -= 5
    told["ports"]["0"]["ipackets"] -= 5
    told["ports"]["0"]["opackets"] -= 10
    result = trial_result(spec, told, plan, PORTS)
    assert [each.name for each in result.classes] == ["plain", "sampled"]
    plain, sampled = result.classes
    assert [count.sent for count in (*plain.counts, *sampled.counts)] == [15_993, 16_001, 3998, 4000]
    assert [each.received for each in (plain, sampled)] == [32_002, 7995]
    assert sampled.counts[1].lost == 5
    assert [count.duplicated for count in (*plain.counts, *sampled.counts)] == [None, None, 0, 0]
    assert [count.sent for count in result.counts] == [19_991, 20_001]


def test_the_recorded_latency_is_read() -> None:
    latency = judged().counts[0].latency
    assert latency is not None
    assert (latency.total, latency.min_ns, latency.max_ns) == (4000, 28_000, 3_594_000)
    assert latency.percentile_ns(50) == 599_999


@pytest.mark.parametrize(("bucket", "ends"), [(0, (0, 9)), (20, (20, 29)), (100, (100, 199)), (3000, (3000, 3999))])
def test_buckets_are_of_one_digit(bucket: int, ends: tuple[int, int]) -> None:
    assert bucket_ends_ns(bucket) == (ends[0] * 1000, (ends[1] + 1) * 1000 - 1)


def test_a_stale_largest_value_is_not_believed() -> None:
    histogram = merge_latencies([{"histogram": {"20": 3, "300": 1}, "min_us": 0, "max_us": 0}])
    assert (histogram.min_ns, histogram.max_ns) == (20_000, 399_999)


@pytest.mark.parametrize(
    ("histogram", "received", "total"),
    [
        ({"0": 15, "10": 1990}, 2000, 2000),  # as measured: 2005 samples of 2000 frames
        ({"0": 10, "10": 1990}, 2000, 2000),
        ({"0": 7}, 0, 0),  # of the trial before
        ({"0": 7, "10": 3}, 3, 3),
        ({"10": 3}, 3, 3),
        ({"10": 75}, 76, 76),  # as measured: the server had not added up yet
        ({"0": 1, "10": 3}, 5, 5),
    ],
)
def test_a_histogram_has_as_many_samples_as_frames(histogram: dict[str, int], received: int, total: int) -> None:
    latency = complete_latency({"histogram": histogram, "min_us": 1, "max_us": 12, "errors": {}}, received)
    assert merge_latencies([latency]).total == total
    assert latency["histogram"].get("10") == histogram.get("10")


def test_a_trial_has_no_more_samples_than_latency_frames() -> None:
    streams = answer()["streams"]
    latency = streams[1]["latency"]
    more = {**latency, "histogram": {**latency["histogram"], "0": 5}}
    result = judged(streams=[streams[0], {**streams[1], "latency": more}, *streams[2:]])
    assert result.counts[0].latency is not None
    assert result.counts[0].latency.total == streams[1]["received"] == 4000


def test_no_latency_frame_came_back() -> None:
    assert merge_latencies([{"histogram": {}, "min_us": 0, "max_us": 0}]).total == 0


def test_statistics_with_numbers_for_keys_are_read_the_same() -> None:
    numbered = {int(key) if key.isdigit() else key: value for key, value in SAMPLE.items()}
    assert port_counts(numbered, (0, 1)) == port_counts(SAMPLE, (0, 1))


def test_settled_when_nothing_is_missing() -> None:
    assert all_received(SAMPLE, PLAN)
    missing = copy.deepcopy(SAMPLE)
    missing["flow_stats"]["10"]["rx_pkts"]["1"] -= 1
    assert not all_received(missing, PLAN)


def ports_with(port: str, **changes: int) -> dict[str, Any]:
    ports = port_counts(SAMPLE, (0, 1))
    return {**ports, port: {**ports[port], **{key: ports[port][key] + value for key, value in changes.items()}}}


def test_what_the_server_drops_on_transmit_is_not_the_duts_loss() -> None:
    streams = answer()["streams"]
    streams[0] = {**streams[0], "received": streams[0]["received"] - 300}
    result = judged(ports=ports_with("0", opackets=-300), streams=streams)
    assert result.counts[0].lost == 0
    assert codes(result) == {Reason.UNSENT}
    assert "299 of 20000 frames (1.49%) were not sent, 300 of them dropped by the server on transmit" in str(
        result.invalid[0]
    )


def test_what_the_server_drops_on_receive_is_not_the_duts_loss() -> None:
    streams = answer()["streams"]
    streams[0] = {**streams[0], "received": streams[0]["received"] - 7}
    result = judged(ports=ports_with("1", ierrors=7), streams=streams)
    assert codes(result) == {Reason.TESTER_DROPS}
    assert "(b rx_errors 7), 7 are missing" in str(result.invalid[0])
    assert [nic.lost_on_receive for nic in result.nics if nic.port == "b"] == [7]


def test_errors_on_a_port_without_loss_say_nothing() -> None:
    assert judged(ports=ports_with("1", ierrors=7)).valid


def test_real_loss_is_loss() -> None:
    streams = answer()["streams"]
    streams[0] = {**streams[0], "received": streams[0]["received"] - 7}
    result = judged(streams=streams)
    assert result.valid
    assert result.lost == 7


def test_more_received_than_sent() -> None:
    streams = answer()["streams"]
    streams[0] = {**streams[0], "received": streams[0]["received"] + 1}
    (reason,) = generator_reasons(judged(streams=streams))
    assert reason.code is Reason.MORE_RECEIVED_THAN_SENT


def test_what_the_server_does_not_look_at_is_missing_and_never_0() -> None:
    streams = answer()["streams"]
    counts = judged(streams=streams).counts[0]
    assert (counts.duplicated, counts.out_of_order, counts.corrupted, counts.elsewhere) == (None, None, None, ())
    streams[0] = {**streams[0], "elsewhere": {"0": 4}}
    streams[1] = copy.deepcopy(streams[1])
    streams[1]["latency"]["errors"]["dup"] = 3
    counts = judged(streams=streams).counts[0]
    assert (counts.duplicated, counts.out_of_order, counts.elsewhere) == (3, None, (("a", 4),))


def test_frames_of_nobodys_are_foreign() -> None:
    assert judged(ports=ports_with("1", ipackets=5)).counts[0].foreign == 5


def test_stretched_time_is_the_rigs_fault() -> None:
    """As recorded by the others: asked for 5 s, it took 15 s, sent every frame and raised nothing."""
    result = judged(elapsed={"shortest_s": 12.0, "longest_s": 12.02})
    assert codes(result) == {Reason.STRETCHED_TIME}
    assert "a trial of 4 s took 12 s: the TRex server (CPU 18 %) cannot send that fast" in str(result.invalid[0])
    assert result.offered_fps == pytest.approx(20_001 / 11.97)


def test_a_trial_that_had_to_be_stopped() -> None:
    """By the clock of whoever stopped it: the news of its end was not under way."""
    result = judged(elapsed={"shortest_s": 6.01, "longest_s": 6.1}, complete=False)
    assert "a trial of 4 s was stopped after 6.01 s: the TRex server" in str(result.invalid[0])


def test_a_server_that_answers_late_that_it_started() -> None:
    """Its frames were gone before we could see it sending: nobody stopped it, and nobody knows how long it took."""
    result = judged(elapsed={"shortest_s": 0.0, "longest_s": 7.5}, complete=False)
    assert "a trial of 4 s was over 7.5 s after the server was told to start: the TRex server" in str(result.invalid[0])
    assert codes(result) == {Reason.STRETCHED_TIME}


def test_a_link_that_is_down_after_the_trial() -> None:
    assert codes(judged(links={"a": True, "b": False})) == {Reason.LINK_DOWN}


def test_elapsed_is_never_shorter_than_the_frames_take() -> None:
    assert sending_time(1.0, {"shortest_s": 0.97, "longest_s": 0.99}) == 1.0
    assert sending_time(1.0, {"shortest_s": 1.5, "longest_s": 1.51}) == 1.47


def recorded_errors() -> dict[str, str]:
    """What the client library raised, by case."""
    told = {}
    for line in (DATA / "session-errors.jsonl").read_text().splitlines():
        note = json.loads(line).get("note")
        case = json.loads(note) if note else {}
        if case.get("msg"):
            told[case["case"]] = case["msg"]
    return told


class LibraryError(Exception):
    """As the client libraries' own: the text is in ``msg``, and PyPI's raises when asked by str()."""

    def __init__(self, msg: str) -> None:
        super().__init__(msg)
        self.msg = msg

    def __str__(self) -> str:
        raise AttributeError("lost")


@pytest.mark.parametrize(
    ("case", "code", "kind", "advice"),
    [
        ("bob.acquire(ports=[0]) while owned by alice, no force", "port_taken", GeneratorError, "write 'force: true'"),
        (
            "alice2.acquire same user second session, no force",
            "port_taken",
            GeneratorError,
            "owned by another session of 'alice'",
        ),
        ("start mult='200%'", "refused", ConfigError, "exceeds port line rate: '10 Gbps'; lower the load"),
        ("129 latency streams", "refused", ConfigError, "it has no more counters"),
        ("latency stream + mult below the latency rate", "refused", ConfigError, "raise the load"),
        ("stream without explicit MACs on an unresolved port", "unresolved", GeneratorError, "nobody answered ARP"),
        (
            "set_l3_mode in service mode, peer does not answer ARP",
            "unresolved",
            GeneratorError,
            "look at generator.trex.routes",
        ),
    ],
)
def test_recorded_refusals_are_explained(case: str, code: str, kind: type[Exception], advice: str) -> None:
    answered = refusal(LibraryError(recorded_errors()[case]))
    assert answered["code"] == code
    error = explain_refusal(EngineRefusedError("x", answered, log=""), GeneratorSpec("trex", server="tgen1"))
    assert isinstance(error, kind)
    assert advice in str(error)
    assert "TRex server tgen1" in str(error)


@pytest.mark.parametrize("end", ["too new to be supported by the server", "a newer client version is required"])
def test_versions_that_do_not_fit_both_ways(end: str) -> None:
    texts = [
        json.loads(line)["response"]["error"]["specific_err"]
        for line in (DATA / "session-errors.jsonl").read_text().splitlines()
        if end in line and json.loads(line)["chan"] == "rpc"
    ]
    assert texts
    for text in texts:
        answered = refusal(LibraryError(text))
        assert answered["code"] == "version_mismatch"
        error = explain_refusal(EngineRefusedError("x", answered, log=""), GeneratorSpec("trex", server="tgen1"))
        assert isinstance(error, ConfigError)
        assert "server: '5.1', client: " in str(error)
        assert "write 'client: DIRECTORY'" in str(error)


LOST = {"ok": False, "code": "server_lost", "error": "connection to the server had been lost"}


def test_of_a_lost_server_there_is_no_trace_of_the_librarys() -> None:
    refusal = EngineRefusedError("x", LOST, log="Traceback (most recent call last)")
    text = str(explain_refusal(refusal, GeneratorSpec("trex", server="tgen1")))
    assert "TRex server tgen1 stopped answering: connection to the server had been lost; look whether it" in text
    assert "Traceback" not in text


def test_what_nobody_understands_has_the_librarys_trace() -> None:
    odd = {"ok": False, "code": "refused", "error": "'NoneType' object has no attribute 'x'"}
    refusal = EngineRefusedError("x", odd, log="Traceback (most recent call last)")
    assert "Traceback" in str(explain_refusal(refusal, GeneratorSpec("trex", server="tgen1")))


def test_a_lost_server_is_known_by_its_words() -> None:
    lost = "'trial' - connection to the server had been lost: 'Connection lost - Subscriber timeout'"
    assert refusal(LibraryError(lost))["code"] == "server_lost"
    assert refusal(KeyboardInterrupt())["code"] == "server_lost"


def test_colours_are_taken_off() -> None:
    assert text_of(LibraryError("\x1b[1mPort 0 : *** port is down\x1b[0m")) == "Port 0 : *** port is down"


def test_our_own_dead_runs_are_told_from_other_people() -> None:
    assert not is_of_dead_run(user_name())
    name, ticks = user_name().rsplit("-", 1)
    assert is_of_dead_run(f"{name}-{int(ticks) + 1}")
    assert not is_of_dead_run("alice")
    assert not is_of_dead_run("nfvperf-elsewhere-00000000-1-1")


WHOLE = answer()


@pytest.mark.parametrize("value", CANNOT_BE, ids=repr)
@pytest.mark.parametrize("path", list(leaves(WHOLE)), ids=lambda path: ".".join(map(str, path)))
def test_no_value_that_cannot_be_becomes_another_figure(path: tuple[Any, ...], value: Any) -> None:
    """A text where a number belongs, a missing key, a negative counter: a broken testbed, or an invalid trial.

    Values that nothing is worked out of may be whatever they are.
    """
    told = ""
    try:
        with parsing_answer("TRex server tgen1", WHOLE):
            result = trial_result(SPEC, changed_at(WHOLE, path, value), PLAN, PORTS)
        reasons = (*result.invalid, *generator_reasons(result))
    except GeneratorError as error:
        told = str(error)
    if told:
        assert "TRex server tgen1 answered what cannot be read: " in told or "a whole number belongs there" in told
    elif not reasons and path[0] != "elapsed" and "latency" not in path:
        assert result.counts == judged().counts


def test_flow_statistics_that_count_nothing_are_the_rigs() -> None:
    """Seen: a NIC whose flow statistics stayed at 0, told as a loss of 100 %."""
    streams = [{**each, "received": 0, "received_bytes": 0} for each in answer()["streams"]]
    result = judged(streams=streams)
    assert Reason.IMPOSSIBLE_COUNTS in codes(result)
    assert "the streams' counters say 0 received, the port's own 20001" in str(result.invalid[-1])


def test_a_name_on_a_server_is_of_one_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Two machines of one name, or a container beside its host: the other's runs are no dead ones of ours."""
    monkeypatch.setattr(socket, "gethostname", lambda: "m\u00fcller\udce9")
    here = user_name()
    assert here.isascii()
    assert here.startswith("nfvperf-m_ller_-")
    later = f"{here}9"
    assert is_of_dead_run(later)
    monkeypatch.setattr(owner, "pid_namespace", lambda: 1)
    assert not is_of_dead_run(later)
    monkeypatch.undo()
    monkeypatch.setattr(owner, "_MACHINE_ID", tmp_path / "machine-id")
    (tmp_path / "machine-id").write_text("0" * 32)
    assert not is_of_dead_run(user_name().replace(owner._host_scope(), "elsewhere-00000000"))
