"""``--nfv-virtual-time``: the same pytest, in a guest whose clock counts instructions.

The guest sees this machine's files. What the run writes, results and the files of other plugins' options, it writes to
this machine. Its output appears here as it comes, and its exit status is ours.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_nfvperf.adapters.cleanup.reaper import open_journal, reap
from pytest_nfvperf.adapters.generators.embedded import build
from pytest_nfvperf.adapters.guest.kernel_image import Kernel, prepare_kernel
from pytest_nfvperf.adapters.host.virtual_clock import is_virtual
from pytest_nfvperf.adapters.journal.journal import Journal
from pytest_nfvperf.adapters.virtual_time.guest_run import SHARED, run_in_guest
from pytest_nfvperf.adapters.virtual_time.machine import COUNTING, Shared
from pytest_nfvperf.model.errors import ConfigError, NfvperfError, TestbedError
from pytest_nfvperf.model.evidence.conclusion import EXIT_STATUS, RunFate
from pytest_nfvperf.plugin.options import read_options
from pytest_nfvperf.plugin.report_later import NOTE, write_noted

DEADLINE_S = 7200.0
"""Of the host. The guest is emulated: some ten times slower than this machine."""

_PASSED_ON = ("HOME", "LANG", "XDG_CACHE_HOME", "PYTHONPATH", "PYTEST_ADDOPTS", "PYTEST_PLUGINS", "COLUMNS")
_NOT_LOADED = ("-p", "no:cacheprovider")
_HYPOTHESIS = ("-p", "no:hypothesispytest")
"""At the end of every run this plugin imports all of hypothesis, which takes the guest 40 s. Tests do without it."""

_REPORT_NOTE = "report"
_NOT_THERE = (
    ("--nfv-testbed", "nfv_testbed", "the testbed is the guest's own: a private OVS without DPDK"),
    ("--nfv-record", "nfv_record", "its generator has no conversation to record"),
    ("--nfv-resume", "nfv_resume", "what was counted in another guest is counted anew"),
    ("--nfv-plan", "nfv_plan", "a plan tells how long trials take by the clock"),
    ("-n", "numprocesses", "instructions are counted on one CPU, by one process"),
)


def run_inside(config: pytest.Config) -> int | None:
    """Run it in a guest; None in one, and where nothing is measured: there pytest goes on.

    Raises:
        pytest.UsageError: an option that has no meaning in virtual time, or what a guest needs is not here.
    """
    if is_virtual() or config.option.collectonly or config.option.help or config.option.version:
        return None
    for option, name, why in _NOT_THERE:
        if config.getoption(name, None):
            raise pytest.UsageError(f"{option} cannot be combined with --nfv-virtual-time: {why}; leave it out")
    if os.geteuid() != 0:
        raise pytest.UsageError("--nfv-virtual-time needs root: the guest reads this machine's files as they are")
    try:
        return _run(config)
    except ConfigError as error:
        raise pytest.UsageError(f"--nfv-virtual-time: {error}") from error
    except NfvperfError as error:
        print(f"nfvperf: no run in virtual time: {error}", file=sys.stderr)
        return EXIT_STATUS[RunFate.BROKEN]
    except KeyboardInterrupt:
        print("nfvperf: interrupted; the guest was ended with its run", file=sys.stderr)
        return EXIT_STATUS[RunFate.INTERRUPTED]


def _run(config: pytest.Config) -> int:
    reap()
    kernel = prepare_kernel()
    _build_generator()
    print(f"virtual time: a guest with Linux {kernel.release} runs the tests", flush=True)
    journal = open_journal()
    try:
        return _in_guest(config, journal, kernel)
    finally:
        journal.close()


def _build_generator() -> None:
    """For the guest's CPU, and here: the emulated one would take minutes. Only the datapath dpdk needs it."""
    try:
        build.build(portable=True)
    except TestbedError as error:
        print(f"virtual time: without the datapath dpdk: {error}", file=sys.stderr, flush=True)


def _in_guest(config: pytest.Config, journal: Journal, kernel: Kernel) -> int:
    folders = tuple(dict.fromkeys(_written(config)))
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=journal.directory) as shared:
        guest = run_in_guest(
            journal,
            kernel,
            _command(config),
            Shared(Path(shared), folders),
            machine=COUNTING,
            deadline_s=DEADLINE_S,
            stream=sys.stdout,
        )
        write_noted(Path(shared) / _REPORT_NOTE, config.rootpath)
    return guest.status


def _command(config: pytest.Config) -> list[str]:
    """The same pytest with the same arguments, in the same directory, by this Python."""
    kept = [f"{name}={os.environ[name]}" for name in _PASSED_ON if name in os.environ]
    kept.append(f"{NOTE}={SHARED / _REPORT_NOTE}")
    where = ["env", "-C", str(config.invocation_params.dir), "PYTHONUNBUFFERED=1", *kept]
    given = [str(argument) for argument in config.invocation_params.args]
    without = [*_NOT_LOADED, *(() if any(each.startswith("--hypothesis") for each in given) else _HYPOTHESIS)]
    return [*where, sys.executable, "-m", "pytest", *without, *given]


def _written(config: pytest.Config) -> Iterator[Path]:
    """Folders that the run writes to."""
    base = config.invocation_params.dir
    yield read_options(config)[0].results
    if junit := config.getoption("xmlpath", None):
        yield (base / junit).parent
    if allure := config.getoption("--alluredir", None):
        yield base / allure
