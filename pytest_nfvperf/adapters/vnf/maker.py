"""Which VNFs run where on this machine."""

from __future__ import annotations

import shutil

from pytest_nfvperf.adapters.journal.journal import Journal
from pytest_nfvperf.adapters.vnf.guest import GuestVnf
from pytest_nfvperf.adapters.vnf.testpmd import PROGRAM, TestpmdPlace, TestpmdVnf
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.testbed.testbed import Testbed
from pytest_nfvperf.model.topology.ports import VnfKind
from pytest_nfvperf.ports.vnf import Vnf, VnfSpec

_VHOST_USER = "net_virtio_user,"
_SHARED_NICE = -10
"""Between the rest of the machine and the generator, which it shares a CPU with where VNFs have none."""

_USUAL_VNFS = 2
"""Of pvvp, and of S4's chain."""


class LocalVnfs:
    """Fulfils ports.vnf.VnfMaker on the machine that this runs on."""

    def __init__(self, journal: Journal, testbed: Testbed) -> None:
        self._journal = journal
        self._testbed = testbed

    def default_kind(self, spec: VnfSpec, vnfs: int) -> VnfKind:
        """As :func:`usual_kind`, by the ports that it has."""
        vhost_user = all(port.device.startswith(_VHOST_USER) for port in spec.ports)
        return usual_kind(self._testbed, vnfs, vhost_user=vhost_user)

    def start(self, kind: VnfKind, spec: VnfSpec, index: int) -> Vnf:
        for port in spec.ports:
            if not port.device.startswith(_VHOST_USER):
                raise ConfigError(
                    f"VNF {spec.name!r} is of kind {kind}, which needs vhost-user ports; {port.name!r} is "
                    f'{port.device.partition(",")[0] or "cabled"}: use Dut("dpdk"), or kind="loop"'
                )
        if kind is VnfKind.QEMU:
            return GuestVnf(self._journal, spec, self._guest_cpus(index))
        return TestpmdVnf(self._journal, spec, self._place(index))

    def _guest_cpus(self, index: int) -> tuple[int, ...]:
        """The guest's second CPU forwards, its first does the rest: on ours that does the same."""
        cpus = self._testbed.cpus
        own = (cpus.vnf[index % len(cpus.vnf)],) if cpus.vnf else ()
        return tuple(dict.fromkeys((*own, *cpus.housekeeping)))

    def _place(self, index: int) -> TestpmdPlace:
        """Its own CPU; where VNFs have none, the housekeeping one, which is slow and works."""
        cpus = self._testbed.cpus
        hugepages = self._testbed.hugepages_mib > 0
        if cpus.vnf:
            return TestpmdPlace(cpus.vnf[index % len(cpus.vnf)], cpus.housekeeping, hugepages)
        return TestpmdPlace(cpus.housekeeping[0], cpus.housekeeping, hugepages, _SHARED_NICE)


def usual_kind(testbed: Testbed, vnfs: int, *, vhost_user: bool) -> VnfKind:
    """As the testbed file says; else testpmd where each VNF has a CPU of its own, and the loop where not.

    With fewer CPUs than the suites' own chains have VNFs, chains of one and of two would be of different kinds,
    and could not be compared.

    Args:
        testbed: its ``vnf`` and ``cpus``.
        vnfs: how many the topology has.
        vhost_user: whether all of the VNF's ports are.
    """
    if testbed.vnf_kind is not None:
        return VnfKind(testbed.vnf_kind)
    room = len(testbed.cpus.vnf) >= max(vnfs, _USUAL_VNFS)
    return VnfKind.TESTPMD if vhost_user and room and shutil.which(PROGRAM) else VnfKind.LOOP
