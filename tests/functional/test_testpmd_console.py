"""The console of a testpmd whose other threads print while it answers."""

from __future__ import annotations

import sys
from pathlib import Path

from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.adapters.process.process import spawn
from pytest_nfvperf.adapters.testpmd.console import PROMPT, Console

TORN = """
import sys
say = lambda text: (sys.stdout.write(text), sys.stdout.flush())
say("testpmd> ")
for line in sys.stdin:
    if line == "torn\\n":
        say("torn\\none\\ntestp")
        say("src=02:00:00:00:00:01 - dst=\\nmd> ")
    elif line == "\\n":
        say("\\ntestpmd> \\ntestpmd> ")
    else:
        say(line + "whole\\ntestpmd> ")
"""


def test_a_prompt_that_others_tore_apart_is_asked_for_again(journal: Journal, tmp_path: Path) -> None:
    process = spawn(journal, "torn", [sys.executable, "-c", TORN], log=tmp_path / "log", pipes=True)
    try:
        console = Console(process, PROMPT)
        console.wait_prompt("its start", 10)
        answer = console.ask_amid_output("torn", 10)
        assert "one\n" in answer
        assert "src=02:00:00:00:00:01" in answer
        assert console.ask("next", 10) == "whole\n"
    finally:
        process.stop()
