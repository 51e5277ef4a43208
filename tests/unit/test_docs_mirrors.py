"""docs/how-to/mirrors.md: its drawing is what its code gives, its answers are what mistakes are told."""

from __future__ import annotations

import re
from pathlib import Path

from pytest_nfvperf.model.testbed.topology_text import topology_text
from pytest_nfvperf.model.topology.workloads import OUTPUTS
from tests.unit.test_model_mirrors import REFUSED

PAGE = (Path(__file__).parents[2] / "docs/how-to/mirrors.md").read_text(encoding="utf-8")


def test_the_drawing() -> None:
    ((code, text),) = re.findall(
        r"^<!-- topology -->\n```python\n(.*?)^```\n\n```text\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL
    )
    names: dict[str, object] = {}
    exec(compile(code, "docs/how-to/mirrors.md", "exec"), names)
    assert topology_text(names["topology"]) == text.rstrip("\n")  # type: ignore[arg-type]


def test_the_refusals() -> None:
    answers = re.findall(r"^\| [^`|]+ \| `(.+?)(?:\.\.\.)?` \|$", PAGE.split("## What is refused")[1], re.MULTILINE)
    told = [message for _, message in REFUSED.values()]
    assert len(answers) == 6
    assert [answer for answer in answers if not any(answer in message for message in told)] == []


def test_the_outputs() -> None:
    assert f"`mirror_output({' | '.join(f'{chr(34)}{output}{chr(34)}' for output in OUTPUTS)})`" in PAGE
