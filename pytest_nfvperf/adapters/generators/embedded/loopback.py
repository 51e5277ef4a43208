"""A loop without a DUT: a second engine process joins two vhost-user sockets by plain forwarding.

It takes the DUT's place, on the DUT's CPU, so that the rig's own ceiling can be measured
(docs/measuring-method.md, rule 3), and tests get by without a switch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from pytest_nfvperf.adapters.generators.embedded.generator import EmbeddedGenerator, EngineOptions
from pytest_nfvperf.model.topology.nodes import PortRole
from pytest_nfvperf.ports.generator import VIRTIO_RING, GeneratorPort


class VhostLoop:
    """Two vhost-user server sockets whose frames come out at each other's end.

    Args:
        binary: nfvperf-gen.
        cpu: where it polls, all the time.
        control_cpus: for its command thread.
        run_dir: existing directory for sockets and log.
        file_prefix: unique per instance.
        hugepages_mib: memory in MiB, 0 without hugepages.
        drop_every: every n-th frame of each direction is dropped; 0: none.
        options: of the engine, such as the tag that a reaper knows it by.

    Attributes:
        devices: devargs for the generator's two ports.
    """

    def __init__(
        self,
        binary: Path,
        *,
        cpu: int,
        control_cpus: Sequence[int],
        run_dir: Path,
        file_prefix: str,
        hugepages_mib: int = 128,
        drop_every: int = 0,
        options: EngineOptions | None = None,
    ) -> None:
        sockets = [run_dir / f"{file_prefix}-{end}.sock" for end in (0, 1)]
        self.devices = tuple(f"net_virtio_user,path={socket},{VIRTIO_RING}" for socket in sockets)
        self._engine = EmbeddedGenerator(
            binary,
            cpus=[cpu],
            control_cpus=control_cpus,
            run_dir=run_dir,
            file_prefix=file_prefix,
            hugepages_mib=hugepages_mib,
            options=options,
        )
        try:
            self._engine.attach([_forwarder(end, socket) for end, socket in enumerate(sockets)], drop_every=drop_every)
            self._engine.forward()
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        """The forwarding engine's process id."""
        return self._engine.pid

    def stop(self) -> Mapping[str, Any]:
        """Stop forwarding; returns its counters per end: ``loop0``, ``loop1``."""
        return self._engine.stop_forwarding()

    def close(self) -> None:
        """End the process and remove the sockets. Can be called twice."""
        self._engine.close()

    def __enter__(self) -> VhostLoop:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _forwarder(end: int, socket: Path) -> GeneratorPort:
    return GeneratorPort(
        name=f"loop{end}",
        device=f"net_vhost,iface={socket}",
        mac=f"02:00:00:00:01:{end:02x}",
        role=PortRole.FORWARDER,
        peer=f"loop{1 - end}",
        tx_descriptors=1024,
    )
