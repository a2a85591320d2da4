"""The build hook of joey's packages, which puts the built web page into them.

From a clone it builds the page with Node. A source distribution carries the built page, so that
installing it needs no Node. Without Node, or when npm fails, the package has no page, and
`joey serve` says how to build it.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

BUILT_PAGE = Path("src/joey/server/web/index.html")
BUILD_TIMEOUT_S = 600


class PageBuildHook(BuildHookInterface[Any]):
    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        is_source_distribution = (root / "PKG-INFO").is_file()
        if version == "editable" or is_source_distribution or is_page_current(root):
            return
        problem = build_page(root)
        if problem:
            has_page = (root / BUILT_PAGE).is_file()
            result = "is an older one" if has_page else "is missing"
            self.app.display_warning(f"The web page in this package {result}: {problem}")


def is_page_current(root: Path) -> bool:
    page = root / BUILT_PAGE
    if not page.is_file():
        return False
    web = root / "web"
    inputs = [*web.glob("*.*"), *(web / "src").rglob("*")]
    return all(path.stat().st_mtime <= page.stat().st_mtime for path in inputs)


def build_page(root: Path) -> str:
    """Build the page. Returns what went wrong, or an empty string."""
    npm = shutil.which("npm")
    if npm is None:
        return "npm was not found. Install Node.js 20 or newer."
    for command in (("install", "--no-save", "--silent"), ("run", "--silent", "build")):
        try:
            subprocess.run(
                [npm, *command],
                cwd=root / "web",
                check=True,
                timeout=BUILD_TIMEOUT_S,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
        except subprocess.CalledProcessError as error:
            output = error.stdout.decode(errors="replace").strip()
            return f"`npm {' '.join(command)}` failed. {output[-1000:]}"
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"`npm {' '.join(command)}` failed. {error}"
    return ""
