"""QEMU's command line for a VNF, and when KVM is there indeed."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_nfvperf.adapters.vnf.guest import command_of_testpmd, devices, has_kvm, qemu_command
from pytest_nfvperf.adapters.vnf.guest_kernel import Kernel
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.topology.ports import VnfMode
from pytest_nfvperf.ports.generator import GeneratorPort, VnfSpec

SPEC = VnfSpec(
    "v1",
    (
        GeneratorPort(
            "v1a", "net_virtio_user,path=/run/v1a.sock,server=1", "02:00:00:00:00:01", eth_peer="02:00:00:00:00:0a"
        ),
        GeneratorPort(
            "v1b", "net_virtio_user,path=/run/v1b.sock,server=1", "02:00:00:00:00:02", eth_peer="02:00:00:00:00:0b"
        ),
    ),
    VnfMode.MAC,
)


def command(spec: VnfSpec, *, kvm: bool = False) -> list[str]:
    return qemu_command(spec, Kernel(Path("/k"), "6.1"), Path("/i"), Path("/s"), Path("/c"), kvm=kvm)


def test_every_port_is_an_interface_whose_socket_qemu_listens_on() -> None:
    given = command(SPEC)
    assert "socket,id=char1,path=/run/v1b.sock,server=on" in given
    assert "vhost-user,id=net1,chardev=char1" in given
    assert any(part.startswith("virtio-net-pci,netdev=net1,mac=02:00:00:00:00:02,addr=11.0,") for part in given)
    assert "memory-backend-memfd,id=memory,size=768M,share=on" in given
    assert devices(SPEC) == ["0000:00:10.0", "0000:00:11.0"]


def test_testpmd_in_the_guest_takes_just_these_interfaces() -> None:
    given = command_of_testpmd(SPEC)
    assert given[given.index("-a") :][:4] == ["-a", "0000:00:10.0", "-a", "0000:00:11.0"]
    assert given[-2:] == ["--eth-peer=0,02:00:00:00:00:0a", "--eth-peer=1,02:00:00:00:00:0b"]


def test_a_port_that_is_not_vhost_user_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^port 'v1a' is 'net_af_packet,iface=x': a guest needs vhost-user ports$"):
        command(VnfSpec("v1", (GeneratorPort("v1a", "net_af_packet,iface=x", "02:00:00:00:00:01"),)))


@pytest.mark.parametrize(("flags", "found"), [("fpu vmx sse", True), ("fpu svm", True), ("fpu hypervisor", False)])
def test_kvm_is_there_where_the_cpu_virtualises(tmp_path: Path, flags: str, found: bool) -> None:
    cpuinfo, device = tmp_path / "cpuinfo", tmp_path / "kvm"
    cpuinfo.write_text(f"flags : {flags}\n")
    assert not has_kvm(device, cpuinfo)
    device.touch()
    assert has_kvm(device, cpuinfo) is found
    assert ("kvm" if found else "tcg,thread=multi") in command(SPEC, kvm=found)
