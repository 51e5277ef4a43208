"""The public names, as the stubs of the package list them; ``python -m tests.public_names`` writes the page on them."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
NAMESPACES = ("nfv", "nfv.parts", "nfv.results", "nfv.extend", "nfv.events", "nfv.testing")
PAGE = next((ROOT / "docs").rglob("api.md"))
_LISTED = re.compile(r"^## nfv\b.*\Z", re.MULTILINE | re.DOTALL)
_IMPORT = re.compile(r"^from \.([\w.]+) import (\w+) as \2$")


@dataclass(frozen=True)
class PublicName:
    """``heading``: the comment that it stands below. ``module``: the one that has it."""

    namespace: str
    heading: str
    name: str
    module: str


def package_of(namespace: str) -> str:
    return "pytest_nfvperf" + namespace.removeprefix("nfv")


def public_names() -> Iterator[PublicName]:
    """All of them, in the order of the stubs."""
    for namespace in NAMESPACES:
        stub = ROOT / "pytest_nfvperf" / f"{namespace.removeprefix('nfv').lstrip('.') or '__init__'}.pyi"
        heading = ""
        for line in stub.read_text(encoding="utf-8").splitlines():
            if line.startswith("# "):
                heading = line.removeprefix("# ")
            elif found := _IMPORT.match(line):
                yield PublicName(namespace, heading, found[2], f"pytest_nfvperf.{found[1]}")


def first_line(public: PublicName) -> str:
    """Of the docstring; of a constant, the first line of the string below it."""
    module = importlib.import_module(public.module)
    body = ast.parse(Path(module.__file__ or "").read_text(encoding="utf-8")).body
    for node, after in zip(body, [*body[1:], None], strict=True):
        match node:
            case ast.FunctionDef(name=public.name) | ast.ClassDef(name=public.name):
                return (ast.get_docstring(node) or "").partition("\n")[0]
            case ast.Assign(targets=[ast.Name(id=public.name)]) | ast.AnnAssign(target=ast.Name(id=public.name)):
                match after:
                    case ast.Expr(value=ast.Constant(value=str(text))):
                        return text.partition("\n")[0]
    return ""


def as_markdown(text: str) -> str:
    return text.replace("``", "`")


def about(namespace: str) -> str:
    """The docstring of a namespace; of the package, what follows its first line is for readers of its source."""
    text = (importlib.import_module(package_of(namespace)).__doc__ or "").strip()
    return as_markdown(text.partition("\n")[0] if namespace == "nfv" else text)


def lists() -> str:
    """A section for each namespace, and a list for each heading. Parts have theirs on the page of suites' words."""
    text, below = "", ("", "")
    for public in public_names():
        listed = public.namespace != "nfv.parts"
        if public.namespace != below[0]:
            text += f"\n## {public.namespace}\n\n{about(public.namespace)}\n"
            text += "" if listed else "[Each with an example](suite-words.md#parts-of-topologies).\n"
        if listed and (public.namespace, public.heading) != below:
            text += f"\n**{public.heading}**\n\n"
        if listed:
            text += f"- `{public.name}`: {as_markdown(first_line(public))}\n"
        below = (public.namespace, public.heading)
    return text.lstrip("\n")


def page(now: str) -> str:
    """The page with the lists of today in place of those that it has."""
    return _LISTED.sub(lambda _: lists(), now)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
