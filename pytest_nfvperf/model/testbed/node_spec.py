"""What a testbed file says about one node of topologies that have several."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_nfvperf.model.display import cpu_list
from pytest_nfvperf.model.testbed.tuning import OVS_DEFAULT, Tuning

if TYPE_CHECKING:
    from pytest_nfvperf.model.testbed.testbed import Dut, Testbed


@dataclass(frozen=True, slots=True)
class FarHost:
    """Another machine, which has this package, too.

    Attributes:
        ssh: as ssh(1) is told of it: "root@dut2".
        python: the interpreter there that has this package.
        ssh_config: a file of ssh's (``ssh -F``); None for the user's own.
    """

    ssh: str
    python: str = "python3"
    ssh_config: str | None = None

    def __str__(self) -> str:
        """``root@dut2``."""
        return self.ssh


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """How one node differs from the others. What is left out is as the testbed's DUT has it.

    Attributes:
        name: of the node, as topologies call it.
        version: the name of an OVS of the testbed; None for the testbed's own.
        datapath: "dpdk" or "netdev"; None for the testbed's own.
        cpus: of its poll-mode threads; empty where the DUT's are dealt out to the nodes.
        tuning: stronger than the testbed's.
        underlay: the port of the testbed whose cable leads to the other nodes; None where nodes are joined by a
            virtual link.
        host: where it is; None for this machine.
    """

    name: str
    version: str | None = None
    datapath: str | None = None
    cpus: tuple[int, ...] = ()
    tuning: Tuning = OVS_DEFAULT
    underlay: str | None = None
    host: FarHost | None = None

    def __str__(self) -> str:
        """``node1: OVS old, datapath netdev, PMD on CPU 2, smc=on``; ``node1: as the DUT`` where nothing is said."""
        said = [f"OVS {self.version}"] if self.version else []
        said += [f"datapath {self.datapath}"] if self.datapath else []
        said += [f"PMD on CPU {cpu_list(self.cpus)}"] if self.cpus else []
        said += [str(self.tuning)] if self.tuning != OVS_DEFAULT else []
        said += [f"underlay by {self.underlay}"] if self.underlay else []
        said += [f"on {self.host} by ssh"] if self.host else []
        return f"{self.name}: {', '.join(said) or 'as the DUT'}"


def node_spec(testbed: Testbed, name: str) -> NodeSpec:
    """What the testbed says about a node; nothing where its file names no nodes."""
    return next((node for node in testbed.nodes if node.name == name), NodeSpec(name))


def unknown_node(testbed: Testbed, dut: Dut) -> str | None:
    """Which node of a topology the testbed file should name, and what to do; None where it names all, or none."""
    known = [node.name for node in testbed.nodes]
    missing = next((name for name in dut.nodes if known and name not in known), None)
    if missing is None:
        return None
    return f"the testbed file has nodes {', '.join(known)}, and the topology has {missing!r}, too: add it to 'nodes'"


def dut_of_node(testbed: Testbed, dut: Dut, name: str) -> Dut:
    """What a node's OVS is: what the test asks for, else what the testbed says of the node, else the testbed's own."""
    spec = node_spec(testbed, name)
    return replace(
        dut,
        nodes=(),
        kind=dut.kind or spec.datapath,
        version=dut.version or spec.version,
        tuning=dut.tuning.over(spec.tuning),
    )


def nodes_words(testbed: Testbed) -> list[str]:
    """A line for each node that the testbed file names, and one for the underlay's line rate; empty without."""
    rate = testbed.underlay_line_rate_bps
    said = [f"underlay:  {rate / 1e9:g} Gbps between nodes"] if rate is not None else []
    return [*(f"node:      {node}" for node in testbed.nodes), *said]
