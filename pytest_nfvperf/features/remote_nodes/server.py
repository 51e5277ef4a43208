"""The far end: makes a node's OVS on another machine, and answers requests until the channel closes.

It journals what it makes. It removes everything on request, when the channel closes, and after ``LEASE_S`` of silence
(a pulled cable closes no channel). After a kill, the next run or ``nfvperf clean`` removes it.
"""

from __future__ import annotations

import os
import pickle
import signal
import time
import traceback
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import asdict, is_dataclass, replace
from enum import Enum
from typing import Any

from pytest_nfvperf.adapters.host.cpus import check_cpu_rights, check_pages, check_resources, complete_testbed
from pytest_nfvperf.adapters.host.pci import check_device
from pytest_nfvperf.adapters.machine.fingerprint import fingerprint
from pytest_nfvperf.adapters.machine.reaper import open_journal, reap
from pytest_nfvperf.adapters.net.borrowed_interfaces import check_free
from pytest_nfvperf.adapters.ovs.installation import locate
from pytest_nfvperf.adapters.ovs.nics import Uplinks
from pytest_nfvperf.adapters.ovs.ovs_datapath import OvsDatapath
from pytest_nfvperf.adapters.process.lock import MeasurementLock
from pytest_nfvperf.model.errors import ConfigError, NfvperfError, TestbedError
from pytest_nfvperf.model.measure.ledger import CounterSnapshot
from pytest_nfvperf.model.testbed.testbed import CpuPlan, Dut, Testbed, ovs_for_dut
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.ports.datapath import Collector

LEASE_S = 60.0
"""If no message arrives for this long, the other end is treated as dead."""

ALIVE = b""
"""The other end's keep-alive message."""

_LOCK_WAIT_S = 20.0
"""How long to wait for the CPUs' lock: a run whose channel has just closed still removes what it made."""


class RemoteNode:
    """One node's OVS and topology, on this machine.

    Its parts are ``ovs``, ``built`` and ``source0``, ``source1`` ...; ``of`` calls any method of a part.
    """

    def __init__(self) -> None:
        self._undo = ExitStack()
        self._parts: dict[str, Any] = {}

    def look(self, testbed: Testbed, dut: Dut) -> dict[str, Any]:
        """The fingerprint of this machine, with its OVS; changes nothing.

        Raises:
            ConfigError, TestbedError: a CPU, OVS or an interface is missing, or the interface is in use.
        """
        here = replace(testbed, cpus=CpuPlan((), (), ()), hugepages_mib=0)  # those are the other machine's
        check_pages()
        check_resources(here)
        check_cpu_rights(here)
        kind = dut.kind or testbed.ovs.datapath
        binaries = locate(ovs_for_dut(testbed.ovs, dut).prefix, dpdk=kind == "dpdk")
        unknown = dut.tuning.unknown_to(binaries.major_minor)
        if unknown is not None:
            raise ConfigError(unknown, key="tuning")
        for port in testbed.ports:
            if port.interface is not None:
                check_free(port.interface, f"port {port.name!r}", "dut.ports")
            if port.pci is not None:
                check_device(port.pci, f"port {port.name!r}", "dut.ports")
        return {**fingerprint(testbed), "ovs": binaries.version, "dpdk": binaries.dpdk_version, "datapath": kind}

    def start(self, testbed: Testbed, dut: Dut, name: str) -> tuple[dict[str, Any], list[tuple[str, bool]]]:
        """Lock this machine's CPUs, remove what dead runs left, and start OVS.

        Returns:
            Its DatapathInfo; and each source of counters by its name, and whether some of them settle late.

        Raises:
            TestbedError: another run measures on these CPUs, or OVS did not start.
        """
        plan = complete_testbed(replace(testbed, cpus=CpuPlan((), testbed.cpus.pmd, ())))
        here = replace(plan, cpus=replace(plan.cpus, generator=(), vnf=()))
        journal = open_journal()
        try:
            self._undo.callback(MeasurementLock(here.cpus.pmd, journal.tag, wait_s=_LOCK_WAIT_S).close)
        finally:
            self._undo.callback(journal.close)  # what is left of the run is removed before the CPUs are unlocked
        self._undo.callback(_set_affinity, os.sched_getaffinity(0))
        reap()
        os.sched_setaffinity(0, here.cpus.housekeeping)
        ovs = OvsDatapath.start(here, journal, dut, name=name)
        self._undo.callback(ovs.close)
        self._parts["ovs"] = ovs
        sources = ovs.collectors()
        self._parts |= {f"source{number}": source for number, source in enumerate(sources)}
        return asdict(ovs.info()), [(one.source, type(one).settled is not Collector.settled) for one in sources]

    def build(self, topology: Topology, uplinks: Uplinks) -> tuple[dict[str, str], list[tuple[str, str | None]]]:
        """Returns the topology's ports by OVS's interfaces, and the generator's device behind each port."""
        built = self._part("ovs").build(topology, uplinks)
        self._parts["built"] = built
        return built.interface_names(), list(built.attachments().items())

    def of(self, part: str, method: str, *arguments: object) -> object:
        """Call a method of a part; returns its result as builtin types."""
        return _builtin(getattr(self._part(part), method)(*arguments))

    def remove(self) -> None:
        built = self._parts.pop("built", None)
        if built is not None:
            built.close()

    def close(self) -> None:
        """Stop OVS, remove everything, unlock the machine."""
        self._parts.clear()
        self._undo.close()

    def _part(self, name: str) -> Any:
        if name not in self._parts:
            raise TestbedError("no topology is built on it" if name == "built" else "its OVS was not started")
        return self._parts[name]


def _set_affinity(cpus: set[int]) -> None:
    with suppress(OSError):  # a container manager may have taken CPUs away meanwhile
        os.sched_setaffinity(0, cpus)


def _builtin(value: object) -> object:
    if isinstance(value, CounterSnapshot):  # with its age in ns: the clocks of two machines differ
        return value.source, time.monotonic_ns() - value.time_ns, list(value.counters)
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        return _builtin(asdict(value))
    if isinstance(value, Mapping):
        return {key: _builtin(each) for key, each in value.items()}
    return [_builtin(each) for each in value] if isinstance(value, tuple | list) else value


def serve(channel: Any) -> None:
    """Answer requests until the channel, execnet's, closes; then remove everything."""
    # When the channel has closed, execnet waits 5 s for this function, then sends SIGINT, and ends the process 10 s
    # later.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    node = RemoteNode()
    try:
        while True:
            request = channel.receive(LEASE_S)
            if request != ALIVE:
                channel.send(_answer(node, request))
    except (EOFError, OSError, channel.TimeoutError):
        return
    finally:
        node.close()


def _answer(node: RemoteNode, request: bytes) -> tuple[object, ...]:
    """The request's number, and ``"ok", value, ns it took`` or ``"error", kind, message, evidence, key``."""
    began = time.monotonic_ns()
    number, method, arguments = pickle.loads(request)  # noqa: S301 - the sender can run any code here anyway
    raised: NfvperfError
    try:
        return number, "ok", getattr(node, method)(*arguments), time.monotonic_ns() - began
    except NfvperfError as error:
        raised = error
    except Exception:  # noqa: BLE001 - the other end raises it
        raised = TestbedError(f"{method} failed there, and should not", evidence={"traceback": traceback.format_exc()})
    message = raised.message if isinstance(raised, ConfigError | TestbedError) else str(raised)
    evidence = raised.evidence if isinstance(raised, TestbedError) else {}
    key = raised.key if isinstance(raised, ConfigError) else None
    return number, "error", type(raised).__name__, message, dict(evidence), key
