"""Makes the embedded testbed real: a private OVS and nfvperf-gen on this machine.

Also the order of things on a machine: reap what dead runs left, lock the CPUs that will be
measured, keep this process off them, and only then start anything.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from pytest_nfvperf.adapters.bridge.bridge_datapath import KIND as LINUX_BRIDGE
from pytest_nfvperf.adapters.bridge.bridge_datapath import BridgeDatapath
from pytest_nfvperf.adapters.cleanup.reaper import kill_noted, kill_rest, open_journal, reap
from pytest_nfvperf.adapters.fingerprint.fingerprint import fingerprint
from pytest_nfvperf.adapters.generators.embedded import build
from pytest_nfvperf.adapters.generators.embedded.ceiling import METHOD, LoopRig, measure_ceiling
from pytest_nfvperf.adapters.generators.embedded.engine_health import ValidityPolicy
from pytest_nfvperf.adapters.generators.embedded.generator import EmbeddedGenerator, EngineOptions
from pytest_nfvperf.adapters.generators.iperf3.engine import Iperf3Engine, check_iperf3, find_iperf3, iperf3_options
from pytest_nfvperf.adapters.generators.recording import recording
from pytest_nfvperf.adapters.journal.identity import TAG_VARIABLE, ProcessId
from pytest_nfvperf.adapters.journal.journal import Entry, Journal, Kind
from pytest_nfvperf.adapters.ovs.counters.trial_ledger import trial_ledger
from pytest_nfvperf.adapters.ovs.instance.ovs_binaries import locate
from pytest_nfvperf.adapters.ovs.instance.system_sockets import find_system
from pytest_nfvperf.adapters.ovs.ovs_datapath import OvsDatapath
from pytest_nfvperf.adapters.process.interrupts import held
from pytest_nfvperf.adapters.process.lock import MeasurementLock
from pytest_nfvperf.adapters.vnf.maker import LocalVnfs
from pytest_nfvperf.backends.endpoints_only import lacks_roles
from pytest_nfvperf.backends.lab_interfaces import Lab, lab_labels
from pytest_nfvperf.backends.local_daemons import LocalBgp, LocalOvn
from pytest_nfvperf.model.errors import GeneratorError, TestbedError
from pytest_nfvperf.model.measure.profile import Profile, estimate_search_s
from pytest_nfvperf.model.testbed.lab_cables import is_lab
from pytest_nfvperf.model.testbed.testbed import Dut, Testbed
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.ports.clock import Clock
from pytest_nfvperf.ports.datapath import Datapath
from pytest_nfvperf.ports.generator import VIRTIO_RING, Generator
from pytest_nfvperf.runs.cable_check import check_cabling
from pytest_nfvperf.runs.ceilings import CachedCeilings, Ceiling, NoCeilings
from pytest_nfvperf.runs.clocks import SystemClock
from pytest_nfvperf.runs.placement import KeptRoundTrips, Placement
from pytest_nfvperf.runs.replayed_ceilings import RecordedCeilings
from pytest_nfvperf.runs.rig_parts import Ceilings, RigParts

GENERATOR_MIB = 256
"""Hugepages of the generator."""

SHARED_SKIPPED_RATIO = 0.04
"""Share of frames that a generator on a shared CPU may skip in a valid trial: its rates are those really offered."""

_CEILING_FACTS = ("cpu_model", "kernel", "dpdk", "cpu_plan")
_PLACEMENT_FACTS = ("cpu_model", "cpu_plan")


class LocalBackend:
    """Wires a testbed whose generator is ours.

    Args:
        testbed: what to wire.
        keep: leave the run directory when done.
        record: directory for recordings of the conversation with the generator; None: it is not recorded.
    """

    def __init__(self, testbed: Testbed, *, keep: bool = False, record: Path | None = None) -> None:
        self.testbed = testbed
        self.record = record
        self.clock: Clock = SystemClock()
        self._keep = keep
        self._abandoned = False
        self._journal: Journal | None = None
        self._kept: Path | None = None
        self._recorded: Path | None = None
        self._lock: MeasurementLock | None = None
        self._affinity: set[int] | None = None
        self._lab = Lab(testbed) if is_lab(testbed) or testbed.ovs.instance == "system" else None

    def check(self) -> None:
        """OVS and the generator must be there; says what to install or build.

        No port of the generator can be on the kernel datapath: there it is looked for when a test wants it.
        """
        locate(self.testbed.ovs.prefix, dpdk=self.testbed.ovs.datapath == "dpdk")
        if self._lab is not None:
            self._lab.check()
        self._check_generator()
        check_iperf3(self.testbed.streams)
        if self._lab is not None:
            self._lab.check()

    def _check_generator(self) -> None:
        if self.testbed.ovs.datapath != "system" or self._lab is not None:
            build.find()

    def lacks(self, dut: Dut) -> str | None:
        """What this machine lacks for a datapath, for a person, and what to do; None when it has all."""
        return BridgeDatapath.lacks(dut) if dut.kind == LINUX_BRIDGE else OvsDatapath.lacks(self.testbed, dut)

    def lacks_roles(self, topology: Topology, dut: Dut) -> str | None:
        """What a topology wants of the generator and this one cannot be, and what to do; None when it can be all."""
        return lacks_roles(self.testbed.generator.engine, self.testbed, topology, dut)

    @property
    def journal(self) -> Journal:
        """Of what the run made; TestbedError before ``parts``."""
        if self._journal is None:
            raise TestbedError("the machine was not taken yet: call parts() first")
        return self._journal

    def lacks_streams(self) -> str | None:
        """What this machine lacks for TCP and UDP streams, and what to do; None when it has all."""
        try:
            find_iperf3(iperf3_options(self.testbed.streams).binary)
        except GeneratorError as error:
            return str(error)
        return None

    def labels(self) -> dict[str, str]:
        """Labels that every subject on this testbed has."""
        return {"datapath": self.testbed.ovs.datapath, "engine": self.testbed.generator.engine, **self._lab_labels}

    @cached_property
    def _lab_labels(self) -> dict[str, str]:
        """Read once: a run takes the NICs from the kernel."""
        return lab_labels(self.testbed)

    def describe(self) -> list[str]:
        """DUT and generator, a line each."""
        cables = [f"cable:     {text}" for text in self._lab.describe()] if self._lab is not None else []
        return [f"DUT:       {self._describe_dut()}", f"generator: {self._describe_generator()}", *cables]

    def _describe_dut(self) -> str:
        ovs, pmd = self.testbed.ovs, self.testbed.cpus.pmd
        if ovs.instance == "system":
            return f"the system's Open vSwitch in {find_system(ovs.run_dir).directory}, datapath {ovs.datapath}"
        binaries = locate(ovs.prefix, dpdk=ovs.datapath == "dpdk")
        dpdk = f", DPDK {binaries.dpdk_version}" if binaries.dpdk_version else ""
        return f"Open vSwitch {binaries.version}{dpdk}, datapath {ovs.datapath}, PMD on CPU {_listed(pmd)}"

    def _describe_generator(self) -> str:
        cpus = self.testbed.cpus
        shared = f" (shared with housekeeping: CPU {_listed(cpus.shared)})" if cpus.shared else ""
        return f"nfvperf-gen on CPU {_listed(cpus.generator)}{shared}"

    def parts(self) -> RigParts:
        """Take the machine and say what a rig is made of."""
        journal = self._take_machine()
        return RigParts(
            make_datapath=lambda dut: self._make_datapath(journal, dut),
            make_generator=lambda: self._make_generator(journal),
            make_ledger=trial_ledger,
            ceilings=self._noted(self._ceilings(journal), journal),
            pmd_cpus=len(self.testbed.cpus.pmd),
            polling_cpus=self._polling_cpus(),
            round_trips=self._round_trips(),
            make_streams=lambda: Iperf3Engine(journal, iperf3_options(self.testbed.streams)),
            vnfs=LocalVnfs(journal, self.testbed),
            check_cabling=partial(check_cabling, self.testbed) if is_lab(self.testbed) else None,
        )

    def bgp(self) -> LocalBgp:
        """Starts FRR and BIRD of this machine."""
        return LocalBgp(lambda: self.journal)

    def ovn(self) -> LocalOvn:
        """Starts OVN of this machine."""
        return LocalOvn(lambda: self.journal, self.testbed.ovs)

    def _make_datapath(self, journal: Journal, dut: Dut) -> Datapath:
        if dut.kind == LINUX_BRIDGE:
            return BridgeDatapath(journal, dut)
        return OvsDatapath.start(self.testbed, journal, dut)

    @cached_property
    def _fingerprint(self) -> dict[str, Any]:
        return fingerprint(self.testbed)

    def fingerprint(self) -> Mapping[str, Any]:
        """What must be equal for two runs to be compared."""
        return self._fingerprint

    def line_rate_bps(self) -> float | None:
        """Layer-1 rate of the slowest port, None where ports have none."""
        return min((port.line_rate_bps for port in self.testbed.ports if port.line_rate_bps), default=None)

    def estimate_search_s(self, profile: Profile) -> float:
        """How long an NDR/PDR search takes, for the progress line."""
        return estimate_search_s(profile, profile.goals)

    def leftovers(self) -> list[str]:
        """What was left on the machine on purpose."""
        kept = [f"kept {self._kept}; remove it with `nfvperf clean`"] if self._kept else []
        return [*kept, *([f"recorded {self._recorded}"] if self._recorded else [])]

    def close(self) -> None:
        """Give the machine back. Can be called twice."""
        if self._affinity is not None:
            os.sched_setaffinity(0, self._affinity)
            self._affinity = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None
        if self._lab is not None:
            self._lab.give_back()
        if self._journal is not None:
            if self._abandoned:
                kill_rest(self._journal)
            self._journal.close()
            self._kept = self._journal.directory if self._keep else None
            path = self.recording_path(self._journal) if self.record is not None else None
            self._recorded = path if path is not None and path.exists() else None
            self._journal = None

    def abandon(self) -> None:
        """Kill what the run started; called from a signal handler. ``close`` removes the rest."""
        self._abandoned = True
        if self._journal is not None:
            kill_noted(self._journal)

    def _take_machine(self) -> Journal:
        reap()
        with held():  # a run directory that nobody knows of would be left
            journal = self._journal = open_journal(keep=self._keep)
        cpus = self.testbed.cpus
        self._lock = MeasurementLock({*cpus.pmd, *cpus.generator, *cpus.vnf}, journal.tag)
        self._affinity = os.sched_getaffinity(0)
        os.sched_setaffinity(0, cpus.housekeeping)
        return journal

    def _make_generator(self, journal: Journal) -> Generator:
        cpus = self.testbed.cpus
        options = self._options(journal)
        if self.record is not None:
            options = replace(options, start=recording(options.start, "embedded", self.recording_path(journal)))
        if self._lab is not None:
            self._lab.borrow(journal)
        entry = journal.note(Kind.PROCESS, build.PROGRAM)
        return EmbeddedGenerator(
            build.find(),
            cpus=cpus.generator,
            control_cpus=cpus.housekeeping,
            run_dir=journal.directory,
            file_prefix=f"nfv-{journal.tag}-gen",
            hugepages_mib=GENERATOR_MIB if self.testbed.hugepages_mib else 0,
            options=options,
            on_spawn=lambda pid: note_process(journal, entry, pid),
        )

    def recording_path(self, journal: Journal) -> Path:
        """Where this run's conversation is recorded."""
        assert self.record is not None
        return self.record / f"{self.testbed.generator.engine}-{journal.tag}.jsonl"

    def _noted(self, ceilings: Ceilings, journal: Journal) -> Ceilings:
        """Ceilings that are recorded, too: a replay asks for the same loads only below the same ceiling."""
        return ceilings if self.record is None else RecordedCeilings(ceilings, self.recording_path(journal))

    def _options(self, journal: Journal) -> EngineOptions:
        pci = self._lab.pci if self._lab is not None else ()
        return EngineOptions(pci=pci, env={TAG_VARIABLE: journal.tag}, policy=self._policy())

    def _policy(self) -> ValidityPolicy:
        """What the generator may forgive itself: on a shared CPU it is absent more often.

        What it skips is reported, and taken off the load, all the same.
        """
        return ValidityPolicy(max_skipped_ratio=SHARED_SKIPPED_RATIO) if self.testbed.cpus.shared else ValidityPolicy()

    def _polling_cpus(self) -> tuple[int, ...]:
        """Those that share rings with the generator: behind a NIC's ring there is another way."""
        return () if is_lab(self.testbed) else tuple(self.testbed.cpus.pmd)

    def _round_trips(self) -> KeptRoundTrips:
        """Kept for the same CPUs of the same machine: their round trips are alike."""
        digest = _digest({name: self._fingerprint.get(name) for name in _PLACEMENT_FACTS})
        return KeptRoundTrips(build.default_cache_dir() / "round-trips.json", digest)

    def _ceilings(self, journal: Journal) -> Ceilings:
        if is_lab(self.testbed):
            return NoCeilings()
        facts = {name: self._fingerprint.get(name) for name in _CEILING_FACTS}
        digest = _digest(facts | {"generator": str(build.program_path()), "ring": VIRTIO_RING, "method": METHOD})

        def meter(traffic: Traffic, directions: int) -> Ceiling:
            return self._measure_ceiling(journal, replace(traffic, bidirectional=directions == 2))

        return CachedCeilings(build.default_cache_dir() / "ceilings.json", digest, "vhost-user", meter)

    def _measure_ceiling(self, journal: Journal, traffic: Traffic) -> Ceiling:
        """In the near band of CPU distance where there is one; one that could be had far only does not last."""
        cpus = self.testbed.cpus
        placement = Placement(cpus.pmd[:1], self._round_trips(), self.clock)
        trips: list[int | None] = []
        rig = LoopRig(
            build.find(),
            cpus=cpus.generator,
            control_cpus=cpus.housekeeping,
            loop_cpu=cpus.pmd[0],
            run_dir=journal.directory,
            hugepages_mib=GENERATOR_MIB if self.testbed.hugepages_mib else 0,
            options=self._options(journal),
        )
        fps = measure_ceiling(rig, traffic, lambda generator: trips.append(placement.settle(generator)))
        placement.close()
        return Ceiling(fps, lasting=not any(trip is not None and placement.is_far(trip) for trip in trips))


def note_process(journal: Journal, entry: Entry, pid: int) -> None:
    """Complete the journal's entry of a process that has just been started."""
    process = ProcessId.of(pid)
    if process is not None:
        journal.amend(entry, pid=process.pid, start_ticks=process.start_ticks)


def _digest(facts: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()[:16]


def _listed(cpus: Sequence[int]) -> str:
    return ", ".join(str(cpu) for cpu in cpus)
