"""The rig's own ceiling: how fast the generator is without a DUT (How we measure, rule 3).

A second engine process takes the DUT's place on the DUT's CPU, and forwards between two vhost-user sockets with the
switch's end of a ring of our own (native/vhost_switch.h), which does nothing but copy. Tests use it, too, where they
need no switch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from statistics import quantiles
from typing import Any

from pytest_nfvperf.adapters.generators.embedded.generator import EmbeddedGenerator, EngineOptions
from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.model.topology.ports import PortRole
from pytest_nfvperf.model.traffic.mix import AnyTraffic, steps_of
from pytest_nfvperf.model.traffic.trial import Direction, TrialSpec
from pytest_nfvperf.ports.generator import VIRTIO_RING, Generator, GeneratorPort

METHOD = 5
"""The version of the method. With a new one, stored ceilings are measured again."""
_FIRST_LOAD_FPS = 1_000_000
_MAX_LOAD_FPS = 256_000_000
_OVERLOAD = 1.2
_PORTS = ("ceiling0", "ceiling1")
_SATURATED = 0.98
_MORE = 1.02
_WINDOW_S = 0.005
_FEWEST_WINDOWS = 4


class VhostLoop(EmbeddedGenerator):
    """Two vhost-user server sockets; the frames of each come out at the other, ``loop0`` and ``loop1``.

    Args:
        hugepages_mib: memory in MiB, 0 without hugepages.
        drop_every: drop every n-th frame of each direction; 0: none.

    Attributes:
        devices: devargs for the other generator's two ports.
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
        self.devices = tuple(f"net_virtio_user,path={socket},server=1,{VIRTIO_RING}" for socket in sockets)
        super().__init__(
            binary,
            cpus=[cpu],
            control_cpus=control_cpus,
            run_dir=run_dir,
            file_prefix=file_prefix,
            hugepages_mib=hugepages_mib,
            options=options,
        )
        try:
            ports = [
                GeneratorPort(
                    name=f"loop{end}",
                    device=f"nfvperf_switch,path={socket}",
                    mac=f"02:00:00:00:01:{end:02x}",
                    role=PortRole.FORWARDER,
                    peer=f"loop{1 - end}",
                    tx_descriptors=1024,
                )
                for end, socket in enumerate(sockets)
            ]
            self.attach(ports, drop_every=drop_every)
            self.forward()
        except BaseException:
            self.close()
            raise


def measure_ceiling(
    traffic: AnyTraffic,
    settle: Callable[[Generator], object] = lambda _: None,
    *,
    binary: Path,
    cpus: Sequence[int],
    loop_cpu: int,
    **shared: Any,
) -> float:
    """Loop two vhost-user ports without a DUT and return the highest rate received, in frames/s per direction.

    Takes about 2 s. Raises TestbedError if no frame came back.

    Args:
        traffic: its frames and directions.
        settle: called once the links are up, before the first trial: it waits until the generator's CPU and
            ``loop_cpu`` are close to each other on the host.
        binary: the engine's program.
        cpus: that the generator runs on.
        loop_cpu: on which the DUT polls in other measurements: it must be idle now.
        shared: arguments of EmbeddedGenerator for both processes.
    """
    tag = f"ceiling-{traffic.shape_label}"
    with closing(VhostLoop(binary, cpu=loop_cpu, file_prefix=f"{tag}-loop", **shared)) as loop:
        generator = EmbeddedGenerator(binary, cpus=cpus, file_prefix=tag, **shared)
        try:
            generator.attach(loop_ports(loop.devices, mtu=max(1500, traffic.largest_frame_size - 18)))
            generator.wait_links_up(5.0)
            settle(generator)
            return ceiling_of(generator, traffic, directions(traffic))
        finally:
            generator.close()


def loop_ports(devices: tuple[str, ...], *, mtu: int = 1500) -> list[GeneratorPort]:
    return [
        GeneratorPort(name=name, device=device, mac=f"02:00:00:00:00:{end + 1:02x}", mtu=mtu)
        for end, (name, device) in enumerate(zip(_PORTS, devices, strict=True))
    ]


def directions(traffic: AnyTraffic) -> tuple[Direction, ...]:
    there, back = Direction(_PORTS[0], _PORTS[1]), Direction(_PORTS[1], _PORTS[0])
    return (there, back) if traffic.bidirectional else (there,)


def ceiling_of(generator: Generator, traffic: AnyTraffic, directions: tuple[Direction, ...], repeats: int = 5) -> float:
    """The highest rate received, in frames/s per direction.

    Double the load until it no longer comes through, then try a little above the best rate. A ceiling is what *can* be
    reached, so the best of several trials counts. A disturbed trial would limit every later search. So a failed load is
    tried again, and the search ends only when several trials in a row bring no more. Each trial counts with the upper
    quartile of its short windows, because most of it may be disturbed.
    """
    traffic, best = traffic.without_hold(), 0.0
    load = first = _FIRST_LOAD_FPS // max(1, len(steps_of(traffic)))
    while load < _MAX_LOAD_FPS:
        rates = [_rate(generator, traffic, directions, load, 0.1)]
        while rates[-1] < _SATURATED * load and len(rates) < repeats:
            rates.append(_rate(generator, traffic, directions, load, 0.1))
        best = max(best, *rates)
        if max(rates) < _SATURATED * load:
            break
        load *= 2
    without_gain = 0
    while without_gain < repeats:
        rate = _rate(generator, traffic, directions, round(max(best, first) * _OVERLOAD), 0.3)
        without_gain = 0 if rate > best * _MORE else without_gain + 1
        best = max(best, rate)
    if best == 0:
        raise TestbedError("the rig's ceiling cannot be measured: no frame came back through the loop")
    return best


def _rate(
    generator: Generator, traffic: AnyTraffic, directions: tuple[Direction, ...], load: int, seconds: float
) -> float:
    spec = TrialSpec(traffic, load, seconds, directions, latency=True, purpose="ceiling", window_s=_WINDOW_S)
    result = generator.run_trial(spec)
    rates = () if result.windows is None else result.windows.received_fps(seconds)
    if len(rates) < _FEWEST_WINDOWS:
        return result.received_fps or 0.0
    *_, upper = quantiles(rates, n=4)
    return upper / len(directions)
