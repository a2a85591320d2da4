"""Advice about unsupported provider names, mainly those of Roo Code."""

from __future__ import annotations

from collections.abc import Iterable

_REPLACEMENTS = {
    "gemini-cli": "Use `gemini` with GEMINI_API_KEY: the login of the Gemini CLI is not used here.",
    "openai-codex": "Use `openai` with OPENAI_API_KEY: the login of ChatGPT is not used here.",
    "qwen-code": "Use `qwen` with DASHSCOPE_API_KEY: the login of Qwen Code is not used here.",
    "claude-code": "Use `anthropic` with ANTHROPIC_API_KEY: Claude Code is not used here.",
    "vscode-lm": "Models of the editor can only be used in it. Choose a provider with a key, or a"
    " local server such as `ollama`.",
    "fake-ai": "It only exists in tests of Roo Code. To try joey without a model, run `joey demo`.",
}


def explain_unknown_provider(name: str, known: Iterable[str]) -> str:
    if advice := _REPLACEMENTS.get(name.strip().lower()):
        return f"There is no provider named {name!r}. {advice}"
    return (
        f"There is no provider named {name!r}. Choose one of: {', '.join(known)}. For another"
        " service that speaks OpenAI's protocol, choose openai and set the base URL."
    )
