"""Doctor's check of how far apart the CPUs of generator and DUT are: some milliseconds, on CPUs that no run uses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, suppress

from pytest_nfvperf.adapters.generators.embedded import build
from pytest_nfvperf.adapters.generators.embedded.generator import start_generator
from pytest_nfvperf.adapters.host.cpus import complete_testbed, discover_testbed, read_cpu_places
from pytest_nfvperf.adapters.machine.machine_checks import Check, CheckState
from pytest_nfvperf.adapters.machine.reaper import open_journal
from pytest_nfvperf.adapters.process.lock import MeasurementLock
from pytest_nfvperf.model.display import cpu_list
from pytest_nfvperf.model.disturbance.cpu_distance import Bands, Distance, find_bands
from pytest_nfvperf.model.errors import GeneratorError, NfvperfError, TestbedError
from pytest_nfvperf.model.testbed.cpu_neighbours import (
    Choice,
    CpuPair,
    advice,
    bands_text,
    closer_cpus,
    describe_distances,
    pairs,
    worth_trying,
)
from pytest_nfvperf.model.testbed.lab_cables import is_lab
from pytest_nfvperf.model.testbed.testbed import Testbed

NAME = "CPU distance"


def distance_check(testbed: Testbed | None, known: Callable[[Testbed], Sequence[float]]) -> Check:
    """Measure how far the PMDs' and VNFs' CPUs are from the generator's, or say why that was not measured.

    ``testbed`` None: the default one of this machine. ``known``: round trips, ns, that earlier runs on a testbed's
    CPUs observed.
    """
    try:
        testbed = discover_testbed() if testbed is None else complete_testbed(testbed)
        if testbed.generator.engine != "embedded" or is_lab(testbed):
            return Check(NAME, CheckState.OK, "not needed: generator and DUT share no rings")
        with ExitStack() as stack:
            return _Look(testbed, find_bands(known(testbed)), stack).check()
    except NfvperfError as error:
        return Check(NAME, CheckState.WARN, "not measured", str(error))


class _Look:
    """A generator that runs on locked CPUs as long as ``stack`` is open."""

    def __init__(self, testbed: Testbed, bands: Bands | None, stack: ExitStack) -> None:
        self._cpus, self._bands, self._stack = testbed.cpus, bands, stack
        self._places = read_cpu_places()
        program = build.find()
        self._journal = stack.enter_context(closing(open_journal()))
        self._polling = {*self._cpus.pmd, *self._cpus.generator, *self._cpus.vnf}
        stack.enter_context(MeasurementLock(self._polling, self._journal.tag))
        self._generator = stack.enter_context(closing(start_generator(self._journal, program, "doctor", self._cpus, 0)))

    def check(self) -> Check:
        cpus = self._cpus
        distances = self._generator.distances((*cpus.pmd, *cpus.vnf))
        measured = pairs(distances, self._bands, self._places)
        keys = dict.fromkeys(cpus.vnf, "cpus.vnf") | dict.fromkeys(cpus.pmd, "cpus.pmd")
        missing = [distance for distance in distances if distance.round_trip_ns is None]
        texts = [describe_distances(measured), *map(_missing_text, missing), bands_text(self._bands)]
        todo = [advice(self._choices(measured), keys)]
        if missing:
            rights = "" if all(distance.preempted for distance in missing) else ", with CAP_SYS_NICE or RLIMIT_RTPRIO"
            busy = cpu_list(sorted({distance.other for distance in missing}))
            todo.append(f"see what runs on CPU {busy}, and look again{rights}")
        state = CheckState.WARN if any(todo) else CheckState.OK
        return Check(NAME, state, "; ".join(filter(None, texts)), ". ".join(filter(None, todo)))

    def _choices(self, measured: Sequence[CpuPair]) -> list[Choice]:
        """PMDs choose first: they may take a VNF's CPU."""
        pmds, vnfs = ([pair for pair in measured if pair.other in owned] for owned in (self._cpus.pmd, self._cpus.vnf))
        if not any(pair.apart for pair in measured):
            return []
        free = self._free_cpus()
        choices = closer_cpus(
            [pair for pair in pmds if pair.apart], [*free, *(pair for pair in vnfs if not pair.apart)]
        )
        given = {better.other for _, better in choices if better is not None}
        left = [pair for pair in free if pair.other not in given]
        return [*choices, *closer_cpus([pair for pair in vnfs if pair.apart], left)]

    def _free_cpus(self) -> tuple[CpuPair, ...]:
        """Measure CPUs without an owner, if they can be locked and a thread can run there."""
        owned = {*self._polling, *self._cpus.housekeeping}
        locked = []
        for cpu in worth_trying(self._places.values(), self._cpus.generator, owned):
            with suppress(TestbedError):  # another run measures there
                self._stack.enter_context(MeasurementLock({cpu}, self._journal.tag))
                locked.append(cpu)
        try:
            return pairs(self._generator.distances(locked), self._bands, self._places)
        except GeneratorError:
            return ()


def _missing_text(distance: Distance) -> str:
    right = "" if distance.preempted else ", and there is no right to a real-time priority, for which it would give way"
    return f"CPU {distance.cpu} and CPU {distance.other} were not measured: CPU {distance.other} was in use{right}"
