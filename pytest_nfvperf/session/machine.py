"""Whose the machine is while a test runs: its own while it measures, that of functional tests together otherwise.

An OVS polls also between tests. So what was taken to be shared is given back before it is taken to measure.
"""

from __future__ import annotations

from functools import cached_property

from pytest_nfvperf.backends.base import Backend, SharesMachine
from pytest_nfvperf.runs.rig import Rig
from pytest_nfvperf.runs.trials import Context


class Machine:
    """Of one pytest process.

    Args:
        backend: takes the machine.
        alone: share it with nobody.

    Attributes:
        functional: the running test judges no rate; whoever starts a test sets it.
    """

    def __init__(self, backend: Backend, *, alone: bool) -> None:
        self.functional = False
        self._backend = backend
        self._alone = alone
        self._shared = False

    @cached_property
    def can_share(self) -> bool:
        """True where functional tests of other processes can run meanwhile."""
        return not self._alone and isinstance(self._backend, SharesMachine) and self._backend.can_share

    def room(self) -> int:
        """For how many rigs there is memory now; 0 where the machine cannot be shared."""
        return self._backend.room() if self.can_share and isinstance(self._backend, SharesMachine) else 0

    def rig(self, now: Rig | None, context: Context) -> Rig:
        """The rig for the running test: that of now, unless others may use the machine and the test measures."""
        if now is not None and self._shared and not self.functional:
            try:
                now.close()
            finally:
                self._backend.close()
            now = None
        if now is not None:
            return now
        return self._made(context)

    def anew(self, now: Rig | None, context: Context) -> Rig | None:
        """The rig after something broke off what was done on it, or to get it, at an unknown place.

        What it may have left is in no variable: the end of the journal removes all that is noted there.
        """
        try:
            if now is not None:
                now.interrupted()
        finally:
            if isinstance(self._backend, SharesMachine):
                self._backend.close()
        if now is None or not isinstance(self._backend, SharesMachine):
            return now  # there was none, or nothing real in it
        rig = self._made(context)
        rig.go_on_for(now)
        return rig

    def _made(self, context: Context) -> Rig:
        self._shared = self.functional and self.can_share
        if self._shared and isinstance(self._backend, SharesMachine):
            return Rig(self._backend.parts_beside(), context)
        return Rig(self._backend.parts(), context)
