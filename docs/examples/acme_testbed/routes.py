"""Which networks Acme's switch forwards to, and since when."""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass
class Routes:
    """The switch's table. ``follows``: False as long as no routing protocol fills it: then everything is forwarded."""

    follows: bool = False
    _changes: list[tuple[int, str, bool]] = field(default_factory=list)

    def add(self, prefixes: Sequence[str]) -> None:
        """From now on these are forwarded to."""
        self._note(prefixes, there=True)

    def remove(self, prefixes: Sequence[str]) -> None:
        """From now on they are not."""
        self._note(prefixes, there=False)

    def present(self) -> set[str]:
        """The prefixes that are there now."""
        latest = {prefix: there for _, prefix, there in self._changes}
        return {prefix for prefix, there in latest.items() if there}

    def gaps(self, address: str, begin_ns: int, end_ns: int) -> list[tuple[int, int]]:
        """When nothing was forwarded to an address, as pairs of CLOCK_MONOTONIC in ns, between two such times."""
        if not self.follows:
            return []
        gaps: list[tuple[int, int]] = []
        routes: set[str] = set()
        since: int | None = begin_ns
        for at_ns, prefix, there in self._changes:
            if ipaddress.ip_address(address) not in ipaddress.ip_network(prefix):
                continue
            (routes.add if there else routes.discard)(prefix)
            if routes and since is not None:
                gaps.append((since, at_ns))
                since = None
            elif not routes and since is None:
                since = at_ns
        if since is not None:
            gaps.append((since, end_ns))
        within = [(max(begin, begin_ns), min(end, end_ns)) for begin, end in gaps]
        return [(begin, end) for begin, end in within if begin < end]

    def _note(self, prefixes: Sequence[str], *, there: bool) -> None:
        now_ns = time.monotonic_ns()
        self._changes += [(now_ns, prefix, there) for prefix in prefixes]
