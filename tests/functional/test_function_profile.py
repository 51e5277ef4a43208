"""``nfvperf profile`` on real Open vSwitch under callgrind."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_nfvperf.adapters.process.programs import find
from pytest_nfvperf.cli.main import main
from pytest_nfvperf.features.profile import callgrind
from tests.functional.ovs_support import needs_root

pytestmark = needs_root


def test_valgrind_that_is_not_installed_is_named_with_its_package(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(callgrind, "find", lambda name: None)
    assert main(["profile", "installed"]) == 1
    assert "nfvperf: profiles by function need valgrind, vgdb: apt-get install valgrind\n" in capsys.readouterr().err


@pytest.mark.skipif(find("valgrind") is None, reason="valgrind is not installed, and need not be")
def test_a_stripped_version_is_said_to_have_no_symbols(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Steps: profile the distribution's package. Verify: it forwards frames under callgrind; its names are missing."""
    assert main(["profile", "installed", "--frames", "32", "--output", str(tmp_path / "out")]) == 1
    said = capsys.readouterr().err
    assert "no function of installed is called dp_netdev_process_rxq_port: its programs have no symbols" in said
    assert not any((tmp_path / "out").iterdir())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a", "a"], "name one version, or two that differ, not a, a"),
        (["a", "b", "c"], "name one version, or two that differ, not a, b, c"),
        (["installed", "--frames", "0"], "--frames must be 1 or more, not 0"),
        (["installed", "--frame-size", "20"], "frame"),
        (["nobody"], "no version of Open vSwitch is kept as 'nobody'"),
    ],
)
def test_mistakes_are_said(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", *arguments]) == 1
    assert message in capsys.readouterr().err
