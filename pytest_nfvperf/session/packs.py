"""SLA packs by name: ``--nfv-sla published:S1`` judges by what S1 published.

The figures are in the ``published.yaml`` beside each suite; a rule belongs to the scenarios that its name or its
source says, such as "(S1)". ``published`` alone means all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.near import listed
from pytest_nfvperf.model.sla.rules import Rule, Sla
from pytest_nfvperf.session.options import PACK

PUBLISHED_FILE = "published.yaml"
_SCENARIO = re.compile(r"\bS\d+\b")


def pack_rules(pack: str, published: Iterable[Sla]) -> tuple[Rule, ...]:
    """The rules of a pack.

    Args:
        pack: "published" or "published:S1".
        published: what is beside the suites.
    """
    scenario = pack.partition(":")[2]
    return tuple(rule for sla in published for rule in sla.rules if not scenario or scenario in scenarios(rule))


def scenarios(rule: Rule) -> set[str]:
    """Which published evaluations a rule is from: "S1"."""
    return set(_SCENARIO.findall(f"{rule.name} {rule.reference}"))


def refuse_empty(pack: str, published: Iterable[Sla]) -> None:
    """Raise ConfigError for a pack without a rule, naming those that there are."""
    slas = tuple(published)
    if pack_rules(pack, slas):
        return
    known = sorted({scenario for sla in slas for rule in sla.rules for scenario in scenarios(rule)})
    there = f"there are {listed([PACK, *(f'{PACK}:{name}' for name in known)])}" if known else "there is none"
    raise ConfigError(f"the suites of this run have no figures by the name {pack!r}: {there}", key="--nfv-sla")
