"""Pages list options, ini keys and commands as the program has them."""

from __future__ import annotations

import ast
import re
from dataclasses import fields
from pathlib import Path

import pytest
from user_project import CONFTEST, make_traffic_files

import pytest_nfvperf as nfv
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.topology.ports import PortRole
from pytest_nfvperf.plugin.output import _our_fixtures
from tools import suite_words
from tools.reference_pages import PARTS, generated

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("page", PARTS)
def test_the_page_is_what_the_program_says(page: str) -> None:
    text = (ROOT / "docs/reference" / page).read_text(encoding="utf-8")
    assert text == generated(page, text), "write it anew: python -m tools.reference_pages"


def test_a_page_without_its_markers_is_refused() -> None:
    with pytest.raises(ValueError, match=r"options\.md needs the markers <!-- generated: options -->"):
        generated("options.md", "# Options\n")


def test_every_word_of_a_suite_has_an_example() -> None:
    named = [name for names in suite_words.TRAFFIC for name in names.split(", ")]
    assert named == [each.name for each in fields(nfv.Traffic)]
    assert set(suite_words.PARTS) == set(nfv.parts.__all__)
    calls = {
        f"{fixture}.{name}"
        for fixture, kind in suite_words.CLASSES.items()
        for name in vars(kind)
        if not name.startswith("_") and callable(vars(kind)[name])
    }
    # Of a figure, a spec or mirrors that a suite must have beside them: their own pages show them.
    assert calls - set(suite_words.MEASUREMENTS) == {
        "search.ceiling_fps", "study.compare", "study.mirror_cost", "streams.response_time", "streams.connect_rate"
    }  # fmt: skip


@pytest.fixture(scope="module")
def words() -> dict[str, object]:
    """What the page imports, and the kind of port that one example needs beside it."""
    page = (ROOT / "docs/reference/suite-words.md").read_text(encoding="utf-8")
    names: dict[str, object] = {"PortRole": PortRole}
    exec(page.partition("```python\n")[2].partition("```")[0], names)
    return names


SENT = [*suite_words.TRAFFIC.values(), *(example for example, _ in suite_words.MORE_TRAFFIC.values())]


@pytest.mark.parametrize("text", SENT)
def test_the_examples_of_traffic_work(
    text: str, words: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_traffic_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert isinstance(eval(text, words), (nfv.Traffic, nfv.TrafficMix, nfv.Vary, nfv.Vxlan))


@pytest.mark.parametrize("text", suite_words.PARTS.values(), ids=suite_words.PARTS)
def test_the_examples_of_parts_work(text: str, words: dict[str, object]) -> None:
    assert eval(text, words)


def test_the_examples_of_measurements_work(pytester: pytest.Pytester) -> None:
    page = (ROOT / "docs/reference/suite-words.md").read_text(encoding="utf-8")
    tests = [page.partition("```python\n")[2].partition("```")[0], "import pytest\n"]
    for name, text in suite_words.MEASUREMENTS.items():
        fixtures = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)} & _our_fixtures()
        tests += ["@pytest.mark.nfv_virtual_time\n" if "instructions" in name else ""]
        tests += [f"def test_{name.replace('.', '_')}({', '.join(sorted(fixtures))}):\n    {text}\n"]
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile("".join(tests))

    result = pytester.runpytest_subprocess("--nfv-plan")

    assert result.ret == 0, result.stdout.str()
    known = "(?:about|skipped: (?:this testbed has nobody who|nobody here) can restart) "
    planned = set(re.findall(rf"::test_(\w+): {known}", result.stdout.str()))
    wanted = {name.replace(".", "_") for name in suite_words.MEASUREMENTS}
    assert planned == wanted - {"study_instructions_per_packet"}, result.stdout.str()


def test_a_dict_as_a_mix_is_answered_with_the_imix_to_write() -> None:
    for wrong in (lambda: nfv.Traffic(frame_size={64: 7}), lambda: nfv.Imix("mine", {64: 7})):  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match=r"\(\(64, 7\), \(1518, 1\)\)"):
            wrong()
