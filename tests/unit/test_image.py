"""The image: what is in it, where it comes from, and how it is published."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from pytest_nfvperf.adapters.host import setup
from pytest_nfvperf.adapters.process.programs import DEBIAN_12, packages

ROOT = Path(__file__).parents[2]
CONTAINERFILE = (ROOT / "docs/examples/ci/Containerfile").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
WORKFLOW = (ROOT / ".github/workflows/image.yml").read_text(encoding="utf-8")


def steps() -> list[dict[str, Any]]:
    (job,) = yaml.safe_load(WORKFLOW)["jobs"].values()
    return list(job["steps"])


def test_its_packages_are_those_of_the_set_up() -> None:
    """What its own apt-get installs is only what the set-up needs before it can run."""
    installed = re.findall(r"apt-get install (.*)", CONTAINERFILE)
    assert len(installed) == 1
    first = {word for word in installed[0].split() if not word.startswith("-")}
    assert first < set(packages(setup.SETUP_USES, DEBIAN_12))
    assert re.search(
        rf"^RUN \S+/python -m {setup.__spec__.name} --hugepages 0\b(?!.*--no-packages)", CONTAINERFILE, re.M
    )


def test_its_base_is_an_argument_and_names_no_registry() -> None:
    (base,) = re.findall(r"^ARG BASE=(\S+)$", CONTAINERFILE, re.M)
    assert re.findall(r"^FROM (\S+)$", CONTAINERFILE, re.M) == ["$BASE"]
    assert base == "debian:bookworm-slim"
    assert "/" not in base
    assert re.search(rf"^BASE +\?= {base}$", MAKEFILE, re.M)
    assert f"'{base}'" in WORKFLOW
    assert "http" not in CONTAINERFILE


def test_a_tag_publishes_what_make_builds() -> None:
    checkout, build, *_, publish = steps()
    assert build["run"] == "make image"
    assert {"BASE", "IMAGE"} <= set(
        re.findall(r"\$\((\w+)\)", MAKEFILE.partition("\nimage: wheel\n")[2].partition("\n\n")[0])
    )
    assert yaml.safe_load(WORKFLOW)[True]["push"] == {"tags": ["v*"]}, "YAML 1.1 reads on as true"
    assert [re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", step["uses"]) is None for step in steps() if "uses" in step] == [
        False
    ]
    assert checkout["with"] == {"persist-credentials": False}
    assert set(publish["env"].values()) == {f"${{{{ secrets.{name} }}}}" for name in publish["env"]}
