"""What the user, the mode and files add to all of the above."""

from __future__ import annotations

from collections.abc import Iterator

from joey.core.customs import Instructions, RuleFile
from joey.core.regex import regex

_INTRODUCTION = (
    "These come from the user, the mode and the project. Follow them wherever they do not"
    " contradict the rules of tool use; where they contradict other guidance above, they win."
)
_TICKS = regex("`{3,}")

LANGUAGES = {
    "ca": "Català",
    "de": "Deutsch",
    "en": "English",
    "es": "Español",
    "fr": "Français",
    "hi": "हिन्दी",
    "id": "Bahasa Indonesia",
    "it": "Italiano",
    "ja": "日本語",
    "ko": "한국어",
    "nl": "Nederlands",
    "pl": "Polski",
    "pt-BR": "Português",
    "ru": "Русский",
    "tr": "Türkçe",
    "vi": "Tiếng Việt",
    "zh-CN": "简体中文",
    "zh-TW": "繁體中文",
}


def custom_instructions(everywhere: str, in_mode: str, language: str, files: Instructions) -> str:
    parts = [
        f"{title}:\n{text.strip()}"
        for title, text in (
            ("Language Preference", _language(language.strip())),
            ("Global Instructions", everywhere),
            ("Mode-specific Instructions", in_mode),
        )
        if text.strip()
    ]
    if rules := list(_rules(files)):
        parts.append("\n\n".join(["Rules:", *rules]))
    if not parts:
        return ""
    return "\n\n".join(["USER'S CUSTOM INSTRUCTIONS", _INTRODUCTION, *parts])


def _language(code: str) -> str:
    if not code:
        return ""
    name = LANGUAGES.get(code)
    spoken = f"{name} ({code})" if name else code
    return f"Think and speak in {spoken}, unless the user asks for another language."


def _rules(files: Instructions) -> Iterator[str]:
    yield from map(_rule_file, files.mode_rules)
    if files.ignored.strip():
        yield _hidden(files.ignored.strip())
    yield from map(_rule_file, files.agents)
    yield from map(_rule_file, files.rules)


def _rule_file(file: RuleFile) -> str:
    return f"# Rules from {file.label}:\n{file.text}"


def _hidden(patterns: str) -> str:
    # A line of backticks among the patterns must not end the block that they stand in.
    fence = max(["```", *(f"{ticks}`" for ticks in _TICKS.findall(patterns))], key=len)
    return (
        "# .rooignore\n"
        "The project keeps some files from you. Whatever these patterns (in the syntax of"
        " .gitignore) name is left out of listings and searches, and calls that use it fail. Do"
        " not try to reach it in another way; where you cannot do without it, ask the user.\n\n"
        f"{fence}\n{patterns}\n{fence}"
    )
