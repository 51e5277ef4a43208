"""Reads files of a user from text; testbeds on a machine whose NUMA nodes the test chooses."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pytest_nfvperf.config import sla_file, traffic_file
from pytest_nfvperf.config.testbed_file import SysfsNuma, TestbedFile, check_testbed, to_testbed, usable_cores
from pytest_nfvperf.config.traffic_file import GivenTraffic
from pytest_nfvperf.config.validate import read_as
from pytest_nfvperf.config.yaml_file import parse_document
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.sla.rules import Sla
from pytest_nfvperf.model.testbed.testbed import Testbed


@dataclass
class Numa:
    """NUMA nodes as a test wants them."""

    cpus: dict[int, int] = field(default_factory=dict)
    pcis: dict[str, int] = field(default_factory=dict)
    interfaces: dict[str, str] = field(default_factory=dict)

    def cpu_node(self, cpu: int) -> int | None:
        return self.cpus.get(cpu)

    def pci_node(self, pci: str) -> int | None:
        return self.pcis.get(pci)

    def pci_of(self, interface: str) -> str | None:
        return self.interfaces.get(interface)


def parse_testbed(
    text: str, file: str = "<testbed>", *, numa: SysfsNuma | None = None, cores: int | None = None
) -> tuple[Testbed, tuple[str, ...]]:
    """As ``load_testbed``; ``file`` is what messages call it, ``numa`` says where CPUs and NICs are."""
    document = parse_document(text, file)
    read = read_as(TestbedFile, document)
    own = usable_cores() if cores is None else cores
    warnings = check_testbed(read, document, cores=own, numa=numa or SysfsNuma())
    return to_testbed(read, Path(file).parent), warnings


def parse_sla(text: str, file: str = "<sla>") -> Sla:
    """As ``load_sla``; ``file`` is what messages call it."""
    return sla_file._to_sla(parse_document(text, file))


def parse_traffic(text: str, file: str = "<traffic>") -> GivenTraffic:
    """As ``load_traffic``; files that it names are relative to the current directory."""
    return traffic_file._given(parse_document(text, file), Path())


def parse(text: str, **kwargs: Any) -> tuple[Testbed, tuple[str, ...]]:
    return parse_testbed(text, "lab.yaml", **{"numa": Numa(), "cores": 8, **kwargs})


def refusal(text: str, **kwargs: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        parse(text, **kwargs)
    return str(caught.value)
