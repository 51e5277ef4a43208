"""A real TRex server for tests. ``python -m tests.trex_server TREX NIC NIC -- COMMAND`` runs a command beside one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from pytest_nfvperf.adapters.generators.end_counters import listening_ports
from pytest_nfvperf.adapters.process.process import wait_until

RPC_PORT = 4501
START_DEADLINE_S = 60.0
"""With hugepages to clear and NICs to reset it takes half a minute."""


def server_command(trex: str, config: Path, interfaces: Sequence[str]) -> list[str]:
    """Write the configuration of a server on kernel interfaces, or on PCI addresses, and say how it is started.

    TRex's own script would bind NICs and reserve hugepages, and give neither back.
    """
    is_pci = ":" in interfaces[0]
    device = "{1}" if is_pci else "--vdev=net_af_packet{0},iface={1},framesz=9216,blocksz=36864,framecnt=1024"
    macs = [f"02:00:00:00:7e:{number:02x}" for number in range(len(interfaces))]
    platform = {
        "version": 2,
        "prefix": f"nfv-{config.parent.name}",
        "interfaces": [device.format(number, name) for number, name in enumerate(interfaces)],
        "low_end": True,
        "limit_memory": 512,
    }
    if not is_pci:
        pairs = zip(macs, reversed(macs), strict=True)
        platform["port_info"] = [{"src_mac": own, "dest_mac": other} for own, other in pairs]
    config.write_text(json.dumps([platform]), encoding="utf-8")  # which is YAML, too
    libraries = Path(trex) / "so"
    search_path = os.pathsep.join([trex, str(libraries / os.uname().machine), str(libraries)])
    options = ["-i", "--cfg", str(config), "--no-scapy-server", *([] if is_pci else ["--software"])]
    return ["env", f"--chdir={trex}", f"LD_LIBRARY_PATH={search_path}", f"{trex}/_t-rex-64", *options]


def main(trex: str, *arguments: str) -> int:
    end = arguments.index("--")
    with tempfile.TemporaryDirectory() as directory:
        command = server_command(trex, Path(directory) / "trex_cfg.yaml", arguments[:end])
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sys.stderr) as server:
            try:
                wait_until(
                    lambda: server.poll() is not None or RPC_PORT in listening_ports(),
                    "TRex to listen",
                    START_DEADLINE_S,
                )
                return subprocess.run(arguments[end + 1 :], check=False).returncode
            finally:
                server.terminate()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
