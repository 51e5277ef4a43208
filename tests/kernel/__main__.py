"""``python -m tests.kernel [--release R] [--virtual-time] [--shared DIR] -- COMMAND...``: in a guest, by hand."""

from __future__ import annotations

import argparse
import dataclasses
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from pytest_nfvperf.adapters.machine.reaper import open_journal
from pytest_nfvperf.adapters.vnf.guest_kernel import prepare_kernel
from pytest_nfvperf.features.virtual_time.guest_run import SHARED, VIRTUAL_TIME, GuestMachine, run_in_guest
from pytest_nfvperf.model.errors import NfvperfError
from tests.kernel.other_kernels import kernel_of


def main(argv: Sequence[str] | None = None) -> int:
    """Run it; the exit status is the command's, or 125 when there was no guest."""
    options = _parse(argv)
    machine = _machine(options)
    journal = open_journal()
    try:
        kernel = prepare_kernel() if options.release is None else kernel_of(options.release)
        with tempfile.TemporaryDirectory(dir=journal.directory) as own:
            run = run_in_guest(
                journal,
                kernel,
                options.command,
                options.shared or Path(own),
                machine=machine,
                deadline_s=options.deadline,
                stream=sys.stdout,
            )
        took = f"boot {run.boot_s:.1f} s, in all {run.elapsed_s:.1f} s"
        print(f"guest: Linux {kernel.release}, {run.time}, {took}, status {run.status}", file=sys.stderr)
    except NfvperfError as error:
        print(f"guest: {error}", file=sys.stderr)
        return 125
    else:
        return run.status
    finally:
        journal.close()


def _machine(options: argparse.Namespace) -> GuestMachine:
    machine = VIRTUAL_TIME if options.virtual_time else GuestMachine()
    asked = {"memory_mib": options.memory, "hugepages_mib": options.hugepages, "modules": options.modules}
    given = {name: value for name, value in asked.items() if value is not None}
    return dataclasses.replace(machine, autoload=options.modules is None, **given)


def _names(text: str) -> tuple[str, ...]:
    return tuple(filter(None, text.split(",")))


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.kernel", description="Run a command in a guest.")
    parser.add_argument("--virtual-time", action="store_true", help="time is a count of instructions; 1 CPU")
    parser.add_argument("--shared", type=Path, metavar="DIR", help=f"a folder that the guest sees as {SHARED}")
    parser.add_argument("--release", metavar="R", help="boot the kernel of this Debian, as trixie")
    parser.add_argument("--modules", type=_names, metavar="A,B", help="kernel modules to load: these, and no others")
    parser.add_argument("--memory", type=int, metavar="MIB", help="of the guest")
    parser.add_argument("--hugepages", type=int, metavar="MIB", help="of its memory")
    parser.add_argument("--deadline", type=float, default=120.0, metavar="S", help="seconds it may take")
    parser.add_argument("command", nargs="+", help="an argument list, after --")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
