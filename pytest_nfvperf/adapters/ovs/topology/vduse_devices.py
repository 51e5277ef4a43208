"""The VDUSE devices of one topology: noted before OVS makes them, interfaces once it has, gone with its ports."""

from __future__ import annotations

from dataclasses import replace

from pytest_nfvperf.adapters.journal.journal import Entry, Journal, Kind
from pytest_nfvperf.adapters.net.ends import Moved
from pytest_nfvperf.adapters.net.vduse import attach, detach, is_there, remove, wait_gone
from pytest_nfvperf.model.errors import DeadlineError, TestbedError


class VduseDevices:
    """Devices that OVS serves. ``close()`` sees that they are gone."""

    def __init__(self, journal: Journal) -> None:
        """``wanted``: each device, by the end that it becomes; makers of interfaces append to it."""
        self._journal = journal
        self._entries: list[Entry] = []
        self.wanted: list[Moved] = []

    def new_name(self) -> str:
        """A name that no other device of the machine has: the run's tag is in it."""
        name = self._journal.link_name()
        while is_there(name):
            name = self._journal.link_name()
        return name

    def note(self) -> None:
        """Journal the devices: OVS makes them next."""
        names = [device.name for device in self.wanted]
        self._entries = self._journal.note_all(Kind.VDUSE, names) if names else []

    def attach(self) -> list[Moved]:
        """Make the devices interfaces; returns them by their names in our own namespace."""
        return [replace(device, name=attach(device.name)) for device in self.wanted]

    def detach(self) -> None:
        """Remove the interfaces while OVS still serves them."""
        detach([device.name for device in self.wanted])

    def close(self) -> None:
        """After OVS let go of its ports, or died: wait until the devices are gone, or remove them."""
        names = [device.name for device in self.wanted]
        try:
            wait_gone(names)
        except DeadlineError:  # OVS died, or did not let go
            try:
                for name in names:
                    remove(name)
            except OSError as error:
                raise TestbedError(f"cannot remove a device that Open vSwitch served: {error}") from error
        self._journal.forget_all(self._entries)
        self.wanted.clear()
        self._entries = []
