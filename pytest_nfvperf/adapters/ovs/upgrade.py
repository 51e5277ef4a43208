"""Restarts that keep flows, as ``ovs-ctl restart`` does them, and upgrades in place from one version to another.

The flows are saved and restored by the version's own ``ovs-save``. What that loses is lost here, too: meters, and with
one flow that has a meter all flows of its bridge; on a bridge with a controller all flows.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from pytest_nfvperf.adapters.ovs.installation import OvsBinaries
from pytest_nfvperf.adapters.ovs.private_ovs import InstanceOptions, OvsInstance, copy_schema
from pytest_nfvperf.adapters.process.process import completed, describe_exit, run
from pytest_nfvperf.model.errors import TestbedError, UnavailableError

FLOW_RESTORE_WAIT = "flow-restore-wait"

_SCRIPT_DEADLINE_S = 60.0
_CONVERT_DEADLINE_S = 60.0
_MOST_PRINTED = 2_000


def ovs_save(binaries: OvsBinaries) -> Path:
    """The version's own script; UnavailableError where it, or a program that it calls, is not installed."""
    script = binaries.schema.parent / "scripts" / "ovs-save"
    missing = [path for path in (script, *_tools(binaries).values()) if not path.is_file()]
    if missing:
        raise UnavailableError(
            f"flows are restored by OVS's own scripts, and OVS {binaries.version} has no {missing[0]}: use a complete "
            "installation, or flows='lost'"
        )
    return script


def _tools(binaries: OvsBinaries) -> dict[str, Path]:
    return {name: binaries.ofctl.with_name(name) for name in ("ovs-ofctl", "ovs-vsctl", "ovs-appctl")}


def restart_as_ovs_ctl(
    instance: OvsInstance,
    serve: Callable[[], None],
    binaries: OvsBinaries | None = None,
    options: InstanceOptions | None = None,
) -> None:
    """Restart ovsdb-server and vswitchd as ``restart()`` of OVS's utilities/ovs-lib.in does.

    Args:
        instance: a private OVS.
        serve: called once vswitchd has its ports, before the flows are restored: what the network around it knows.
        binaries: of the version to start; None: of the same. Its database is converted, up or down.
        options: of that version.

    Raises:
        TestbedError: a daemon did not end or start, or a script could not run; what flows OVS refused is only noted.
    """
    script = _save_flows(instance)
    changed: Mapping[str, str] = {}
    if binaries is not None and options is not None:
        changed = instance.use(binaries, options)
    instance.restart_database(lambda: _convert(instance))
    instance.stop_vswitchd()
    instance.start_vswitchd({**changed, FLOW_RESTORE_WAIT: "true"})
    serve()
    _run_script(instance, script)
    instance.set_config({FLOW_RESTORE_WAIT: ""})
    instance.note(f"ovs-vswitchd forwards again: {FLOW_RESTORE_WAIT} is removed")


def _save_flows(instance: OvsInstance) -> Path:
    instance.db.refresh()
    bridges = sorted(instance.db.rows("Bridge"))
    said = _with_tools(instance, ["sh", str(ovs_save(instance.binaries)), "save-flows", *bridges])
    instance.note(f"ovs-save has saved the flows of {len(bridges)} bridges{_printed(said.stderr)}")
    script = instance.directory / "restore-flows.sh"
    try:
        script.write_text(said.stdout, encoding="utf-8")
    except OSError as error:
        raise TestbedError(f"the saved flows cannot be written to {script}: {error.strerror}") from error
    return script


def _run_script(instance: OvsInstance, script: Path) -> None:
    done = _with_tools(instance, ["sh", str(script)])
    status = "" if done.returncode == 0 else f" ({describe_exit(done.returncode)})"
    instance.note(f"the script of ovs-save has restored flows{status}{_printed(done.stdout + done.stderr)}")


def _printed(text: str) -> str:
    return f"; it printed: {text.strip()[:_MOST_PRINTED]}" if text.strip() else ""


def _with_tools(instance: OvsInstance, command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a script of OVS that calls its programs by name: they are this version's, and speak to this instance."""
    here = instance.directory
    tools = here / "tools"
    try:
        tools.mkdir(exist_ok=True)
        for name, program in _tools(instance.binaries).items():
            argv = [*instance.binaries.command(program, here), *_targets(name, here)]
            (tools / name).write_text(f'#!/bin/sh\nexec {shlex.join(argv)} "$@"\n', encoding="utf-8")
            (tools / name).chmod(0o755)
        where = [f"PATH={tools}:/usr/sbin:/usr/bin:/sbin:/bin", f"TMPDIR={here}"]
        directories = [f"OVS_{name}DIR={here}" for name in ("RUN", "LOG", "DB")]
        return completed(["env", *where, *directories, *command], _SCRIPT_DEADLINE_S)
    except OSError as error:
        raise TestbedError(f"OVS's scripts cannot run in {here}: {error.strerror}: {error.filename}") from error
    except subprocess.TimeoutExpired as error:
        raise TestbedError(
            f"{' '.join(command)} did not end within {_SCRIPT_DEADLINE_S:g} s", evidence=dict(instance.logs())
        ) from error


def _targets(name: str, directory: Path) -> list[str]:
    return [f"--target={directory / 'vswitchd.ctl'}"] if name == "ovs-appctl" else []


def _convert(instance: OvsInstance) -> None:
    """Convert the database to the schema of the programs in use, as ``upgrade_db`` of OVS's ovs-lib does.

    TestbedError where it cannot be: ``ovs-ctl`` would go on with an empty one.
    """
    file, binaries = instance.database_file, instance.binaries
    schema = copy_schema(binaries.schema, file)
    tool = binaries.command(binaries.ovsdb_tool, file.parent)
    if run([*tool, "needs-conversion", file, schema]).strip() != "yes":
        return
    former = run([*tool, "db-version", file]).strip()
    try:
        shutil.copyfile(file, file.with_name(f"{file.name}.backup{former}"))
    except OSError as error:
        raise TestbedError(f"the database {file} cannot be saved before it is converted: {error.strerror}") from error
    with suppress(TestbedError):  # an older version may not know all that is in there; ovs-ctl goes on, too
        run([*tool, "compact", file], deadline_s=_CONVERT_DEADLINE_S)
    run([*tool, "convert", file, schema], deadline_s=_CONVERT_DEADLINE_S)
    instance.note(f"the database is converted from schema {former} to {run([*tool, 'db-version', file]).strip()}")
