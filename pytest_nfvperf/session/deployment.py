"""What fixtures give a test of its testbed: ``deploy``, ``capture``, ``capture_interface`` and ``nics``.

``deploy`` makes a topology, or a test's own parts, live, or skips the test and says why. The captures receive a
mirror's copies outside the generator. Tests of NICs are skipped where the testbed has none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

from pytest_nfvperf.adapters.host.nic import function_of, most_vfs, read_nic
from pytest_nfvperf.adapters.net.packet_sockets import HostCapture
from pytest_nfvperf.backends.simulated import SimulatedCapture
from pytest_nfvperf.measure.call_arguments import TOPOLOGY, Live
from pytest_nfvperf.measure.rig import LINK_DEADLINE_S, LiveTopology
from pytest_nfvperf.model.arguments import Name, checked
from pytest_nfvperf.model.errors import ConfigError, UnavailableError, run_all
from pytest_nfvperf.model.measure.bounds import sampled
from pytest_nfvperf.model.measure.outcome import Outcome
from pytest_nfvperf.model.statistics import Samples
from pytest_nfvperf.model.testbed.lab_cables import cabled_ends, ports_here
from pytest_nfvperf.model.testbed.testbed import TESTBED_DUT, Dut, DutPort, Testbed
from pytest_nfvperf.model.topology.compose import Composition
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.ports.generator import Capture
from pytest_nfvperf.session.run import NfvSession

HOOK = "pytest_nfvperf_make_capture"
NO_CAPTURE_INTERFACE = f"no capture interface: a lab's plug-in provides one by the hook {HOOK}"


class Deployer:
    """The fixture ``deploy``. ``composition`` has the parts that the test made, if any; ``test`` is its name."""

    def __init__(self, session: NfvSession, composition: Composition, test: str) -> None:
        self._session = session
        self._composition = composition
        self._test = test

    @checked("deploy")
    def __call__(
        self,
        topology: Annotated[Topology, TOPOLOGY] | None = None,
        *,
        dut: Dut = TESTBED_DUT,
        name: Name | None = None,
        configure: Callable[[LiveTopology], object] | None = None,
    ) -> LiveTopology:
        """Build a topology, unless it is deployed already, and attach the generator.

        Args:
            topology: what to deploy; None: what the test made of parts.
            dut: on which datapath. If the machine lacks what it needs, or the generator cannot take the topology's
                roles, the test is skipped, with the reason.
            name: of a topology made of parts; by default the test function's without ``test_``.
            configure: called with the live topology now, and whenever it is built again while the test runs, to set up
                what ``rules`` cannot say. Its exceptions are the test's. A plan does not call it.

        Raises:
            ConfigError: it is no topology, the parts make none, or the datapath cannot have it, or a line of ``rules``.
            TestbedError: it could not be built.
        """
        if topology is None:
            topology = self._composition.topology(name or self._test.removeprefix("test_"))
        if self._session.comparison is not None:
            dut = self._session.comparison.on_baseline(dut)
        self._session.refuse_lacking(topology, dut)
        self._session.rig.context.configures[topology.name] = None if self._session.options.plan else configure
        return self._session.live(topology, dut)


class Captures:
    """Captures of one test, closed together."""

    def __init__(self, session: NfvSession, config: Any) -> None:
        self._session = session
        self._config = config
        self._made: list[Capture] = []

    @checked("capture")
    def of_output(self, live: Live, output: Name) -> Capture:
        """Receives the copies that leave by an interface of a namespace; a plug-in's capture comes first.

        Raises:
            ConfigError: no plug-in has one, and no namespace has such an interface.
        """
        if self._session.options.plan:
            return SimulatedCapture()
        own = self._from_plugin(output)
        if own is None:
            nic = next((nic for nic in live.topology.nics if nic.port == output), None)
            if nic is None:
                raise ConfigError(
                    f"{output!r} is no interface of a namespace of topology {live.name!r}: capture there, or implement "
                    f"the hook {HOOK}"
                )
            own = HostCapture(live.netns(nic.namespace), nic.name)
        self._made.append(own)
        return own

    @checked("capture_interface")
    def of_interface(self, output: Name) -> Capture:
        """Receives copies behind a port of the DUT, by a plug-in's capture interface.

        Raises:
            UnavailableError: no plug-in has one for the port.
        """
        own = self._from_plugin(output)
        if own is None:
            raise UnavailableError(f"of {output} there is {NO_CAPTURE_INTERFACE}")
        self._made.append(own)
        return own

    def close(self) -> None:
        run_all(self._made.pop().close for _ in self._made[:])

    def _from_plugin(self, output: str) -> Capture | None:
        hook = self._config.hook.pytest_nfvperf_make_capture
        found: Capture | None = hook(config=self._config, testbed=self._session.backend.testbed, output=output)
        return found


_SYS = Path("/sys")
_WORDS = {"pf": "physical functions", "vf": "virtual functions"}


class Nics:
    """The fixture ``nics``: the NICs that the testbed's cables lead to. A test is skipped where a port is none.

    Every call that needs what the testbed or a driver lacks raises UnavailableError: the test is skipped, with the
    reason.
    """

    def __init__(self, session: NfvSession, labels: Mapping[str, str], sysfs: Path = _SYS) -> None:
        """UnavailableError if the testbed has no NICs, or a port of another kind."""
        self._session = session
        self._labels = labels
        self._sysfs = sysfs
        self._down: dict[str, Callable[[], None]] = {}
        testbed = session.backend.testbed
        self._ports = cabled_ports(testbed)
        lacking = why_no_nics(testbed, self._ports, sysfs)
        if lacking is not None:
            raise UnavailableError(lacking)

    def ports_on(self, function: str) -> tuple[str, str]:
        """The names of the first two cabled ports on physical ("pf") or virtual ("vf") functions."""
        names = [port.name for port in self._ports if function_of(port, self._sysfs) == function]
        if len(names) < 2:
            raise UnavailableError(
                f"{len(names)} of the testbed's ports are {_WORDS[function]}, and two are needed: name them in "
                "dut.ports, each with a cable of its own"
            )
        return names[0], names[1]

    def virtual_functions(self) -> Outcome:
        """How many VFs a NIC can have (``sriov_totalvfs``), as an outcome for the SLA: of the one with fewest."""
        known = {port.name: most_vfs(port, self._sysfs) for port in self._ports}
        without = next((name for name, count in known.items() if count is None), None)
        if without is not None:
            absent = any(function_of(port, self._sysfs) is None for port in self._ports if port.name == without)
            lacks = "is not in this machine" if absent else "has no SR-IOV (sriov_totalvfs in sysfs)"
            raise UnavailableError(f"the NIC of port {without!r} {lacks}")
        counts = [count for count in known.values() if count is not None]
        outcome = Outcome(
            labels=tuple(sorted(self._labels.items())),
            algorithm="capability",
            mean_frame_size=0.0,
            directions=0,
            samples=(Samples("virtual_functions", "VFs", (float(min(counts)),)),),
            notes=(", ".join(f"{name}: {count} VFs" for name, count in known.items()),),
        )
        outcome = sampled(outcome)
        self._session.recorder.emit(outcome)
        return outcome

    @checked("nics.set_link")
    def set_link(self, live: Live, port: Name, *, up: bool) -> None:
        """Take a port's link down at the DUT, or up again. Links that are down after the test come up again."""
        if self._session.options.plan:
            return
        built = live.deployment.built
        if not up:
            self._down[port] = lambda: built.set_link(port, up=True) if live.is_deployed else None
        try:
            built.set_link(port, up=up)
        except UnavailableError:
            self._down.pop(port, None)
            raise
        if up:
            self._down.pop(port, None)

    def try_link(self, live: LiveTopology, port: str) -> None:
        """Take a port's link down and up once, and wait until it is up: call it before a trial in which that happens.

        UnavailableError where it cannot be done.
        """
        self.set_link(live, port, up=False)
        self.set_link(live, port, up=True)
        live.deployment.built.wait_ready(LINK_DEADLINE_S)

    def close(self) -> None:
        """Bring the links up that the test left down."""
        while self._down:
            _, bring_up = self._down.popitem()
            bring_up()


def cabled_ports(testbed: Testbed) -> tuple[DutPort, ...]:
    return tuple(port for end in cabled_ends(testbed) for port in end.members)


def why_no_nics(testbed: Testbed, ports: tuple[DutPort, ...], sysfs: Path = _SYS) -> str | None:
    """Why tests of NICs cannot run on a testbed; None where every cabled port is a NIC, as far as this machine knows.

    A device that this machine does not have is taken for a NIC: a plan may be made elsewhere, and a run refuses it.
    """
    if not ports:
        return "the testbed has no NIC: name NICs in a testbed file, by dut.ports[].pci or .interface"
    for port in (port for port in ports if port in ports_here(testbed)):
        exists = port.interface is not None and (sysfs / "class/net" / port.interface).exists()
        if exists and function_of(port, sysfs) is None:
            driver = read_nic(port, sysfs).driver or "no device"
            return f"port {port.name!r} is no NIC: its interface {port.interface!r} is virtual ({driver})"
    return None
