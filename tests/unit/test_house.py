"""The house stays small enough for a stranger: lines, files, folders, public names, names with one meaning."""

from __future__ import annotations

import pytest

from tests.house import Figure, figures


@pytest.mark.parametrize("figure", figures(), ids=lambda figure: figure.what)
def test_the_house_stays_small(figure: Figure):
    assert figure.value <= figure.limit, "\n".join((str(figure), *figure.names))
