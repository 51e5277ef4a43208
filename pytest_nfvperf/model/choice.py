"""One word of several, such as the kind of a port. Another word is answered with those that there are."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import NoReturn

from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.near import did_you_mean, listed


class Choice(StrEnum):
    """Base of such words; ``PortKind("vhostuser")`` raises ConfigError."""

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        what = re.sub(r"(?<!^)(?=[A-Z])", " ", cls.__name__).lower()
        raise unknown_word(str(value), what, [str(member) for member in cls])


def unknown_word(written: str, what: str, known: list[str]) -> ConfigError:
    """``'vhostuser' is no port kind, did you mean 'vhost-user'? There are testbed, vhost-user, tap``."""
    hint = did_you_mean(written, known)
    return ConfigError(f"{written!r} is no {what}{hint or '.'} There are {listed(known)}")
