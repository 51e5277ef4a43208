"""Whether two runs were on machines alike, so that their figures may be compared (docs/measuring-method.md, rule 9)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_nfvperf.model.measure.instruction_cost import TIME, WALL

MACHINE_FACTS = (
    "cpu_model",
    "cpu_mhz_max",
    "smt",
    "cpus",
    "isolated_cpus",
    "governor",
    "cpu_plan",
    "numa",
    "hypervisor",
    "datapath",
    "vnf_kind",
    "generator_engine",
    "sending",
)
"""Facts of a fingerprint that must be equal. Versions of OVS, DPDK, kernel and firmware are what is compared."""

PORT_FACTS = ("kind", "rxq", "vendor", "device", "subsystem_vendor", "subsystem_device", "current_link_speed")
"""Facts of a port that must be."""


def unlike(then: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[tuple[str, str, str], ...]:
    """In what the machines of two fingerprints differ: (fact, then, now), for a person; empty for machines alike."""
    found = [(name, then.get(name), now.get(name)) for name in MACHINE_FACTS]
    found.append((TIME, then.get(TIME, WALL), now.get(TIME, WALL)))
    earlier, later = _ports(then), _ports(now)
    found.extend((f"port {port}", earlier.get(port), later.get(port)) for port in sorted({*earlier, *later}))
    return tuple((name, _shown(was), _shown(is_now)) for name, was, is_now in found if was != is_now)


def differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[str, ...]:
    """The same as text: ``cpu_model: A then, B now``."""
    return tuple(f"{name}: {was} then, {is_now} now" for name, was, is_now in unlike(then, now))


def _ports(fingerprint: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    ports = fingerprint.get("ports") or {}
    return {name: {fact: facts[fact] for fact in PORT_FACTS if fact in facts} for name, facts in ports.items()}


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_shown(each)}" for name, each in value.items()) or "nothing"
    return "unknown" if value is None else str(value)
