"""The sides and the margin of a comparison, as the command line names them."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_nfvperf.config.units import RATIO, UnitError, quantity
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.measure.compare import MARGIN, ComparisonSettings, parse_sides

LARGEST_MARGIN = 0.5


def read_comparison_settings(
    sides: Sequence[str], settings: Sequence[str] = (), margin: str | None = None
) -> ComparisonSettings:
    """Read the sides (see ``parse_sides``) and the margin, such as "2 %"; None gives the default margin."""
    return ComparisonSettings(parse_sides(sides, settings), read_margin(margin))


def read_margin(text: str | None) -> float:
    """Read a share above 0; None gives the default."""
    if text is None:
        return MARGIN
    try:
        share = quantity(text, RATIO, "the margin of a comparison")
    except UnitError as error:
        raise ConfigError(str(error), key="--margin") from error
    if not 0 < share <= LARGEST_MARGIN:
        raise ConfigError(f"{text!r} is no margin: write a share above 0, up to 50 %, such as '2 %'", key="--margin")
    return share
