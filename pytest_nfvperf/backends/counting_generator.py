"""The generator of virtual time: packet sockets on kernel interfaces, the embedded one on DPDK's rings.

Which of them sends is the ports' affair: OVS without DPDK, and the kernel's datapath, have veth pairs; OVS with DPDK
has vhost-user ports.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pytest_nfvperf.adapters.generators.embedded.counted_bursts import CountedBursts
from pytest_nfvperf.adapters.generators.packet_socket import PacketSocketGenerator
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.testbed.testbed import GeneratorInfo
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import Direction, TrialResult, TrialSpec
from pytest_nfvperf.ports.generator import Burst, GeneratorPort

_RING = "net_virtio_user,"


class CountingGenerator:
    """Fulfils ports.generator.Generator and ports.generator.CountsInstructions.

    Args:
        sockets: for kernel interfaces.
        start_rings: starts the one for rings, when the first ring is attached.
    """

    def __init__(self, sockets: PacketSocketGenerator, start_rings: Callable[[], CountedBursts]) -> None:
        self._sockets = sockets
        self._start_rings = start_rings
        self._rings: CountedBursts | None = None
        self._ring_ports: set[str] = set()

    @property
    def instruction_ns(self) -> int:
        return self._sockets.instruction_ns

    def info(self) -> GeneratorInfo:
        """Of the packet sockets, which are always there."""
        return self._sockets.info()

    def attach(self, ports: Sequence[GeneratorPort]) -> None:
        """Take the ports, all or none. ConfigError where some are rings and some kernel interfaces."""
        rings = [port for port in ports if port.device.startswith(_RING)]
        if not rings:
            self._sockets.attach(ports)
            return
        others = [port.name for port in ports if port not in rings]
        if others:
            raise ConfigError(
                f"{', '.join(port.name for port in rings)} are rings of DPDK and {', '.join(others)} are not: "
                "in virtual time the generator's ports are of one kind"
            )
        if self._rings is None:
            self._rings = self._start_rings()
        self._rings.attach(ports)
        self._ring_ports.update(port.name for port in rings)

    def detach(self, names: Sequence[str]) -> None:
        self._sockets.detach(names)
        if self._rings is not None:
            self._rings.detach(names)
        self._ring_ports.difference_update(names)

    def wait_links_up(self, deadline_s: float) -> None:
        self._sockets.wait_links_up(deadline_s)
        if self._rings is not None:
            self._rings.wait_links_up(deadline_s)

    def learn(self, traffic: Traffic, directions: Sequence[Direction]) -> None:
        """Send a few frames each way."""
        self._sender(directions).learn(traffic, directions)

    def run_trial(self, spec: TrialSpec) -> TrialResult:
        """Send the frames of all directions."""
        return self._sender(spec.directions).run_trial(spec)

    def run_counted(
        self, spec: TrialSpec, forwarding_ns: Callable[[], int] | None
    ) -> tuple[TrialResult, tuple[Burst, ...]]:
        """The same burst by burst, and what each cost."""
        return self._sender(spec.directions).run_counted(spec, forwarding_ns)

    def close(self) -> None:
        """End both. Can be called twice."""
        self._sockets.close()
        if self._rings is not None:
            self._rings.close()

    def _sender(self, directions: Sequence[Direction]) -> PacketSocketGenerator | CountedBursts:
        over_rings = any(self._ring_ports & {direction.tx, direction.rx} for direction in directions)
        return self._rings if over_rings and self._rings is not None else self._sockets
