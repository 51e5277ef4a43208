"""A VNF that is a QEMU guest with vhost-user interfaces, in which testpmd forwards."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from pytest_nfvperf.adapters.guest.initramfs import build_initramfs
from pytest_nfvperf.adapters.guest.kernel_image import prepare_kernel
from pytest_nfvperf.adapters.guest.tools import QEMU, need
from pytest_nfvperf.adapters.journal.journal import Journal, Kind
from pytest_nfvperf.adapters.process.process import spawn, tail
from pytest_nfvperf.adapters.vnf.console import Console
from pytest_nfvperf.adapters.vnf.guest_command import devices, has_kvm, qemu_command, testpmd_command, vhost_socket
from pytest_nfvperf.adapters.vnf.guest_watch import GuestWatch, HungGuestError
from pytest_nfvperf.adapters.vnf.testpmd import forward_counts, version_in
from pytest_nfvperf.adapters.vnf.testpmd_command import PROMPT
from pytest_nfvperf.model.errors import ConfigError, TestbedError
from pytest_nfvperf.model.measure.cpu_account import CpuRole
from pytest_nfvperf.model.traffic.trial import VnfCounts
from pytest_nfvperf.ports.vnf import VnfSpec

_SECOND_STAGE = Path(__file__).parent / "second_stage.sh"
_READY_DEADLINE_S, _ANSWER_DEADLINE_S = 120.0, 20.0
"""Emulated, a boot takes 4 to 10 s on a quiet machine; testpmd's start as long again."""


class GuestStartedAgain(UserWarning):
    """A guest hung before it had printed anything, and was started once more."""


class GuestVnf:
    """Fulfils ports.vnf.Vnf."""

    def __init__(self, journal: Journal, spec: VnfSpec, cpus: Sequence[int]) -> None:
        """Boot it.

        Args:
            journal: of this run; the guest's files are in its directory.
            spec: what it shall be.
            cpus: of QEMU's threads.

        Raises:
            TestbedError: QEMU, or what makes a kernel and a first file system for it, is missing; names the package.
        """
        self._spec = spec
        self._directory = journal.directory / f"guest-{spec.name}"
        self._journal = journal
        self._entry = journal.note(Kind.DIRECTORY, str(self._directory))
        self._shared = self._directory / "shared"
        self._shared.mkdir(parents=True)
        (self._shared / "devices").write_text("".join(f"{device}\n" for device in devices(spec)), encoding="ascii")
        command = b"".join(part.encode() + b"\0" for part in testpmd_command(spec))
        (self._shared / "command").write_bytes(command)
        self._cpus = cpus
        self._command = self._make_command()
        self._boot()

    def _boot(self) -> None:
        self._process = spawn(
            self._journal,
            f"{QEMU} of VNF {self._spec.name}",
            [*self._command, "-qmp", f"unix:{self._monitor},server=on,wait=off"],
            log=self._directory / "qemu.log",
            cpus=self._cpus,
            pipes=True,
        )
        self._console = Console(self._process, PROMPT)

    @property
    def _monitor(self) -> Path:
        return self._directory / "monitor"

    def _make_command(self) -> list[str]:
        try:
            need(QEMU)
            kernel = prepare_kernel()
            initramfs = build_initramfs(kernel, self._directory, _SECOND_STAGE)
        except ConfigError as error:
            raise TestbedError(
                f"VNF {self._spec.name!r} asks for a QEMU guest, which this machine cannot run: {error.message}; "
                'or use kind="testpmd" or "loop"'
            ) from error
        return qemu_command(self._spec, kernel, initramfs, self._shared, self._directory / "console", kvm=has_kvm())

    def processes(self) -> Mapping[int, CpuRole]:
        """QEMU, by its id."""
        return {self._process.pid: CpuRole.VNF}

    def wait_ready(self) -> None:
        """Wait for the prompt of the testpmd in it, and let that forward."""
        with self._told():
            try:
                self._wait_prompt()
            except HungGuestError as error:
                if error.printed:
                    raise
                warnings.warn(f"VNF {self._spec.name!r} was started again: {error}", GuestStartedAgain, stacklevel=2)
                self._process.kill()
                self._boot()
                self._wait_prompt()
            self._console.ask("start", _ANSWER_DEADLINE_S)

    def _wait_prompt(self) -> None:
        outputs = [self._directory / "console", self._shared / "stderr"]
        sockets = [Path(vhost_socket(port)) for port in self._spec.ports]
        watch = GuestWatch(self._process, outputs, sockets, self._monitor)
        self._console.wait_prompt("the prompt of the testpmd in the guest", _READY_DEADLINE_S, watch.look)

    def counts(self) -> tuple[VnfCounts, ...]:
        """From testpmd's ``show fwd stats all``, by the guest's second serial port."""
        with self._told():
            answer = self._console.ask("show fwd stats all", _ANSWER_DEADLINE_S)
            return forward_counts(self._spec, answer, version_in(self._shared / "stderr"))

    def check_alive(self) -> None:
        """TestbedError when QEMU has ended."""
        self._process.check()

    def close(self) -> None:
        """End it at once, and remove its files."""
        self._process.kill()
        self._journal.discard(self._directory, self._entry)

    @contextmanager
    def _told(self) -> Iterator[None]:
        """What goes wrong meanwhile is told with what the guest said."""
        try:
            yield
        except TestbedError as error:
            error.evidence.setdefault("guest's console", tail(self._directory / "console"))
            error.evidence.setdefault("guest's stderr", tail(self._shared / "stderr"))
            raise
