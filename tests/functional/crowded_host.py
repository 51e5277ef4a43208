"""A host with a firewall, others' bridges, and a manager of links: programs for a namespace of its own."""

from __future__ import annotations

import sys

from pyroute2 import IPRoute
from pyroute2.nftables.main import NFTables

BRIDGES = ("docker0", "virbr0", "br0", "ovs-system", "abcdefv1", "p0")
_INET = 1  # NFPROTO_INET


def guard() -> None:
    """What firewalld, Docker and libvirt do to a host: every hook drops, and there are bridges with common names."""

    with NFTables(nfgen_family=_INET) as kernel:
        kernel.table("add", name="filter")
        for hook in ("prerouting", "input", "forward", "output", "postrouting"):
            kernel.chain("add", table="filter", name=hook, hook=hook, type="filter", policy=0)
    with IPRoute() as links:
        for name in BRIDGES:
            links.link("add", ifname=name, kind="bridge")
            links.link("set", index=links.link_lookup(ifname=name)[0], state="up")


def manage() -> None:
    """What NetworkManager and systemd-networkd may do to a new link: name, MTU, up, address. Prints whose it took."""

    with IPRoute() as news, IPRoute() as links:
        news.bind()
        print("ready", flush=True)
        known = {link["index"] for link in links.get_links()}
        while True:
            for message in news.get():
                index = message["index"] if message["event"] == "RTM_NEWLINK" else None
                if index is not None and index not in known:
                    known.add(index)
                    print(message.get_attr("IFLA_IFNAME"), flush=True)
                    links.link("set", index=index, ifname=f"taken{index}")
                    links.link("set", index=index, mtu=1280, state="up")


if __name__ == "__main__":
    {"guard": guard, "manage": manage}[sys.argv[1]]()
