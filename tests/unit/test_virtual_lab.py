"""The virtual lab's guest as data: its NICs, cables and testbed file; and how its programs ask QEMU."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from pytest_nfvperf.cli.main import main
from pytest_nfvperf.features import virtual_lab as lab
from pytest_nfvperf.features.virtual_lab import ADDRESSES, NICS, TESTBED, LabNics, ask_host
from pytest_nfvperf.model.errors import ConfigError, DeadlineError
from tests.config_support import parse_testbed


def test_each_nic_is_one_end_of_a_cable():
    arguments = LabNics().hardware(Path("/s"))
    ends = {}
    for word in arguments:
        if word.startswith("dgram,"):
            options = dict(part.split("=", 1) for part in word.split(",")[1:])
            ends[options["local.path"]] = options["remote.path"]
    assert ends == {"/s/dut0": "/s/gen0", "/s/gen0": "/s/dut0", "/s/dut1": "/s/gen1", "/s/gen1": "/s/dut1"}
    devices = [word for word in arguments if ",netdev=cable-" in word]
    assert [word.split(",")[0] for word in devices] == ["vmxnet3", "vmxnet3", "virtio-net-pci", "virtio-net-pci"]
    assert [word.rpartition("addr=")[2] for word in devices] == [each.removeprefix("0000:00:") for each in ADDRESSES]
    assert [f"id={name}," in word for name, word in zip(NICS, devices, strict=True)] == [True] * 4


def test_vfio_has_the_nics_unless_the_kernel_shall():
    assert LabNics().machine(Path("/s")).vfio == ADDRESSES
    machine = LabNics("virtio", "vmxnet3", kernel_drivers=True).machine(Path("/s"))
    assert machine.vfio == ()
    assert {"virtio_net", "vmxnet3"} <= {*machine.modules}


@pytest.mark.parametrize(("reversed_roles", "dut"), [(False, ADDRESSES[:2]), (True, ADDRESSES[2:])])
def test_its_testbed_file_can_be_read(reversed_roles: bool, dut: tuple[str, ...]):
    testbed, warnings = parse_testbed(LabNics().testbed(reversed_roles=reversed_roles), cores=3)
    assert not warnings
    assert tuple(port.pci for port in testbed.ports) == dut
    assert {*testbed.generator.devices} == {*ADDRESSES} - {*dut}


def test_an_unknown_nic_is_refused_with_those_there_are():
    with pytest.raises(ConfigError, match=r"^--generator e1000: the virtual lab has no such NIC; write vmxnet3"):
        LabNics(generator="e1000")


def test_the_command_needs_something_to_run(capsys: pytest.CaptureFixture[str]):
    assert main(["lab"]) == 1
    assert "say what to run in the virtual lab: nfvperf lab -- nfvperf doctor" in capsys.readouterr().err


def asked(monkeypatch: pytest.MonkeyPatch, shared: Path, answer: dict[str, str]) -> str:
    """What a program of the guest gets for a line, from a host that gives QEMU's answer."""
    (shared / TESTBED).touch()
    monkeypatch.setattr(lab, "is_emulated", lambda: True)
    lines: list[str] = []

    def monitor(socket: Path, command: str, **arguments: str) -> str:
        assert (socket, command) == (Path("/monitor"), "human-monitor-command")
        lines.append(arguments["command-line"])
        return json.dumps(answer)

    monkeypatch.setattr(lab, "ask_monitor", monitor)
    attend, ended = lab._answering(shared), threading.Event()

    def host() -> None:
        while not ended.wait(0.01):
            attend(Path("/monitor"))

    thread = threading.Thread(target=host)
    thread.start()
    try:
        return ask_host("set_link dut0 off", shared)
    finally:
        ended.set()
        thread.join()
        assert lines == ["set_link dut0 off"]
        assert [path.name for path in shared.iterdir()] == [TESTBED]


def test_a_program_of_the_guest_asks_qemu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    assert asked(monkeypatch, tmp_path, {"return": "dut0: down\r\n"}) == "dut0: down"


def test_what_qemu_refuses_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    with pytest.raises(ConfigError, match="refuses 'set_link dut0 off': Error: Device 'dut0' not found"):
        asked(monkeypatch, tmp_path, {"return": "Error: Device 'dut0' not found\r\n"})


def test_outside_of_the_lab_nobody_is_asked(tmp_path: Path):
    with pytest.raises(ConfigError, match="asked from inside the virtual lab"):
        ask_host("set_link dut0 off", tmp_path)


def test_a_host_that_does_not_answer_is_not_waited_for_ever(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    (tmp_path / TESTBED).touch()
    monkeypatch.setattr(lab, "is_emulated", lambda: True)
    monkeypatch.setattr(lab, "_ANSWER_DEADLINE_S", 0.05)
    with pytest.raises(DeadlineError, match="the host to pass 'info status' to QEMU's monitor"):
        ask_host("info status", tmp_path)
