"""Whether this kernel has AF_XDP sockets."""

from __future__ import annotations

import socket

_AF_XDP = 44  # socket(2), linux/socket.h


def lacks_af_xdp() -> str | None:
    """What is lacking for AF_XDP sockets, and what to do; None when they can be had."""
    try:
        socket.socket(_AF_XDP, socket.SOCK_RAW).close()
    except PermissionError as error:
        return f"{error.strerror}: run as root"
    except OSError as error:
        return f"{error.strerror}: it needs a kernel with CONFIG_XDP_SOCKETS"
    return None
