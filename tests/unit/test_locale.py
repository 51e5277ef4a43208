"""What programs say is read in one language, whatever the user's is; texts are UTF-8, whatever the locale says."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import pytest_nfvperf
from pytest_nfvperf.adapters.process.process import plain_environment, run, spawn
from pytest_nfvperf.adapters.vnf.guest_kernel import newest_package
from tests.functional.ovs_support import clean_run

PACKAGE = Path(pytest_nfvperf.__file__).parent
AFTER_THE_LOCALE = {"text", "universal_newlines"}
GERMAN = {"LANG": "de_DE.UTF-8", "LC_ALL": "de_DE.UTF-8", "LANGUAGE": "de:tr"}


def test_no_child_is_read_after_the_locale() -> None:
    """With LC_ALL=C a German file name would be a UnicodeDecodeError: each call says its encoding, or takes bytes."""
    wrong = [
        f"{file.relative_to(PACKAGE)}:{call.lineno}"
        for file in PACKAGE.rglob("*.py")
        for call in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call) and AFTER_THE_LOCALE & {keyword.arg for keyword in call.keywords}
        if ast.unparse(call.func).rpartition(".")[2] in {"run", "Popen", "Child", "check_output"}
    ]
    assert wrong == []


def test_children_speak_the_language_that_we_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, value in GERMAN.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("LC_NUMERIC", "de_DE.UTF-8")
    assert {"LC_ALL=C", "LANG=de_DE.UTF-8"} <= set(run(["env"]).splitlines())
    assert "LANGUAGE" not in run(["env"])
    with clean_run() as journal:
        process = spawn(journal, "env", ["env"], log=tmp_path / "log")
        process.popen.wait(10)
        said = (tmp_path / "log").read_text(encoding="utf-8").splitlines()
        process.stop()
    assert "LC_ALL=C" in said
    assert not [line for line in said if line.startswith("LANGUAGE=")]


def test_what_is_no_utf_8_is_read_all_the_same() -> None:
    assert run([sys.executable, "-c", r"import os; os.write(1, b'caf\xe9 \xc3\xbc')"]) == "caf\ufffd ü"


NEWEST = """
import sys
from pytest_nfvperf.adapters.vnf.guest_kernel import newest_package
print(newest_package())
"""


@pytest.mark.thorough("compiles a locale")
@pytest.mark.skipif(
    shutil.which("localedef") is None or shutil.which("apt-cache") is None, reason="Debian's own programs"
)
@pytest.mark.parametrize("locale", ["de_DE", "tr_TR"])  # in German apt says "Hängt ab von:"
def test_apts_words_are_read_under_other_locales(tmp_path: Path, locale: str) -> None:
    """Steps: make a locale, and look for the guest's kernel in it. Verify: it is found."""
    if not Path("/usr/share/i18n/locales", locale).exists():
        pytest.skip("the sources of locales are not installed: apt-get install locales")
    subprocess.run(["localedef", "-i", locale, "-f", "UTF-8", str(tmp_path / f"{locale}.UTF-8")], check=True)
    words = {"LOCPATH": str(tmp_path), "LC_ALL": f"{locale}.UTF-8", "LANGUAGE": locale}
    told = subprocess.run(
        [sys.executable, "-c", NEWEST], env=os.environ | words, capture_output=True, encoding="utf-8", check=True
    )
    assert told.stdout.strip() == newest_package()


def test_the_environment_is_ours_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NFV_TEST_OURS", "müßig")
    assert plain_environment()["NFV_TEST_OURS"] == "müßig"
    assert set(plain_environment()) | {"LANGUAGE"} == set(os.environ) | {"LC_ALL", "LANGUAGE"}
