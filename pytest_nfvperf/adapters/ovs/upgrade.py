"""Restarts that keep flows, as ``ovs-ctl restart`` does them, and upgrades in place from one version to another.

Flows are saved and restored by the version's own ``ovs-save``: what that loses is lost here, too.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from pathlib import Path

from pytest_nfvperf.adapters.ovs.installation import OvsBinaries
from pytest_nfvperf.adapters.ovs.private_ovs import OvsInstance, copy_schema
from pytest_nfvperf.model.errors import TestbedError, UnavailableError

_WAIT = "flow-restore-wait"
_MOST_PRINTED = 2_000
_LOADERS = ("usr/lib/*/ld-linux*", "lib/*/ld-linux*")
_TOOLS = ("ovs-ofctl", "ovs-vsctl", "ovs-appctl")


def ovs_save(binaries: OvsBinaries) -> Path:
    """The version's own script; UnavailableError where it, or a program that it calls, is not installed."""
    script = binaries.schema.parent / "scripts" / "ovs-save"
    for path in (script, *map(binaries.ofctl.with_name, _TOOLS)):
        if not path.is_file():
            raise UnavailableError(
                f"OVS's own scripts restore flows, and OVS {binaries.version} has no {path}: use a complete "
                "installation, or flows='lost'"
            )
    return script


def _command_line(binaries: OvsBinaries, program: Path) -> str:
    """A line of shell that becomes the program. In a root, by the root's own loader: to enter it takes 18 ms each time.

    From within the root, because the loader's list of directories cannot have a path with a colon.
    """
    root = binaries.root
    loaders = [path for pattern in _LOADERS for path in root.glob(pattern)] if root is not None else []
    if root is None or not loaders:
        return f"exec {shlex.join(binaries.command(program))}"
    loader = loaders[0].relative_to(root)
    libraries = ":".join([*(f"{lib}/{loader.parent.name}" for lib in ("usr/lib", "lib")), "usr/lib/openvswitch-common"])
    return f"cd {shlex.quote(str(root))} && exec {loader} --library-path {libraries} {shlex.quote(str(program))}"


def restart_as_ovs_ctl(
    instance: OvsInstance, serve: Callable[[], None], use: Callable[[], Mapping[str, str]] = dict
) -> None:
    """Restart ovsdb-server and vswitchd as ``restart()`` of OVS's utilities/ovs-lib.in does.

    ``serve``: called once vswitchd has its ports: what it learns from the network. ``use``: ``instance.use`` another
    version, which is started then; the database is converted, up or down.

    Raises:
        TestbedError: a daemon did not end or start, or a script did not run. Flows that OVS refuses are only noted.
    """
    instance.db.refresh()
    script = instance.directory / "restore-flows.sh"
    save = [str(ovs_save(instance.binaries)), "save-flows", *sorted(instance.db.rows("Bridge"))]
    _run_script(instance, "ovs-save has saved the flows", *save, output=script)
    changed = use()
    instance.restart_database(lambda: _convert(instance))
    instance.stop_vswitchd()
    instance.start_vswitchd({**changed, _WAIT: "true"})
    serve()
    _run_script(instance, "the script of ovs-save has restored the flows", str(script))
    instance.set_config({_WAIT: ""})
    instance.note(f"{_WAIT} is removed")


def _run_script(instance: OvsInstance, done: str, *command: str, output: Path | None = None) -> None:
    """Run a script that calls OVS's programs by name: they are this version's, and speak to this instance."""
    here = instance.directory
    tools = here / "tools"
    try:
        tools.mkdir(exist_ok=True)
        for name in _TOOLS:
            command_line = _command_line(instance.binaries, instance.binaries.ofctl.with_name(name))
            target = f" --target={here}/vswitchd.ctl" if name == "ovs-appctl" else ""
            (tools / name).write_text(f'#!/bin/sh\n{command_line}{target} "$@"\n', encoding="utf-8")
            (tools / name).chmod(0o755)
        where = [f"PATH={tools}:/usr/sbin:/usr/bin:/sbin:/bin", f"TMPDIR={here}", f"OVS_RUNDIR={here}"]
        said = instance.run_beside("env", *where, "sh", *command)
        if output is not None:
            output.write_text(said.stdout, encoding="utf-8")
    except OSError as error:
        raise TestbedError(f"{command[0]} of OVS did not run: {error}", evidence=dict(instance.logs())) from error
    printed = (said.stderr if output is not None else said.stdout + said.stderr).strip()
    instance.note(f"{done}; it printed: {printed[:_MOST_PRINTED]}" if printed else done)


def _convert(instance: OvsInstance) -> None:
    """Convert the database to the schema of the programs in use, as ``upgrade_db`` of OVS's ovs-lib does.

    TestbedError where it cannot be: ``ovs-ctl`` would go on with an empty one. Nobody reads the copy that it keeps.
    """
    file, binaries = instance.database_file, instance.binaries

    def tool(*words: str | Path) -> str:
        return instance.run_beside(*binaries.command(binaries.ovsdb_tool, file.parent), *words).stdout.strip()

    try:
        schema = copy_schema(binaries.schema, file)
    except OSError as error:
        raise TestbedError(f"the database {file} cannot be converted: {error}") from error
    if tool("needs-conversion", file, schema) == "yes":
        former = tool("db-version", file)
        tool("convert", file, schema)
        instance.note(f"the database is converted from schema {former} to {tool('db-version', file)}")
