"""The pictures of the documents, made anew from today's program: ``python -m tools.pictures``.

No picture needs a rig. The terminal and the topology are of runs on a simulated DUT. The report is that of the tests'
sample run, or of a run of yours: ``python -m tools.pictures reports/latest``. ``noise.png`` shows measured
windows and is left alone.
"""

from __future__ import annotations

import io
import os
import pty
import re
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from tests.sample_run import SampleRun, write_sample

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
_COLUMNS, _LINES = 110, 40
_FONT = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
"""Rich's pictures load a font from a CDN; a viewer's own monospaced font does."""
_LEFT_OUT = re.compile(r"^platform |^plugins: |^rootdir: | · trial \d+")
"""Of the terminal: what is of this machine, and the progress that later lines replace."""

CONFTEST = """
from pytest_nfvperf.testing import FakeGenerator, SimulatedBackend

pytest_plugins = ["pytest_nfvperf.fixtures.all"]


def pytest_nfvperf_make_backend(config, testbed):
    return SimulatedBackend(testbed, lambda: FakeGenerator(capacity_fps=4.61e6))
"""
SLA = """
schema: 1
rules:
  - where: {topology: [phy2phy, pvp]}
    require: {ndr: ">= 4 Mpps", latency_p99: {at: 50 % of pdr, limit: "<= 100 us"}}
  - where: {topology: phy2phy, frame_size: 64}
    require: {pdr: ">= 5 Mpps"}
"""
SUITE = """
from pytest_nfvperf import Traffic, sweep


@sweep("frame_size", [64, 512, 1518])
def test_ndr_pdr(frame_size, phy2phy, search, sla):
    sla.check(search.ndr_pdr(phy2phy, Traffic(frame_size=frame_size), latency=True))


def test_through_a_vnf(pvp, search, sla):
    sla.check(search.ndr_pdr(pvp, Traffic(frame_size=64), latency=True))
"""
TOPOLOGY_SUITE = """
from pytest_nfvperf import Traffic, compose
from pytest_nfvperf.parts import endpoint, patch, path, vnf

EDGE = compose(
    "edge",
    endpoint("p0", "br-ex"),
    patch("br-ex", "br-int"),
    vnf("fw", "br-int", mode="mac"),
    endpoint("p1", "br-int"),
    path("p0", "fw", "p1"),
)


def test_vnf_behind_a_second_bridge(deploy, search, sla):
    sla.check(search.ndr_pdr(deploy(EDGE), Traffic(frame_size=64)))
"""


def terminal(folder: Path) -> None:
    """The terminal of a run, as SVG."""
    shown = _in_a_terminal(_project(folder, SUITE, SLA), "suites/", "-p", "no:cacheprovider")
    text = Text.from_ansi(_drawn(shown, folder))
    console = Console(record=True, width=_COLUMNS, file=io.StringIO(), color_system="truecolor", force_terminal=True)
    console.print(text, no_wrap=True, crop=True)
    svg = console.export_svg(title="pytest suites/", theme=MONOKAI, unique_id="nfvperf")
    svg = _FONT.sub("", svg).replace("Fira Code", "ui-monospace, Menlo, Consolas, DejaVu Sans Mono")
    (IMAGES / "terminal.svg").write_text(svg, encoding="utf-8")


def topology(folder: Path) -> None:
    """The picture that the report has of a topology."""
    _in_a_terminal(_project(folder, TOPOLOGY_SUITE, ""), "suites/", "-p", "no:cacheprovider")
    run = folder / "reports" / "latest"
    subprocess.run([sys.executable, "-m", "pytest_nfvperf.cli.main", "report", run], cwd=ROOT, check=True)
    (made,) = (run / "charts").glob("topology-*.png")
    shutil.copy(made, IMAGES / "topology.png")


class _Sample(SampleRun):
    """The sample run without the generator's death, of which the page would speak first."""

    def broken_tests(self) -> None:
        """None."""


def report(folder: Path, run: Path | None) -> None:
    """The top of a run's page, in Chromium."""
    if run is None:
        run = folder
        write_sample(run, _Sample().build())
    subprocess.run([sys.executable, "-m", "pytest_nfvperf.cli.main", "report", run], cwd=ROOT, check=True)
    screenshot(run / "report.html", IMAGES / "report.png", 1280, 1130)


def screenshot(page: Path, picture: Path, width: int, height: int, *more: str) -> None:
    """What a browser shows of a page; fewer colours make the file a third as large."""
    browser = shutil.which("chromium")
    if browser is None:
        raise SystemExit("no chromium: apt-get install chromium")
    with TemporaryDirectory() as profile:
        command = [browser, "--headless=new", "--no-sandbox", "--hide-scrollbars", "--virtual-time-budget=8000"]
        command += [f"--user-data-dir={profile}", f"--window-size={width},{height}", f"--screenshot={picture}", *more]
        subprocess.run([*command, page.resolve().as_uri()], check=True, capture_output=True)
    with Image.open(picture) as taken:
        taken.convert("RGB").quantize(128).save(picture, optimize=True)


def _project(folder: Path, suite: str, sla: str) -> Path:
    below = folder / "suites" / "acme"
    below.mkdir(parents=True)
    (folder / "conftest.py").write_text(CONFTEST)
    (below / "test_acme.py").write_text(suite)
    if sla:
        (below / "sla.yaml").write_text(sla)
    return folder


def _in_a_terminal(folder: Path, *arguments: str) -> str:
    """Pytest's output as it goes to a terminal, colours included."""
    ours, its = pty.openpty()
    environment = os.environ | {"COLUMNS": str(_COLUMNS), "LINES": str(_LINES), "TERM": "xterm-256color"}
    command = [sys.executable, "-m", "pytest", *arguments]
    with subprocess.Popen(command, cwd=folder, env=environment, stdin=its, stdout=its, stderr=its):
        os.close(its)
        shown = bytearray()
        while piece := _read(ours):
            shown.extend(piece)
    os.close(ours)
    return shown.decode("utf-8", errors="replace")


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 4096)
    except OSError:  # EIO: the other end is closed
        return b""


def _drawn(shown: str, folder: Path) -> str:
    """Lines as they are in the end: what a carriage return writes over is gone, and so are names of this machine."""
    lines = [line.rstrip("\r").rsplit("\r", 1)[-1] for line in shown.replace("\x1b[2K", "").split("\n")]
    kept = [line for line in lines if not _LEFT_OUT.search(line)]
    return re.sub(r"\n\n(acme/)", r"\n\1", "\n".join(kept)).replace(str(folder.resolve()), "~/acceptance")


def main(arguments: list[str]) -> int:
    """Make the pictures."""
    with TemporaryDirectory(prefix="nfvperf-pictures-") as name:
        folder = Path(name)
        terminal(folder / "terminal")
        topology(folder / "topology")
        report(folder, Path(arguments[0]) if arguments else None)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
