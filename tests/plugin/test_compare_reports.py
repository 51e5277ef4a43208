"""What else a comparison leaves: an attachment in Allure's result, a failure in JUnit's; and its plan."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree

from compare_project import compare, sides_project


def test_allure_has_the_table_and_junit_the_failure(pytester):
    """Steps: compare with a slower side, with Allure and JUnit. Verify: the table is attached, the test has failed."""
    project = sides_project(pytester)
    project.makeini("[pytest]\naddopts = --alluredir allure --junitxml junit.xml\n")

    assert compare(project, "installed", "slow=installed").ret == 1
    (result,) = [json.loads(path.read_text()) for path in (pytester.path / "allure").glob("*-result.json")]
    attached = {each["name"]: each["source"] for each in result["attachments"] if each["type"] == "text/plain"}
    assert "slower" in (pytester.path / "allure" / attached["comparison"]).read_text()
    assert result["status"] == "failed"
    (case,) = ElementTree.parse(pytester.path / "junit.xml").getroot().iter("testcase")
    assert "slow against installed: slower in forwarding_rate" in case.find("failure").text


def test_a_plan_lists_the_readings_of_all_sides(pytester):
    project = sides_project(pytester)
    project.makeini("[pytest]\naddopts = --nfv-plan\n")

    result = compare(project, "installed", "slow=installed")

    assert result.ret == 0
    result.stdout.fnmatch_lines(["*test_ndr_pdr*forwarding rate*"])
