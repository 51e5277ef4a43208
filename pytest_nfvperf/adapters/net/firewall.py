"""Which firewall rules the kernel applies in a namespace, asked of the kernel itself: no nft or iptables is needed.

S2: with veth between bridges no iptables rule may be active, for each veth end is a device whose frames the
kernel would run through it. What is looked at:

- nftables (and iptables-nft, which is nftables): every rule, and every chain that hangs on a hook, by netlink;
- legacy iptables, ip6tables, arptables: tables that exist in the namespace (``/proc/net/ip_tables_names``, ...). A
  table exists once it was used, and from then on its hooks are passed, rules or not.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable

from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.nftables.main import NFTables

from pytest_nfvperf.adapters.net.inside import PROC_NET, inside_named

_LEGACY = {"ip_tables_names": "iptables", "ip6_tables_names": "ip6tables", "arp_tables_names": "arptables"}
_WITHOUT_NFTABLES = {errno.EINVAL, errno.EOPNOTSUPP, errno.EPROTONOSUPPORT, errno.ENOENT}
_EVERY_FAMILY = 0  # NFPROTO_UNSPEC


def active_firewall(namespace: str) -> list[str]:
    """What filters frames in a network namespace, a line each; empty where nothing does."""
    return inside_named(namespace, lambda: [*_legacy(), *_nftables()])


def active_in(namespaces: Iterable[str]) -> dict[str, list[str]]:
    """The same of several, by namespace; those where nothing filters are left out."""
    return {namespace: found for namespace in namespaces if (found := active_firewall(namespace))}


def _legacy() -> list[str]:
    found = []
    for file, program in _LEGACY.items():
        path = PROC_NET / file
        tables = path.read_text(encoding="utf-8").split() if path.exists() else []
        found += [f"{program} table {table} is in use" for table in tables]
    return found


def _nftables() -> list[str]:
    try:
        with NFTables(nfgen_family=_EVERY_FAMILY) as kernel:
            chains = [chain for chain in kernel.get_chains() if chain.get_attr("NFTA_CHAIN_HOOK") is not None]
            return [*map(_chain, chains), *map(_rule, kernel.get_rules())]
    except NetlinkError as error:
        if error.code in _WITHOUT_NFTABLES:
            return []  # a kernel without nf_tables has no rule of it
        raise


def _chain(chain: object) -> str:
    return f"nftables chain {_attr(chain, 'NFTA_CHAIN_NAME')} of table {_attr(chain, 'NFTA_CHAIN_TABLE')} is on a hook"


def _rule(rule: object) -> str:
    place = f"chain {_attr(rule, 'NFTA_RULE_CHAIN')} of table {_attr(rule, 'NFTA_RULE_TABLE')}"
    return f"nftables rule {_attr(rule, 'NFTA_RULE_HANDLE')} in {place}"


def _attr(message: object, name: str) -> object:
    return message.get_attr(name)  # type: ignore[attr-defined]
