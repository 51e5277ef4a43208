"""What Allure reads beside the results: environment, categories and executor.

Allure 2 takes categories from categories.json among the results. Allure 3 takes them from its configuration only, so
they stand in a configuration, too: ``allure generate --config DIR/allurerc.json DIR``.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

from pytest_nfvperf.adapters.report.pages import flattened
from pytest_nfvperf.model.evidence.records import RunData

CATEGORIES = Path(__file__).with_name("templates") / "categories.json"


def write_allure_files(directory: Path, run: RunData, environ: Mapping[str, str]) -> None:
    """Write environment.properties, categories.json, allurerc.json and executor.json into an ``--alluredir``.

    Args:
        directory: made when missing; existing files are replaced.
        run: what is known of the run.
        environ: the process environment, which names the CI job.
    """
    directory.mkdir(parents=True, exist_ok=True)
    lines = [f"{_key(name)}={_value(text)}" for name, text in environment(run).items()]
    (directory / "environment.properties").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (directory / "executor.json").write_text(json.dumps(executor(environ), indent=2) + "\n", encoding="utf-8")
    shutil.copyfile(CATEGORIES, directory / "categories.json")
    allurerc = {"name": f"Datapath acceptance: {run.testbed.name}", "categories": categories()}
    (directory / "allurerc.json").write_text(json.dumps(allurerc, indent=2) + "\n", encoding="utf-8")


def categories() -> list[dict[str, object]]:
    """Ours, in the form that both Allure 2 and 3 take."""
    found: list[dict[str, object]] = json.loads(CATEGORIES.read_text(encoding="utf-8"))
    return found


def environment(run: RunData) -> dict[str, str]:
    """Testbed, DUT, generator and fingerprint as Allure's environment block shows them."""
    shown = {"testbed": run.testbed.name, "profile": run.profile, "nfvperf": run.tool_version, "python": run.python}
    if run.dut is not None:
        shown |= {"dut": f"OVS {run.dut.version} ({run.dut.kind})", "dut.dpdk": run.dut.dpdk_version or "none"}
    if run.generator is not None:
        shown["generator"] = f"{run.generator.engine} {run.generator.version}"
    return shown | dict(flattened(run.fingerprint))


def executor(environ: Mapping[str, str]) -> dict[str, str]:
    """Who ran it: the CI job named by its environment variables, or a person's machine."""
    if "GITHUB_RUN_ID" in environ:
        url = f"{environ.get('GITHUB_SERVER_URL', '')}/{environ.get('GITHUB_REPOSITORY', '')}"
        run = environ["GITHUB_RUN_ID"]
        return {"name": "GitHub Actions", "type": "github", "buildName": run, "buildUrl": f"{url}/actions/runs/{run}"}
    if "GITLAB_CI" in environ:
        url = environ.get("CI_PIPELINE_URL", "")
        return {"name": "GitLab CI", "type": "gitlab", "buildName": environ.get("CI_JOB_NAME", ""), "buildUrl": url}
    if "JENKINS_URL" in environ:
        url = environ.get("BUILD_URL", "")
        return {"name": "Jenkins", "type": "jenkins", "buildName": environ.get("BUILD_TAG", ""), "buildUrl": url}
    return {"name": "local", "type": "local", "buildName": "pytest"}


def _key(name: str) -> str:
    """Java properties end a key at the first space, ``=`` or ``:``."""
    return name.replace(" ", "_").replace("=", "_").replace(":", "_")


def _value(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", " ")
