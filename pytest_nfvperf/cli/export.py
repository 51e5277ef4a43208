"""``nfvperf export``: evidence as flat tables, for other programs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_nfvperf.cli.command import Command, path_like

if TYPE_CHECKING:
    from pytest_nfvperf.cli.command import Commands


def _add_parser(commands: Commands) -> None:
    text = "evidence as flat tables: trials, outcomes, figures, verdicts"
    parser = commands.add_parser("export", help=text, description=text)
    parser.add_argument("runs", type=path_like, nargs="*", default=[Path("reports/latest")], metavar="DIR")
    parser.add_argument(
        "--format", choices=("csv", "parquet", "openmetrics"), default="csv", help="default: %(default)s"
    )
    parser.add_argument("--output", type=path_like, default=Path("reports/export"), help="default: %(default)s")
    parser.set_defaults(command=_export)


EXPORT = Command(_add_parser)


def _export(arguments: argparse.Namespace) -> int:
    from pytest_nfvperf.adapters.evidence.export import (  # noqa: PLC0415
        export,
        export_openmetrics,
    )
    from pytest_nfvperf.adapters.evidence.reader import read_run  # noqa: PLC0415

    runs = [read_run(path.resolve()) for path in arguments.runs]
    if arguments.format == "openmetrics":
        print(export_openmetrics(runs, arguments.output))
        return 0
    for path in export(runs, arguments.output, parquet=arguments.format == "parquet"):
        print(path)
    return 0
