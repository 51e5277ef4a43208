"""Hooks of the site's build (mkdocs.yml): what the site has beside the pages of docs/.

Pages link files of the repository by relative paths, so that they read well there. The site gets a copy of each.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

_ROOT = Path(__file__).parents[1]
OUTSIDE_DOCS = ("CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", "reports/schema/")
"""Files and folders outside of docs/ that pages may link."""

_LINK = re.compile(r"(\]\()(?!https?:|mailto:|#)([^)#\s]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Add what stands beside docs/, at the place that it has in the repository."""
    for path in (file for name in OUTSIDE_DOCS for file in sorted(_files_of(_ROOT / name))):
        files.append(File.generated(config, str(path.relative_to(_ROOT)), abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:  # noqa: ARG001 - as mkdocs calls it
    """Lead links as they are in the repository to where the site has the file."""
    outside = page.file.src_uri in OUTSIDE_DOCS
    source = Path(page.file.src_uri if outside else f"docs/{page.file.src_uri}")

    def as_on_the_site(match: re.Match[str]) -> str:
        target = os.path.normpath(source.parent / match[2])
        if target == "README.md":
            target = "docs/index.md"
        if not outside and not target.startswith(tuple(OUTSIDE_DOCS)):
            return match[0]  # a link from page to page, as mkdocs knows it
        relative = os.path.relpath(target.removeprefix("docs/"), Path(page.file.src_uri).parent)
        return f"{match[1]}{relative}{match[3] or ''})"

    return _LINK.sub(as_on_the_site, markdown)


def _files_of(path: Path) -> list[Path]:
    return [found for found in path.rglob("*") if found.is_file()] if path.is_dir() else [path]
