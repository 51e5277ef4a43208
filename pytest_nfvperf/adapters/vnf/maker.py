"""Starts VNFs on this machine, and chooses their kind and CPUs."""

from __future__ import annotations

import shutil

from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.adapters.vnf.guest import GuestVnf
from pytest_nfvperf.adapters.vnf.testpmd import PROGRAM, TestpmdVnf
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.testbed.testbed import Testbed
from pytest_nfvperf.model.topology.ports import VnfKind
from pytest_nfvperf.ports.vnf import Vnf, VnfMaker, VnfSpec

_VHOST_USER = "net_virtio_user,"
_SHARED_NICE = -10
"""A VNF without its own CPU shares one with the generator, whose priority is higher."""

_USUAL_VNFS = 2
"""In pvvp, and in S4's chain."""


class LocalVnfs(VnfMaker):
    def __init__(self, journal: Journal, testbed: Testbed) -> None:
        self._journal = journal
        self._testbed = testbed

    def default_kind(self, spec: VnfSpec, vnfs: int) -> VnfKind:
        vhost_user = all(port.device.startswith(_VHOST_USER) for port in spec.ports)
        return default_vnf_kind(self._testbed, vnfs, vhost_user=vhost_user)

    def start(self, spec: VnfSpec, index: int) -> Vnf:
        for port in spec.ports:
            if not port.device.startswith(_VHOST_USER):
                raise ConfigError(
                    f"VNF {spec.name!r} is of kind {spec.kind}, which needs vhost-user ports; {port.name!r} is "
                    f'{port.device.partition(",")[0] or "cabled"}: use Dut("dpdk"), or kind="loop"'
                )
        cpus = self._testbed.cpus
        own = cpus.vnf[index % len(cpus.vnf)] if cpus.vnf else None
        if spec.kind is VnfKind.QEMU:
            # The guest's second CPU forwards, and its first one does the rest; so do the first two of these.
            every = (*((own,) if own is not None else ()), *cpus.housekeeping)
            return GuestVnf(self._journal, spec, tuple(dict.fromkeys(every)))
        hugepages = self._testbed.hugepages_mib > 0
        # The housekeeping CPU is slow, but works.
        cpu, nice = (cpus.housekeeping[0], _SHARED_NICE) if own is None else (own, None)
        return TestpmdVnf(self._journal, spec, cpu, cpus.housekeeping, hugepages=hugepages, nice=nice)


def default_vnf_kind(testbed: Testbed, vnfs: int, *, vhost_user: bool) -> VnfKind:
    """The testbed file's kind; by default testpmd if each VNF has its own CPU, and otherwise the generator's loop.

    With fewer CPUs than the suites' own chains have VNFs the default is the loop, too: chains of one and of two would
    be of different kinds and could not be compared.

    ``vnfs``: their number in the topology. ``vhost_user``: whether all of the VNF's ports are.
    """
    if testbed.vnf_kind is not None:
        return VnfKind(testbed.vnf_kind)
    room = len(testbed.cpus.vnf) >= max(vnfs, _USUAL_VNFS)
    return VnfKind.TESTPMD if vhost_user and room and shutil.which(PROGRAM) else VnfKind.LOOP
