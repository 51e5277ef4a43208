"""The fixtures ``deploy``, ``capture`` and ``capture_interface``.

``deploy`` makes a topology, or a test's own parts, live, or skips the test and says why. The captures receive a
mirror's copies outside the generator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from pytest_nfvperf.adapters.net.packet_sockets import HostCapture
from pytest_nfvperf.backends.simulated import SimulatedCapture
from pytest_nfvperf.measure.call_arguments import TOPOLOGY, Live
from pytest_nfvperf.measure.rig import LiveTopology
from pytest_nfvperf.model.arguments import Name, checked
from pytest_nfvperf.model.errors import ConfigError, UnavailableError, run_all
from pytest_nfvperf.model.testbed.testbed import TESTBED_DUT, Dut
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
