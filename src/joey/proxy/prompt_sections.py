"""Sections of a system prompt, and the fingerprint of a client based on them.

Prompts of Roo Code and its relatives separate sections with lines of `====`; others have Markdown
headings.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import sha256
from itertools import accumulate, pairwise

from msgspec import Struct

from joey.core.text import compile_regex

_RULE_RE = compile_regex(r"^====[ \t]*$", re.MULTILINE)
"""Headings of four characters only: longer ones separate the parts of edits in examples."""
_LEVEL_ONE_RE = compile_regex(r"^# +(\S.*)$", re.MULTILINE)
_FENCE_RE = compile_regex(r"^(```|~~~).*?^\1[ \t]*$", re.MULTILINE | re.DOTALL)


class PromptSection(Struct, frozen=True):
    heading: str
    """Empty for the text before the first heading."""
    text: str
    bytes: int


def split_sections(texts: Sequence[str]) -> list[PromptSection]:
    """Split a prompt, given as these texts, into top-level sections in order. Each byte of the
    texts is in one of them."""
    prompt = "\n".join(texts)
    starts = [match.start() for match in _RULE_RE.finditer(prompt)]
    find_heading = _find_block_heading if starts else _find_level_one_heading
    if not starts:
        starts = [match.start() for match in _LEVEL_ONE_RE.finditer(_hide_fences(prompt))]
    places = [0, *(start for start in starts if prompt[:start].strip()), len(prompt)]
    joints = [end - 1 for end in accumulate(len(text) + 1 for text in texts)]
    sections = []
    for start, end in pairwise(places):
        text = prompt[start:end]
        size = len(text.encode("utf-8", "replace"))
        size -= sum(start <= joint < end for joint in joints)
        if text:
            sections.append(PromptSection(find_heading(text.lstrip()), text, size))
    return sections


def compute_fingerprint(texts: Sequence[str], tool_names: list[str]) -> str:
    """Compute a fingerprint that is the same for versions of one client, whose prompts differ in
    words but not in structure."""
    headings = [section.heading for section in split_sections(texts)]
    if not any(headings):
        headings = [" ".join(" ".join(texts).split()[:8])]
    content = "\n".join([*headings, "", *sorted(tool_names)])
    return sha256(content.encode("utf-8", "replace")).hexdigest()[:8]


def _find_block_heading(text: str) -> str:
    """Find the first line after the rule, if it is a heading: in capitals, or marked as one."""
    if _RULE_RE.match(text) is None:
        return ""
    lines = (line.strip() for line in text.splitlines()[1:])
    first = next((line for line in lines if line), "")
    is_heading = first.startswith("#") or (len(first) <= 80 and not first.endswith("."))
    return first.strip("#: ") if is_heading else ""


def _find_level_one_heading(text: str) -> str:
    heading = _LEVEL_ONE_RE.match(text)
    return heading[1].strip().rstrip("#").rstrip() if heading else ""


def _hide_fences(text: str) -> str:
    """Blank out fenced code, keeping offsets: `# …` is a comment there."""
    return _FENCE_RE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
