"""Generic netlink families (genetlink): what the kernel, or a module that it loads for it, can be asked."""

from __future__ import annotations

import errno
import sys

from pyroute2.netlink import CTRL_CMD_GETFAMILY, GENL_ID_CTRL, ctrlmsg

from pytest_nfvperf.adapters.net.netlink import NETLINK_GENERIC, KernelRefusedError, Netlink, Request, attributes

HEADER_BYTES = 4
"""Of a generic netlink message, before its attributes."""

_FAMILY_ID = 1  # CTRL_ATTR_FAMILY_ID


def family_number(netlink: Netlink, name: str) -> int:
    """The number of a family; KernelRefusedError with ENOENT when the kernel has none of this name."""
    message = ctrlmsg()
    message["header"]["type"] = GENL_ID_CTRL
    message["cmd"], message["version"] = CTRL_CMD_GETFAMILY, 1
    message["attrs"] = [["CTRL_ATTR_FAMILY_NAME", name]]
    (answer,) = netlink.ask(Request(f"find the netlink family {name}", message))
    return int.from_bytes(dict(attributes(answer[HEADER_BYTES:]))[_FAMILY_ID], sys.byteorder)


def has_family(name: str) -> bool:
    """True when the kernel has the family, or a module for it that it could load."""
    with Netlink(NETLINK_GENERIC) as netlink:
        try:
            family_number(netlink, name)
        except KernelRefusedError as error:
            if error.code != errno.ENOENT:
                raise
            return False
    return True
