"""What a private OVS is started with so that it touches nothing else on the host, and no user's setting may replace.

Keys: ovs-vswitchd.conf.db(5). DPDK's options: "EAL parameters" of its guide.
"""

from __future__ import annotations

import shlex

DPDK_EXTRA = "dpdk-extra"
"""A user's arguments are added to ours: OVS has one key for all of DPDK's."""

_INSTEAD = {
    "dpdk-init": "dut.ovs.datapath says whether OVS has DPDK: write 'datapath: dpdk' or 'netdev' there",
    "dpdk-hugepage-dir": "a private OVS keeps its memory in no file",
    "dpdk-lcore-mask": "DPDK's own threads run on the testbed's CPUs: write 'cpus: {housekeeping: ...}'",
    "dpdk-probe-at-init": "DPDK takes the NICs of dut.ports: write 'pci: ...' there",
    "pmd-cpu-mask": "the run locks the CPUs of PMD threads: write them as 'dut.ovs.pmd_cpus'",
    "userspace-tso-enable": "figures with it are those of another DUT: write Dut(userspace_tso=True) in the test",
}

_TAKES_DEVICES = "DPDK takes the NICs of dut.ports and no other: write 'pci: ...' there"
_PLACES_THREADS = "DPDK's own threads run on the testbed's CPUs: write 'cpus: {housekeeping: ...}'"
_SIZES_MEMORY = "write other_config 'dpdk-socket-mem' for the size of OVS's memory"
_KEEPS_APART = "the run sets it, which keeps this OVS apart from other users of DPDK on the host"

_LONG_OPTIONS = {
    "allow": _TAKES_DEVICES,
    "block": _TAKES_DEVICES,
    "no-pci": _TAKES_DEVICES,
    "pci-blacklist": _TAKES_DEVICES,
    "pci-whitelist": _TAKES_DEVICES,
    "lcores": _PLACES_THREADS,
    "main-lcore": _PLACES_THREADS,
    "master-lcore": _PLACES_THREADS,
    "legacy-mem": _SIZES_MEMORY,
    "no-huge": _SIZES_MEMORY,
    "socket-limit": _SIZES_MEMORY,
    "socket-mem": _SIZES_MEMORY,
    "file-prefix": _KEEPS_APART,
    "huge-dir": _KEEPS_APART,
    "huge-unlink": _KEEPS_APART,
    "in-memory": _KEEPS_APART,
    "no-shconf": _KEEPS_APART,
    "no-telemetry": _KEEPS_APART,
    "proc-type": _KEEPS_APART,
    "telemetry": _KEEPS_APART,
}
_SHORT_OPTIONS = {
    "a": _TAKES_DEVICES,
    "b": _TAKES_DEVICES,
    "w": _TAKES_DEVICES,
    "c": _PLACES_THREADS,
    "l": _PLACES_THREADS,
    "m": _SIZES_MEMORY,
}


def refused_setting(key: str, value: str) -> str:
    """Say why a user cannot set this key of other_config, and what to write instead; "" where it can be set."""
    if key in _INSTEAD:
        return f"{key} is the run's own: {_INSTEAD[key]}"
    return _refused_arguments(value) if key == DPDK_EXTRA else ""


def _refused_arguments(text: str) -> str:
    try:
        arguments = shlex.split(text)
    except ValueError as error:
        return f"{DPDK_EXTRA} {text!r} cannot be read: {error}"
    for argument in arguments:
        if reason := _refused_argument(argument):
            return f"{DPDK_EXTRA} has {argument!r}, which is the run's own: {reason}"
    return ""


def _refused_argument(argument: str) -> str:
    """DPDK reads options by getopt_long(3): a long one may be shortened, and a short one joined to its value."""
    if argument == "--":
        return "nothing of ours may stand behind it"
    if argument.startswith("--"):
        given = argument.removeprefix("--").partition("=")[0]
        return next((reason for name, reason in _LONG_OPTIONS.items() if name.startswith(given)), "")
    return _SHORT_OPTIONS.get(argument[1:2], "") if argument.startswith("-") else ""


def with_arguments(ours: str, users: str) -> str:
    """DPDK's arguments of a run with a user's behind them, where DPDK takes the last of an option given twice."""
    return f"{ours} {users}".strip()
