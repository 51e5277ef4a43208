"""The templates: strict (an unknown name is an error), escaping everything, and showing control characters."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from pytest_nfvperf.model import display
from pytest_nfvperf.model.display import visible
from pytest_nfvperf.model.evidence.records import TrialData
from pytest_nfvperf.model.metrics import metric_of

TEMPLATES = Path(__file__).with_name("templates")


@functools.cache
def environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=select_autoescape(["html"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    made.filters |= {
        "fps": display.format_fps,
        "bps": display.format_bps,
        "ns": display.format_ns,
        "seconds": display.format_seconds,
        "ratio": display.format_ratio,
        "count": lambda value: display.format_count(value, ""),
        "value": display.format_value,
        "against": display.format_against,
        "margin": display.format_margin,
        "how_many": display.how_many,
        "title_of": lambda name: metric_of(name).title,
    }
    return made


def style() -> Markup:
    return Markup((TEMPLATES / "style.css").read_text(encoding="utf-8"))  # noqa: S704 - our own file


def _shown(value: object) -> object:
    """Show control characters in what a template prints. Our own markup was treated before."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def trials_html(trials: Sequence[tuple[str, TrialData]]) -> str:
    return environment().get_template("trials.html").render(trials=list(trials), style=style())
