"""The parts of pages that list what the program itself says: options, ini keys, markers, commands, words of a suite.

``python -m tools.reference_pages`` writes them between their markers; ``--check`` only says which pages differ.
A test holds page and program together (tests/unit/test_docs_reference.py).
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from _pytest.config.argparsing import Argument, Parser

from pytest_nfvperf.cli.main import _parser as command_parser
from pytest_nfvperf.config.units import BY_UNIT
from pytest_nfvperf.model.metrics import METRICS, Metric
from pytest_nfvperf.plugin import hooks
from tools import suite_words

ROOT = Path(__file__).parents[1]
_PAGES = ROOT / "docs" / "reference"
_LISTED = ("help", "version")


def options_table() -> str:
    """Every ``--nfv-*`` option: what it takes, its default, and its help."""
    rows = [_option_row(option) for option in _plugin_parser().getgroup("nfvperf").options]
    return _table(("option", "value", "default", "what it does"), rows)


def ini_table() -> str:
    """Every key of pytest's ini file that the plugin adds."""
    ini = _plugin_parser()._inidict
    rows = [(f"`{key}`", str(kind), _cell(text)) for key, (text, kind, _) in sorted(ini.items()) if key[:4] == "nfv_"]
    return _table(("key", "type", "what it does"), rows)


def commands_text() -> str:
    """Every command of ``nfvperf`` with its arguments."""
    return "\n\n".join(_command_text(parser) for parser in _leaves(command_parser()))


def metrics_table() -> str:
    """Every metric that a rule can be about: what it is, and a limit. Those of one meaning and limit share a row."""
    rows = []
    for (meaning, limits), alike in groupby(METRICS.items(), lambda item: (item[1].meaning, _limits_of(item[1]))):
        names, metrics = zip(*alike, strict=True)
        title = metrics[0].title if len(names) == 1 else metrics[0].title.partition(", ")[0]
        told = set(re.findall(r"\w+", title)) <= set(re.findall(r"\w+", meaning))
        text = meaning if told else f"{title}: {meaning}"
        rows.append((", ".join(f"`{name}`" for name in names), _cell(text), limits))
    return _table(("metric", "what it is", "limit"), rows)


def _limits_of(metric: Metric) -> str:
    also = [BY_UNIT[unit].noun.removeprefix("a ") if unit in BY_UNIT else "% of line rate" for unit in metric.also]
    also += ["may be negative"] if metric.signed else []
    also += [f"`at` {metric.at}"] if metric.at else []
    return f"`{metric.example}`" + (f" ({', '.join(also)})" if also else "")


def _plugin_parser() -> Parser:
    """Pytest's own parser, with what the plugin adds to it."""
    parser = Parser(_ispytest=True)
    hooks.pytest_addoption(parser)
    return parser


def _option_row(option: Argument) -> tuple[str, ...]:
    attributes = option.attrs()
    shown = (f"`{option.names()[0]}`", _value(attributes.get("metavar") or ""))
    default = attributes.get("default")
    text = str(attributes.get("help", "")).replace("%(default)s", str(default)).replace("%%", "%")
    stated = re.search(r" \(default: (.+)\)$", text)
    if stated is not None:  # the help says it in words, or as the value itself
        return *shown, _cell(stated[1]), _cell(text.removesuffix(stated[0]))
    return *shown, "", _cell(text)


def _value(metavar: str) -> str:
    """What an option takes: each of its choices, or the name of its value."""
    choices = metavar[1:-1].split(",") if metavar.startswith("{") else [metavar]
    return ", ".join(f"`{each}`" for each in choices) if metavar else ""


def _leaves(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """The commands, and the commands below them, in the order of ``--help``."""
    below = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not below:
        yield parser
    for action in below:
        for child in action.choices.values():
            yield from _leaves(child)


def _command_text(parser: argparse.ArgumentParser) -> str:
    actions = [action for action in parser._actions if action.dest not in _LISTED]
    usage = parser.usage or " ".join([parser.prog, *_synopsis(actions)])
    lines = [f"## {parser.prog}", "", _sentence(parser.description or ""), "", "```text", _dedented(usage), "```"]
    if actions:
        lines += ["", *(f"- {_argument(action)}: {_help_of(action)}" for action in actions)]
    return "\n".join(lines)


def _synopsis(actions: list[argparse.Action]) -> list[str]:
    optional = ["[OPTIONS]"] if any(action.option_strings and not action.required for action in actions) else []
    required = [f"{action.option_strings[0]} {_metavar(action)}" for action in actions if _is_required(action)]
    return [*optional, *required, *(_positional(action) for action in actions if not action.option_strings)]


def _is_required(action: argparse.Action) -> bool:
    return bool(action.option_strings) and action.required


def _positional(action: argparse.Action) -> str:
    name = _metavar(action)
    return {"?": f"[{name}]", "*": f"[{name} ...]", "+": f"{name} [{name} ...]", "...": f"[{name} ...]"}.get(
        str(action.nargs), name
    )


def _metavar(action: argparse.Action) -> str:
    if action.choices is not None and action.metavar is None:
        return "{" + ",".join(map(str, action.choices)) + "}"
    return str(action.metavar or action.dest.upper())


def _argument(action: argparse.Action) -> str:
    if not action.option_strings:
        return f"`{_metavar(action)}`"
    value = "" if action.nargs == 0 else f" {_metavar(action)}"
    return f"`{', '.join(action.option_strings)}{value}`"


def _help_of(action: argparse.Action) -> str:
    text = (action.help or "").replace("%(default)s", str(action.default)).replace("%%", "%")
    return _cell(text) or "required"


def _sentence(text: str) -> str:
    text = text.replace("%%", "%")
    return text if not text or text.endswith(".") else f"{text[0].upper()}{text[1:]}."


def _dedented(usage: str) -> str:
    """The further lines of a usage stand below its first one, as argparse prints them behind ``usage:``."""
    return "\n".join(line.strip() for line in usage.splitlines())


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(("|" + "|".join(line) + "|") if line[0] == "---" else f"| {' | '.join(line)} |" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|")


PARTS = {
    "options.md": {"options": options_table, "ini keys": ini_table},
    "commands.md": {"commands": commands_text},
    "sla-language.md": {"metrics": metrics_table},
    "suite-words.md": {
        "traffic": suite_words.traffic_table,
        "parts": suite_words.parts_table,
        "measurements": suite_words.measurements_table,
    },
}
"""By page, what each pair of markers has between it."""


def generated(page: str, text: str) -> str:
    """The page's text, with its generated parts made anew."""
    for name, make in PARTS[page].items():
        begin, end = f"<!-- generated: {name} -->\n", f"<!-- end: {name} -->"
        if text.count(begin) != 1 or text.count(end) != 1:
            raise ValueError(f"{page} needs the markers {begin.strip()} and {end} once each")
        before, after = text[: text.index(begin)], text[text.index(end) + len(end) :]
        text = f"{before}{begin}\n{make()}\n\n{end}{after}"
    return text


def main(arguments: list[str]) -> int:
    """Write the pages, or say which are not up to date."""
    stale = []
    for name in PARTS:
        path = _PAGES / name
        text = path.read_text(encoding="utf-8")
        if (new := generated(name, text)) != text:
            stale.append(str(path.relative_to(ROOT)))
            if "--check" not in arguments:
                path.write_text(new, encoding="utf-8")
    if stale and "--check" in arguments:
        print(f"not what the program says: {', '.join(stale)}; write them by python -m tools.reference_pages")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
