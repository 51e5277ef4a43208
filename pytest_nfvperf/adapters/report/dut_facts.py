"""What the DUTs of a run are, in words."""

from __future__ import annotations

from pytest_nfvperf.adapters.evidence.reader import RunEvidence
from pytest_nfvperf.model.evidence.records import RunData
from pytest_nfvperf.model.testbed.equipment import DatapathInfo

_OF_OVS = ("dpdk", "netdev", "system")


def dut_facts(run: RunEvidence, data: RunData) -> list[tuple[str, str]]:
    """The testbed's own DUT, and each that a test asked for, with its installation and how that was built."""
    own = "not started" if data.dut is None else dut_text(data.dut)
    return [("DUT", own), *((f"DUT {name}", dut_text(info)) for name, info in _others(run, data))]


def _others(run: RunEvidence, data: RunData) -> list[tuple[str, DatapathInfo]]:
    found: dict[tuple[str, str], DatapathInfo] = {}
    for test in run.tests.values():
        for deployed in test.topologies.values():
            info = deployed.info
            if info is not None and (deployed.dut.version or _differs(info, data.dut)):
                found.setdefault((deployed.dut.version or "", info.kind), info)
    return [(f"{name} ({kind})" if name else kind, info) for (name, kind), info in found.items()]


def _differs(info: DatapathInfo, own: DatapathInfo | None) -> bool:
    return own is None or (info.kind, info.installation) != (own.kind, own.installation)


def dut_text(info: DatapathInfo) -> str:
    """Versions, datapath, how it runs, where it is from, and how it was built."""
    built = "; ".join(f"{name} {text}" for name, text in (("from", info.origin), *info.build) if text)
    text = f"{versions_text(info)}, {info.kind} datapath" + (f": {info.detail}" if info.detail else "")
    return f"{text} ({built})" if built else text


def versions_text(info: DatapathInfo) -> str:
    """Such as "OVS 3.1.0 with DPDK 22.11.4"."""
    of_ovs = all(kind in _OF_OVS for kind in info.kind.split("+"))  # nodes may have several
    text = f"OVS {info.version}" if of_ovs else info.version
    return text + (f" with DPDK {info.dpdk_version}" if info.dpdk_version else "")
