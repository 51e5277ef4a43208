"""Named network namespaces that the run owns (ip-netns(8)'s, under /run/netns).

Several are made by one thread, which does in each what must be done before there is an interface; one
that was a process's own would cost 5 ms each.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pytest_nfvperf.adapters.journal.journal import Entry, Journal, Kind
from pytest_nfvperf.adapters.net import rtnetlink
from pytest_nfvperf.adapters.net.netlink import KernelRefusedError, Netlink
from pytest_nfvperf.adapters.net.netns_names import is_named, remove_name
from pytest_nfvperf.adapters.net.threads import enter_new, in_own_thread, name_own
from pytest_nfvperf.adapters.process.process import NETNS_DIRECTORY, run
from pytest_nfvperf.model.errors import TestbedError

_SYSCTL = Path("/proc/sys/net")
_IPV4 = {"rp_filter": "0", "arp_ignore": "0", "arp_announce": "0", "arp_filter": "0", "proxy_arp": "0"}
"""The kernel's own defaults (Documentation/networking/ip-sysctl.rst)."""


@dataclass(frozen=True, slots=True)
class NamespacePlan:
    """A namespace to be made, named ``nfv-<tag>-<role>``.

    ``routing``: it forwards between its interfaces. ``ipv6``: it has IPv6 addresses; else IPv6 is off in it.
    """

    role: str
    routing: bool = False
    ipv6: bool = False


class Home(Protocol):
    """The namespace that a datapath is in: one that the run owns, or somebody else's."""

    @property
    def name(self) -> str: ...

    @property
    def path(self) -> Path: ...

    @property
    def journaled(self) -> bool:
        """True where what is made in it is not removed with it, and so has to be journaled."""
        ...

    def close(self) -> None:
        """Remove it, if it is ours."""
        ...


@dataclass(frozen=True, slots=True)
class ForeignNamespace:
    """Somebody else's namespace: nothing but what the run made in it is touched."""

    name: str
    path: Path
    journaled: bool = True

    def close(self) -> None:
        """It stays."""


class Namespace:
    """A network namespace with loopback up. ``close()`` removes it and all links in it."""

    def __init__(self, journal: Journal, role: str) -> None:
        """Make one, with IPv6 off; TestbedError when not root, or the kernel refused."""
        plan = NamespacePlan(role)
        (entry,) = _noted(journal, [plan])
        self._take(journal, entry)
        _make_all([self], [plan])

    @classmethod
    def several(cls, journal: Journal, plans: Sequence[NamespacePlan]) -> list[Namespace]:
        """Make many at once; all or none."""
        made = []
        for entry in _noted(journal, plans):
            namespace = cls.__new__(cls)
            namespace._take(journal, entry)
            made.append(namespace)
        _make_all(made, plans)
        return made

    def _take(self, journal: Journal, entry: Entry) -> None:
        self.name = entry.name
        self._journal = journal
        self._entry = entry
        self._inode: int | None = None

    name: str
    journaled = False

    @property
    def path(self) -> Path:
        return NETNS_DIRECTORY / self.name

    def run(self, argv: list[str], *, deadline_s: float = 10.0) -> str:
        """Run a short command inside and return its standard output; TestbedError when it fails."""
        return run(["nsenter", f"--net={self.path}", *argv], deadline_s=deadline_s)

    def is_there(self) -> bool:
        """False once somebody removed it, or put another one in its place."""
        if self._inode is None:
            return False
        try:
            return self.path.stat().st_ino == self._inode or is_named(self.name, self._inode)
        except FileNotFoundError:
            return False

    def close(self) -> None:
        Namespace.close_all(self._journal, [self])

    @staticmethod
    def close_all(journal: Journal, namespaces: Sequence[Namespace]) -> None:
        """Remove many. The kernel takes what is in them apart a little later."""
        for namespace in namespaces:
            if namespace.is_there():
                remove_name(namespace.name)
        journal.forget_all([namespace._entry for namespace in namespaces])

    def make(self, plan: NamespacePlan) -> None:
        """Make it where the calling thread is, which ends up inside; for ``_make_all``."""
        self.path.touch(mode=0o444, exist_ok=False)
        self._inode = self.path.stat().st_ino  # from here on it is ours to remove
        enter_new()
        name_own(self.path)
        self._inode = self.path.stat().st_ino
        _prepare(plan)


def _noted(journal: Journal, plans: Sequence[NamespacePlan]) -> list[Entry]:
    return journal.note_all(Kind.NETNS, [journal.name(plan.role) for plan in plans])


def _make_all(namespaces: Sequence[Namespace], plans: Sequence[NamespacePlan]) -> None:
    def make_each() -> None:
        for namespace, plan in zip(namespaces, plans, strict=True):
            namespace.make(plan)

    try:
        NETNS_DIRECTORY.mkdir(mode=0o755, exist_ok=True)
        in_own_thread(make_each)
    except (OSError, KernelRefusedError) as error:
        for namespace in namespaces:
            namespace.close()
        raise TestbedError(_why_not(namespaces, error)) from error
    except BaseException:
        for namespace in namespaces:
            namespace.close()
        raise


def _why_not(namespaces: Sequence[Namespace], error: OSError | KernelRefusedError) -> str:
    if isinstance(error, FileExistsError):
        return f"cannot make network namespace {error.filename}: there is one of this name, which is left alone"
    failed = next((namespace.name for namespace in namespaces if not namespace.is_there()), namespaces[-1].name)
    code = error.code if isinstance(error, KernelRefusedError) else error.errno
    advice = "; this needs root" if code in {errno.EPERM, errno.EACCES} else ""
    if code == errno.EROFS:
        advice = "; a container needs /proc/sys to be writable (docker run --privileged)"
    limit = "; the kernel's limit is /proc/sys/user/max_net_namespaces" if code == errno.ENOSPC else ""
    return f"cannot make network namespace {failed}: {error}{advice}{limit}"


def _prepare(plan: NamespacePlan) -> None:
    """What is set in the calling thread's namespace before it has an interface but loopback.

    Which namespace /proc/sys/net means is decided by the thread that opens a file there.
    """
    if (_SYSCTL / "ipv6").is_dir():
        _prepare_ipv6(plan)
    elif plan.ipv6:
        raise OSError(
            errno.EAFNOSUPPORT, "it is to have IPv6 addresses, and this kernel has no IPv6 (ipv6.disable=1 at boot?)"
        )
    _prepare_ipv4(plan)
    with Netlink() as netlink:
        netlink.send([rtnetlink.set_up(index=1, name="lo")])


def _prepare_ipv4(plan: NamespacePlan) -> None:
    """A new namespace begins with the host's settings (net.core.devconf_inherit_init_net, 0 by default).

    So Docker's ip_forward=1 would make routers of all ends, systemd's rp_filter would drop what comes by another way.
    """
    (_SYSCTL / "ipv4/ip_forward").write_text("1" if plan.routing else "0", encoding="utf-8")
    for which in ("all", "default"):
        for name, value in _IPV4.items():
            (_SYSCTL / "ipv4/conf" / which / name).write_text(value, encoding="utf-8")


def _prepare_ipv6(plan: NamespacePlan) -> None:
    """The kernel's own router solicitations and MLD reports would turn up as foreign frames in a trial."""
    for which in ("all", "default"):
        conf = _SYSCTL / "ipv6/conf" / which
        (conf / "disable_ipv6").write_text("0" if plan.ipv6 else "1", encoding="utf-8")
        if plan.ipv6:
            for name, value in (("accept_dad", "0"), ("accept_ra", "0")):
                (conf / name).write_text(value, encoding="utf-8")
    if plan.ipv6 and plan.routing:
        (_SYSCTL / "ipv6/conf/all/forwarding").write_text("1", encoding="utf-8")
