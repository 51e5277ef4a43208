"""Named network namespaces that the run owns (ip-netns(8)'s, under /run/netns).

Made by a thread of this process, not by a forked child as pyroute2 does it: a child outlives a killed
parent for some milliseconds, and made namespaces after the reaper had been there (2 of 50 kills).
"""

from __future__ import annotations

import ctypes
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pyroute2 import IPRoute, netns
from pyroute2.netlink.exceptions import NetlinkError

from pytest_nfvperf.adapters.net.journal import Journal, Kind
from pytest_nfvperf.adapters.net.process import NETNS_DIRECTORY, run
from pytest_nfvperf.model.errors import TestbedError

_IPV6 = Path("/proc/sys/net/ipv6/conf")


_CLONE_NEWNET = 0x40000000  # linux/sched.h
_MS_BIND = 0x1000  # linux/mount.h


class Namespace:
    """A network namespace with loopback up and IPv6 off. ``close()`` removes it and all links in it."""

    def __init__(self, journal: Journal, role: str) -> None:
        """Make it; its name is ``nfv-<tag>-<role>``.

        Raises:
            TestbedError: not root, or the kernel refused.
        """
        self.name = journal.name(role)
        self._journal = journal
        self._entry = journal.note(Kind.NETNS, self.name)
        try:
            _make(self.path)
            self._disable_ipv6()
            with IPRoute(netns=self.name) as inside:
                inside.link("set", index=inside.link_lookup(ifname="lo")[0], state="up")
        except (OSError, NetlinkError) as error:
            self.close()
            raise TestbedError(f"cannot make network namespace {self.name}: {error}; this needs root") from error

    @property
    def path(self) -> Path:
        """The file that names it."""
        return NETNS_DIRECTORY / self.name

    def _disable_ipv6(self) -> None:
        """The kernel's own router solicitations and MLD reports would turn up as foreign frames in a trial."""
        if _IPV6.is_dir():
            # tee, because which namespace /proc/sys/net means is decided by who opens it.
            files = [str(_IPV6 / which / "disable_ipv6") for which in ("all", "default")]
            run(["nsenter", f"--net={self.path}", "tee", *files], stdin="1")

    def run(self, argv: list[str], *, deadline_s: float = 10.0) -> str:
        """Run a short command inside and return its standard output; TestbedError when it fails."""
        return run(["nsenter", f"--net={self.path}", *argv], deadline_s=deadline_s)

    def close(self) -> None:
        """Remove it. Can be called twice."""
        if self.path.exists():
            netns.remove(self.name)
        self._journal.forget(self._entry)


def _make(path: Path) -> None:
    """A new namespace that lives as long as ``path`` is mounted; OSError when the kernel refuses."""
    path.parent.mkdir(mode=0o755, exist_ok=True)
    path.touch(mode=0o444, exist_ok=False)
    with ThreadPoolExecutor(max_workers=1) as thread:
        thread.submit(_unshare_and_name, path).result()


def _unshare_and_name(path: Path) -> None:
    """unshare(2) moves the calling thread alone, and this one ends after it has named where it is."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), "unshare")
    source = b"/proc/thread-self/ns/net"
    if libc.mount(source, os.fsencode(path), b"none", ctypes.c_ulong(_MS_BIND), None) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(path))
