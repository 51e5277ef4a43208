"""Changes of the northbound database as arguments of ovn-nbctl(8): several commands in one transaction."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from pytest_nfvperf.model.routing.logical_network import Localnet, LogicalPort, LogicalSwitch

Command = Sequence[str]


def add_switch(switch: LogicalSwitch) -> list[str]:
    """A switch with its ports."""
    commands: list[Command] = [("ls-add", switch.name)]
    if switch.localnet is not None:
        commands += _add_localnet(switch.name, switch.localnet)
    for port in switch.ports:
        commands += _add_port(switch.name, port)
    return together(commands)


def remove_port(name: str) -> list[str]:
    """A port of any switch."""
    return ["lsp-del", name]


def together(commands: Sequence[Command]) -> list[str]:
    """In one transaction."""
    return [word for number, command in enumerate(commands) for word in (("--",) if number else ()) + tuple(command)]


def _add_port(switch: str, port: LogicalPort) -> Iterator[Command]:
    yield ("lsp-add", switch, port.name)
    yield ("lsp-set-addresses", port.name, " ".join((port.mac, *port.addresses)))
    for column, values in (("external_ids", port.external_ids), ("options", port.options)):
        if values:
            yield ("set", "Logical_Switch_Port", port.name, *_settings(column, values))


def _add_localnet(switch: str, localnet: Localnet) -> Iterator[Command]:
    yield ("lsp-add", switch, localnet.name)
    yield ("lsp-set-type", localnet.name, "localnet")
    yield ("lsp-set-addresses", localnet.name, "unknown")
    yield ("lsp-set-options", localnet.name, f"network_name={localnet.network}")


def _settings(column: str, values: Mapping[str, str]) -> Iterator[str]:
    """Quoted, because Neutron's keys have colons (ovs-vsctl(8), "Database Values": strings are quoted as in JSON)."""
    for key, value in values.items():
        yield f"{column}:{json.dumps(key)}={json.dumps(value)}"
