"""The embedded generator, nfvperf-gen, on this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_nfvperf.adapters.generators.embedded import build
from pytest_nfvperf.adapters.generators.embedded.ceiling import METHOD, measure_ceiling
from pytest_nfvperf.adapters.generators.embedded.generator import EmbeddedGenerator, EngineOptions, start_generator
from pytest_nfvperf.adapters.generators.engine import StartEngine, recording
from pytest_nfvperf.adapters.host.cpus import read_cpus
from pytest_nfvperf.adapters.host.nic import pci_address
from pytest_nfvperf.adapters.host.nic_binding import check_dpdk_device
from pytest_nfvperf.adapters.machine.fingerprint import fingerprint
from pytest_nfvperf.adapters.net.borrowed_interfaces import BorrowedInterfaces, check_free
from pytest_nfvperf.adapters.process.journal import TAG_VARIABLE, Journal, boot_id
from pytest_nfvperf.adapters.process.outputs import StoredValueFile
from pytest_nfvperf.backends.generator_side import FEATURE_ENGINES, GeneratorSide, ReservedMachine, digest
from pytest_nfvperf.measure.cpu_placement import PlacementWatch, read_round_trips
from pytest_nfvperf.measure.limits import CachedCeilings, Ceiling
from pytest_nfvperf.model.display import cpu_list
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.testbed.cpu_neighbours import Cpu
from pytest_nfvperf.model.testbed.lab_cables import cabled_ends, is_lab, is_pci
from pytest_nfvperf.model.testbed.testbed import CpuPlan, Testbed
from pytest_nfvperf.model.traffic.mix import AnyTraffic, TrafficMix
from pytest_nfvperf.ports.generator import VIRTIO_RING, Ceilings, Generator

HUGEPAGES_MIB = 256
"""Hugepages of the generator, MiB."""
COMPANION_MIB = 128
"""Hugepages of a companion generator, which serves one topology, MiB."""
SHARED_SKIPPED_RATIO = 0.04
"""Share of frames that a generator on a shared CPU may skip in a valid trial: its rates are those really offered."""
SHARED_NICE = -10
"""Priority of a generator's polling threads on a shared CPU: leaves this process and OVS some 10 % of it each."""
_CEILING_FACTS = ("cpu_model", "kernel", "dpdk", "cpu_plan")
_PLACEMENT_FACTS = ("cpu_model", "cpu_plan")


class EmbeddedSide(GeneratorSide):
    def __init__(self, testbed: Testbed) -> None:
        super().__init__(testbed)
        self._borrowed: BorrowedInterfaces | None = None

    def check(self) -> None:
        """Check that its devices and its program exist, before anything is touched.

        A private OVS on the kernel datapath has no port for this generator. There a test looks for the program itself.

        Raises:
            ConfigError: an interface does not exist or is in use, or a cable has no device.
            GeneratorError: the program was not built; says how to build it.
        """
        generator = self._testbed.generator
        linked = [end for end in cabled_ends(self._testbed) if end.generator_port is not None]
        if linked and not generator.devices:
            raise ConfigError(
                f"port {linked[0].name!r} is cabled, and the embedded generator has no device to send by: write e.g. "
                "'devices: [ens2f0, ens2f1]' (kernel interfaces or PCI addresses), or 'engine: trex'",
                key="generator.devices",
            )
        for device, who in self._in_the_kernel():
            check_free(device, who, "generator.devices")
        for number, device in enumerate(generator.devices):
            if is_pci(device):
                check_dpdk_device(
                    device, f"generator device {number}", f"generator.devices[{number}]", self._testbed.nics
                )
        ovs = self._testbed.ovs
        if ovs.datapath != "system" or ovs.instance == "system" or is_lab(self._testbed):
            build.find()

    def describe(self) -> str:
        cpus = self._testbed.cpus
        shared = f" (shared with housekeeping: CPU {cpu_list(cpus.shared)})" if cpus.shared else ""
        return f"nfvperf-gen on CPU {cpu_list(cpus.generator)}{shared}"

    def polling_cpus(self) -> tuple[int, ...]:
        # A lab's NIC lies between its rings and the PMDs, so distance does not matter there.
        return () if is_lab(self._testbed) else tuple(self._testbed.cpus.pmd)

    def round_trips(self, machine: ReservedMachine) -> StoredValueFile:
        return _round_trips_of(machine.facts)

    def ceilings(self, machine: ReservedMachine) -> Ceilings | None:
        """Measured on vhost-user ports, and cached for the same machine and program; a lab has none."""
        if is_lab(self._testbed):
            return None
        digest = machine.digest(_CEILING_FACTS, generator=str(build.program_path()), ring=VIRTIO_RING, method=METHOD)

        def meter(traffic: AnyTraffic, directions: int) -> Ceiling:
            both = directions == 2
            if isinstance(traffic, TrafficMix):
                shared = traffic.without_fixed()
                return self._measure_ceiling(machine, shared if both else shared.one_way())
            return self._measure_ceiling(machine, replace(traffic, bidirectional=both))

        return CachedCeilings(StoredValueFile(build.default_cache_dir() / "ceilings.json", digest), "vhost-user", meter)

    def extra_generator_mib(self) -> int | None:
        return None if is_lab(self._testbed) else COMPANION_MIB if self._testbed.hugepages_mib else 0

    def make(self, machine: ReservedMachine, beside: str = "") -> Generator:
        testbed, journal = self._testbed, machine.journal
        options = self._options()
        if machine.shared:
            options = replace(options, nice=0)
        if machine.recording is None:
            options = replace(options, stored_speed=_core_speeds(machine))
        else:  # what is played later must be judged by the recording alone
            options = replace(options, start=recording(options.start, "embedded", machine.recording))
        self.borrow(journal)
        mib = min(self._hugepages_mib, COMPANION_MIB) if beside else self._hugepages_mib
        return start_generator(journal, build.find(), f"gen{beside}", testbed.cpus, mib, options)

    def borrow(self, journal: Journal) -> None:
        """Take a lab's kernel interfaces: up, and without other traffic. Those taken before stay taken."""
        self._borrowed = self._borrowed or BorrowedInterfaces(journal)
        for device, who in self._in_the_kernel():
            self._borrowed.take(device, who, key="generator.devices")

    @classmethod
    def replayed(cls, testbed: Testbed, directory: Path, start: StartEngine) -> Generator:
        cpus = testbed.cpus
        return EmbeddedGenerator(
            Path(build.PROGRAM),
            cpus=cpus.generator,
            control_cpus=cpus.housekeeping,
            run_dir=directory,
            file_prefix="replay",
            options=EngineOptions(start=start),
        )

    def close(self) -> None:
        if self._borrowed is not None:
            self._borrowed.close()
            self._borrowed = None

    def _in_the_kernel(self) -> list[tuple[str, str]]:
        """Each kernel interface of a lab that it borrows, and its name in messages."""
        numbered = zip(self._testbed.generator.ports, self._testbed.generator.devices, strict=False)
        return [(device, f"port {number} of the generator") for number, device in numbered if not is_pci(device)]

    @property
    def _hugepages_mib(self) -> int:
        return HUGEPAGES_MIB if self._testbed.hugepages_mib else 0

    def _options(self) -> EngineOptions:
        pci = tuple(pci_address(device) for device in self._testbed.generator.devices if is_pci(device))
        options = EngineOptions(pci=pci, witness_cpus=self.polling_cpus())
        if not self._testbed.cpus.shared:
            return options
        # Skipped frames are still reported, and subtracted from the load. To sample a soak twice a second takes 6 % of
        # a core: beside the usual priority of polling threads there would be 3 %, and samples came seconds late.
        return replace(options, skipped_share=SHARED_SKIPPED_RATIO, nice=SHARED_NICE)

    def _measure_ceiling(self, machine: ReservedMachine, traffic: AnyTraffic) -> Ceiling:
        """Measure with the CPUs near if possible. A ceiling of far CPUs, or of one core's, is not cached for long."""
        cpus = self._testbed.cpus
        placement = PlacementWatch(cpus.pmd[:1], self.round_trips(machine), machine.clock)
        disturbed: list[bool] = []

        def settle(generator: Generator) -> None:
            trip = placement.settle(generator)
            disturbed.append(placement.slow or (trip is not None and placement.is_far(trip)))

        looping = loop_cpu(cpus, read_cpus())
        env = {TAG_VARIABLE: machine.journal.tag}
        options = replace(self._options(), env=env, stored_speed=_core_speeds(machine))
        if looping in cpus.housekeeping:  # beside the loop's priority, this process would get 3 % of its CPU
            options = replace(options, nice=0)
        fps = measure_ceiling(
            traffic,
            settle,
            binary=build.find(),
            cpus=cpus.generator,
            loop_cpu=looping,
            control_cpus=cpus.housekeeping,
            run_dir=machine.journal.directory,
            hugepages_mib=self._hugepages_mib,
            options=options,
        )
        placement.close()
        return Ceiling(fps, lasting=not any(disturbed))


def _core_speeds(machine: ReservedMachine) -> StoredValueFile:
    """Valid for one boot of the machine: after the next it may be on another host."""
    boot = machine.digest(_PLACEMENT_FACTS, boot=boot_id())
    return StoredValueFile(build.default_cache_dir() / "core-speeds.json", boot)


def loop_cpu(cpus: CpuPlan, all_cpus: Sequence[Cpu]) -> int:
    """The CPU on which the ceiling's looping process polls: the DUT's first.

    The system's OVS has placed its PMDs itself. If the testbed file names no CPUs for them, take one without an
    owner, or housekeeping's, which has little to do meanwhile.

    Raises:
        ConfigError: the generator has them all.
    """
    in_use = {*cpus.generator, *cpus.housekeeping, *cpus.vnf}
    unowned = [cpu.number for cpu in all_cpus if cpu.number not in in_use]
    usable = [*cpus.pmd, *unowned, *(cpu for cpu in cpus.housekeeping if cpu not in cpus.generator)]
    if not usable:
        raise ConfigError(
            "no CPU is left to measure the generator's own ceiling on, and none is named for the DUT's PMDs: the "
            f"generator has CPUs {cpu_list(cpus.generator)}, and housekeeping shares them; write 'pmd_cpus: [CPU]'",
            key="dut.ovs.pmd_cpus",
        )
    return usable[0]


def cached_round_trips(testbed: Testbed) -> list[float]:
    """Round trips, ns, that earlier runs measured on a testbed's CPUs on this machine."""
    return read_round_trips(_round_trips_of(fingerprint(testbed)))


def _round_trips_of(facts: Mapping[str, Any]) -> StoredValueFile:
    # The same CPUs of the same machine have like round trips. Those of earlier versions counted slow CPUs, too.
    known_by = digest({name: facts.get(name) for name in _PLACEMENT_FACTS} | {"without": "slow CPUs"})
    return StoredValueFile(build.default_cache_dir() / "round-trips.json", known_by)


def side_class(engine: str) -> type[GeneratorSide]:
    return EmbeddedSide if engine == "embedded" else FEATURE_ENGINES.part(engine)


def side_of(testbed: Testbed) -> GeneratorSide:
    """The side of the testbed's engine."""
    return side_class(testbed.generator.engine)(testbed)
