"""How files and symbols are named in what the person reads."""

from __future__ import annotations


def markdown_rules() -> str:
    return """\
MARKDOWN RULES

Your text is read as Markdown. Whenever you mention a file, or something defined in one, make it \
a link with the path relative to the workspace: [`src/app.py`](src/app.py) for a file, \
[`parse()`](src/app.py:42) for a function, class or other symbol, always with its line. This \
holds for your messages and for the result that you give to attempt_completion, not for the \
contents of files."""
