"""Parses testbed files for tests, on a machine whose NUMA nodes the test chooses."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from pytest_nfvperf.config.testbed_file import parse_testbed
from pytest_nfvperf.model.errors import ConfigError


@dataclass
class Numa:
    """NUMA nodes as a test wants them."""

    cpus: dict[int, int] = field(default_factory=dict)
    pcis: dict[str, int] = field(default_factory=dict)
    interfaces: dict[str, str] = field(default_factory=dict)

    def cpu_node(self, cpu):
        return self.cpus.get(cpu)

    def pci_node(self, pci):
        return self.pcis.get(pci)

    def pci_of(self, interface):
        return self.interfaces.get(interface)


def parse(text, **kwargs):
    return parse_testbed(text, "lab.yaml", **({"numa": Numa(), "cores": 8} | kwargs))


def refusal(text, **kwargs):
    with pytest.raises(ConfigError) as caught:
        parse(text, **kwargs)
    return str(caught.value)
