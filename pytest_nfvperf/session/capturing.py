"""``capture`` and ``capture_interface``: what receives a mirror's copies outside the generator."""

from __future__ import annotations

from typing import Any

from pytest_nfvperf.adapters.net.host_capture import HostCapture
from pytest_nfvperf.backends.simulated import SimulatedCapture
from pytest_nfvperf.model.arguments import NAME, checked
from pytest_nfvperf.model.errors import ConfigError, UnavailableError
from pytest_nfvperf.ports.generator import Capture
from pytest_nfvperf.runs.call_arguments import LIVE
from pytest_nfvperf.runs.rig import LiveTopology
from pytest_nfvperf.session.run import NfvSession

HOOK = "pytest_nfvperf_make_capture"


class Captures:
    """Captures of one test, closed together.

    Args:
        session: of this run.
        config: pytest's, for the hook that plug-ins bring captures by.
    """

    def __init__(self, session: NfvSession, config: Any) -> None:
        self._session = session
        self._config = config
        self._made: list[Capture] = []

    @checked("capture", live=LIVE, output=NAME)
    def of_output(self, live: LiveTopology, output: str) -> Capture:
        """Receives the copies that leave by an interface of a namespace; a plug-in's capture comes first.

        Raises:
            ConfigError: no plug-in has one, and no namespace has such an interface.
        """
        if self._session.options.plan:
            return SimulatedCapture()
        self._made.append(self._plugins(output) or _host_capture(live, output))
        return self._made[-1]

    @checked("capture_interface", output=NAME)
    def of_interface(self, output: str) -> Capture:
        """Receives copies behind a port of the DUT, by a plug-in's capture interface.

        Raises:
            UnavailableError: no plug-in has one for the port.
        """
        own = self._plugins(output)
        if own is None:
            raise UnavailableError(
                f"no capture interface for {output}: a lab's plug-in provides one by the hook {HOOK}"
            )
        self._made.append(own)
        return own

    def close(self) -> None:
        """Close them all."""
        while self._made:
            self._made.pop().close()

    def _plugins(self, output: str) -> Capture | None:
        hook = self._config.hook.pytest_nfvperf_make_capture
        found: Capture | None = hook(config=self._config, testbed=self._session.backend.testbed, output=output)
        return found


def _host_capture(live: LiveTopology, output: str) -> HostCapture:
    for nic in live.topology.nics:
        if nic.port == output:
            return HostCapture(live.netns(nic.namespace), nic.name)
    raise ConfigError(
        f"{output!r} is no interface of a namespace of topology {live.name!r}: capture there, or implement the hook "
        f"{HOOK}"
    )
