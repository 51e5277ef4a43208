"""A TRex server that we start on this machine, journaled like every process of ours."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_nfvperf.adapters.net.journal import Journal
from pytest_nfvperf.adapters.net.process import ManagedProcess, spawn
from pytest_nfvperf.adapters.net.wait import wait_until
from pytest_nfvperf.model.errors import ConfigError, DeadlineError
from pytest_nfvperf.model.testbed import TrexSpec, TrexStart

_START_DEADLINE_S = 60.0
"""With hugepages to clear and NICs to reset it takes half a minute."""

_NORMAL_CPUS = 3
_LISTENING = "0A"  # TCP_LISTEN, proc_net_tcp in the kernel's documentation
_DEVARGS = {
    # Its rings hold frames of 2 KiB otherwise, and larger ones are dropped on transmit.
    "af_packet": "--vdev=net_af_packet{number},iface={name},framesz=9216,blocksz=36864,framecnt=1024",
    "memif": "--vdev=net_memif{number},{name}",
}


def start_server(spec: TrexSpec, start: TrexStart, journal: Journal, macs: Mapping[int, str]) -> ManagedProcess:
    """Start TRex and wait until it takes requests.

    Args:
        spec: its TCP ports.
        start: what to start, on which interfaces.
        journal: it is noted there before it starts.
        macs: source MAC addresses by port number, where they are known.

    Raises:
        ConfigError: TRex is not installed there, or has too few CPUs.
        TestbedError: it ended, or did not begin to listen; with the end of its log.
    """
    binary = _binary(start)
    config = journal.directory / "trex_cfg.yaml"
    config.write_text(configuration(spec, start, journal.tag, macs))
    log = journal.directory / "trex-server.log"
    process = spawn(
        journal,
        "TRex",
        ["env", f"--chdir={start.path}", f"LD_LIBRARY_PATH={_libraries(start)}", binary, *_arguments(start, config)],
        log=log,
        netns=start.netns,
    )
    try:
        _wait_listening(process, spec.rpc_port)
    except Exception:
        process.stop()
        raise
    return process


def configuration(spec: TrexSpec, start: TrexStart, prefix: str, macs: Mapping[int, str]) -> str:
    """The text of ``trex_cfg.yaml`` (TRex manual, "Configuration YAML")."""
    platform: dict[str, Any] = {
        "version": 2,
        "prefix": f"nfv-{prefix}",
        "interfaces": [_interface(start.driver, number, name) for number, name in enumerate(start.interfaces)],
        "zmq_rpc_port": spec.rpc_port,
        "zmq_pub_port": spec.event_port,
    }
    if start.driver != "pci":
        platform["port_info"] = [
            {"src_mac": macs.get(number, _mac(number)), "dest_mac": macs.get(number ^ 1, _mac(number ^ 1))}
            for number in range(len(start.interfaces))
        ]
    if start.low_end:
        platform |= {"low_end": True, "limit_memory": 512}
    return json.dumps([platform], indent=2) + "\n"  # which is YAML, too


def _interface(driver: str, number: int, name: str) -> str:
    return name if name == "dummy" or driver not in _DEVARGS else _DEVARGS[driver].format(number=number, name=name)


def _mac(number: int) -> str:
    return f"02:00:00:00:7e:{number:02x}"


def _arguments(start: TrexStart, config: Path) -> list[str | Path]:
    arguments: list[str | Path] = ["-i", "--cfg", config, "--no-scapy-server"]
    return arguments if start.driver == "pci" else [*arguments, "--software"]


def _binary(start: TrexStart) -> Path:
    # The script binds NICs to DPDK, and looks for other TRex processes; virtual ports need neither.
    binary = Path(start.path) / ("t-rex-64" if start.driver == "pci" else "_t-rex-64")
    if not binary.is_file():
        raise ConfigError(f"no TRex is installed there: {binary} is missing", key="generator.trex.start.path")
    cpus = len(os.sched_getaffinity(0))
    if cpus < _NORMAL_CPUS and not start.low_end:
        raise ConfigError(
            f"TRex needs {_NORMAL_CPUS} CPUs, and this machine has {cpus}: write 'low_end: true', which shares them",
            key="generator.trex.start.low_end",
        )
    return binary


def _libraries(start: TrexStart) -> str:
    """Its own libraries, by machine: the program finds them from its own directory only."""
    libraries = Path(start.path) / "so"
    return os.pathsep.join([start.path, str(libraries / os.uname().machine), str(libraries)])


def _wait_listening(process: ManagedProcess, port: int) -> None:
    def listens() -> bool:
        process.check()
        return listening(process.pid, port)

    try:
        wait_until(
            listens, f"TRex to listen on TCP port {port}", _START_DEADLINE_S, last_seen=lambda: "it runs and does not"
        )
    except DeadlineError as error:
        error.evidence[process.log.name] = process.log_tail()
        raise


def listening(pid: int, port: int) -> bool:
    """True when somebody listens on a TCP port in the network namespace of a process (proc_net_tcp)."""
    try:
        lines = Path(f"/proc/{pid}/net/tcp").read_text(encoding="ascii").splitlines()[1:]
    except OSError:
        return False
    sockets = [line.split() for line in lines]
    return any(socket[1].endswith(f":{port:04X}") and socket[3] == _LISTENING for socket in sockets)
