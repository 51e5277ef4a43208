"""The connections that a topology's zones track on one OVS: their settings, their number, and how they are flushed.

Commands of ovs-dpctl(8) in OVS 2.15 to 4.0. Since 3.3 OVSDB has limits of zones, and dpctl refuses them then.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import partial

import ovs.db.idl

from pytest_nfvperf.adapters.ovs.ovsdb import OWNER, RefusedError, Row
from pytest_nfvperf.adapters.ovs.private_ovs import RunningOvs
from pytest_nfvperf.adapters.process.process import wait_until
from pytest_nfvperf.model.errors import UnavailableError, run_all
from pytest_nfvperf.model.topology.topology import Topology

COUNTER = "connections"
"""``connections`` is how many the datapath has, ``connections.zone7`` those of zone 7. They may fall."""

_MOST_COUNTED = 100_000
"""Of a zone without a limit OVS counts by reading every connection of the datapath, 0.3 us each (3.1.0). A flush takes
0.4 us each."""

_FLUSH_DEADLINE_S, _DEADLINE_S = 60.0, 10.0
_TOTAL = re.compile(r"Total: (\d+)")


class TrackedZones:
    """The zones of a topology on one OVS. A topology without any does nothing here.

    One OVS serves many topologies: ``close`` restores each setting. The system's OVS serves others, too, so it takes
    none of them, and no zone that has connections already.
    """

    def __init__(self, instance: RunningOvs, topology: Topology) -> None:
        """UnavailableError for what would touch others."""
        self._instance, self._parts = instance, topology.connections
        self.zones = sorted({zone for one in self._parts for zone in one.zones})
        self._limits = {zone: one.limit for one in self._parts for zone in one.zones if one.limit is not None}
        self._timeouts = {zone: dict(one.timeouts) for one in self._parts for zone in one.zones if one.timeouts}
        self._most = next((one.most_connections for one in self._parts if one.most_connections is not None), None)
        self._most_before: str | None = None
        self._applied = False
        kind = instance.options.datapath_type
        self._datapath = (f"{kind}@ovs-{kind}",) if not instance.owned else ()
        if not instance.owned:
            self._refuse_touching_others()

    def track(self, zones: Iterable[int]) -> None:
        """Count and flush these, too, which a service of the topology chose."""
        self.zones = sorted({*self.zones, *zones})

    def _refuse_touching_others(self) -> None:
        settings = {"most_connections": self._most, "limit": self._limits, "timeouts": self._timeouts}
        for name in (name for name, value in settings.items() if value):
            raise UnavailableError(
                f"{name}= is not set on the system's OVS, whose connections are others', too: write 'instance: private'"
            )
        for zone, number in self.counts().items():
            if number:
                raise UnavailableError(f"zone {zone} of the system's OVS has {number:,} connections: take another zone")

    @property
    def _by_database(self) -> bool:
        return bool(self._limits) and self._instance.db.has_column("CT_Zone", "limit")

    def apply(self) -> None:
        """Set all that the topology asks for, also after a restart, perhaps to another version; UnavailableError."""
        self._applied = True
        try:
            if self._most is not None:
                self._most_before = self._most_before or self._ask("ct-get-maxconns").strip()
                self._ask("ct-set-maxconns", str(self._most))
            if self._limits and not self._by_database:
                self._ask("ct-set-limits", *(f"zone={zone},limit={limit}" for zone, limit in self._limits.items()))
        except RefusedError as error:
            raise UnavailableError(f"this datapath has no such limit of connections: {error.message}") from error
        if self._timeouts or self._by_database:
            # OVS 3.5.0 ignores the timeouts that a zone begins with, and takes later ones.
            for change in (self._insert_zones, self._set_timeouts):
                self._instance.db.transact(change, "zones of connection tracking", _DEADLINE_S)

    def _insert_zones(self, transaction: ovs.db.idl.Transaction) -> None:
        """Insert the rows of zones with timeouts, or limits that this version reads there."""
        tables, limits = transaction.idl.tables, self._limits if self._by_database else {}
        datapaths = dict(self._instance.db.root.datapaths)
        datapath = datapaths.get(self._instance.options.datapath_type)
        if datapath is None:
            datapath = transaction.insert(tables["Datapath"])
            datapath.external_ids, datapath.ct_zones = {OWNER: self._instance.tag}, {}
            self._instance.db.root.datapaths = {**datapaths, self._instance.options.datapath_type: datapath}
        rows: dict[int, Row] = dict(datapath.ct_zones)
        for zone in {**self._timeouts, **limits}:
            row = rows[zone] = transaction.insert(tables["CT_Zone"])
            if zone in self._timeouts:
                row.timeout_policy = transaction.insert(tables["CT_Timeout_Policy"])
            if zone in limits:
                row.limit = limits[zone]
        datapath.ct_zones = rows

    def _set_timeouts(self, _: ovs.db.idl.Transaction) -> None:
        rows = self._instance.db.root.datapaths[self._instance.options.datapath_type].ct_zones
        for zone, timeouts in self._timeouts.items():
            (policy,) = rows[zone].timeout_policy
            policy.timeouts = timeouts

    def _delete_zones(self, _: ovs.db.idl.Transaction) -> None:
        kind, datapaths = self._instance.options.datapath_type, dict(self._instance.db.root.datapaths)
        datapath = datapaths.get(kind)
        if datapath is None:
            return
        kept = {zone: row for zone, row in datapath.ct_zones.items() if zone not in self.zones}
        if kept or datapath.external_ids.get(OWNER) != self._instance.tag:
            datapath.ct_zones = kept
        else:
            self._instance.db.root.datapaths = {name: row for name, row in datapaths.items() if name != kind}

    def close(self) -> None:
        """Remove connections, and restore what ``apply`` set, while OVS runs and has the datapath. Works twice."""
        if self._applied:
            run_all((*(partial(self._flush, zone) for zone in self.zones), self._restore_limits, self._restore_rows))
        self._applied = False

    def _restore_limits(self) -> None:
        if self._most_before is not None:
            self._ask("ct-set-maxconns", self._most_before)
        if self._limits and not self._by_database:
            self._ask("ct-del-limits", "zone=" + ",".join(map(str, self._limits)))

    def _restore_rows(self) -> None:
        if self._timeouts or self._by_database:
            self._instance.db.transact(self._delete_zones, "removal of zones of connection tracking", _DEADLINE_S)

    def flush(self) -> None:
        """Remove the zones' connections; DeadlineError if there are some afterwards."""
        if not self.zones or self._total() == 0:
            return

        def emptied() -> bool:
            for zone in self.zones:
                self._flush(zone)
            return not any(self.counts().values())

        def left() -> str:
            return f"{self.counts()} by zone: somebody opens more meanwhile"

        wait_until(emptied, "zones without connections", _FLUSH_DEADLINE_S, last_seen=left)

    def _flush(self, zone: int) -> None:
        try:
            self._ask("flush-conntrack", f"zone={zone}")
        except RefusedError:
            if not self._datapath:
                raise
            # OVS 3.1 takes "netdev@ovs-netdev" for a tuple; without it there must be one datapath.
            self._instance.ctl.call("dpctl/flush-conntrack", f"zone={zone}", deadline_s=_FLUSH_DEADLINE_S)

    def counts(self) -> dict[int, int]:
        """How many connections each zone has, if OVS says so. For a zone without a limit it reads all connections."""
        return self._counted(self.zones)

    def _counted(self, zones: Iterable[int]) -> dict[int, int]:
        found = {zone: self._count(zone) for zone in zones}
        return {zone: number for zone, number in found.items() if number is not None}

    def _count(self, zone: int) -> int | None:
        command, number = "ct-stats-show", _TOTAL
        if zone in self._limits:
            command, number = "ct-get-limits", re.compile(rf"zone={zone},limit=\d+,count=(\d+)")
        try:
            found = number.search(self._ask(command, f"zone={zone}"))
        except RefusedError:  # there is no datapath yet, or it does not count
            return None
        return int(found[1]) if found is not None else None

    def _total(self) -> int | None:
        """How many connections the datapath has; None where it does not count them, as the kernel's."""
        try:
            return int(self._ask("ct-get-nconns"))
        except (RefusedError, ValueError):
            return None

    def counters(self) -> dict[str, int]:
        """``COUNTER``: what a snapshot has of them. Zones are left out where to count them would take long."""
        if not self.zones:
            return {}
        total = self._total()
        cheap = total is not None and total <= _MOST_COUNTED
        zones = self._counted(zone for zone in self.zones if cheap or zone in self._limits)
        counted = {} if total is None else {COUNTER: total}
        return counted | {f"{COUNTER}.zone{zone}": number for zone, number in zones.items()}

    def total(self) -> dict[str, int]:
        """``COUNTER`` alone, which takes no time."""
        total = self._total() if self.zones else None
        return {} if total is None else {COUNTER: total}

    def lines(self) -> Iterator[str]:
        """What OVS says of the settings, for evidence."""
        for command in ("ct-get-maxconns", "ct-get-limits") if self.zones else ():
            try:
                yield f"dpctl/{command}: {', '.join(self._ask(command).split(chr(10))).rstrip(', ')}"
            except RefusedError as error:
                yield f"dpctl/{command}: ({error.message})"

    def _ask(self, command: str, *arguments: str) -> str:
        call = self._instance.ctl.call
        return call(f"dpctl/{command}", *self._datapath, *arguments, deadline_s=_FLUSH_DEADLINE_S)
