"""How clients are pointed at the proxy: variables, flags and settings of each."""

from __future__ import annotations

from collections.abc import Mapping

ANTHROPIC_URL_VARIABLE = "ANTHROPIC_BASE_URL"
OPENAI_URL_VARIABLE = "OPENAI_BASE_URL"
_INSTRUCTIONS: Mapping[str, str] = {
    "claude": "ANTHROPIC_BASE_URL={url} claude",
    "codex": (
        'codex -c model_provider=joey -c \'model_providers.joey={{name="joey",'
        ' base_url="{url}/v1", wire_api="responses", env_key="OPENAI_API_KEY"}}\''
    ),
    "opencode": (
        "# opencode.json of the project, or ~/.config/opencode/opencode.json:\n"
        '{{"provider": {{"anthropic": {{"options": {{"baseURL": "{url}/v1"}}}},'
        ' "openai": {{"options": {{"baseURL": "{url}/v1"}}}}}}}}'
    ),
    "qwen": "OPENAI_BASE_URL={url}/v1 qwen",
    "pi": (
        "# ~/.pi/agent/models.json:\n"
        '{{"providers": {{"anthropic": {{"baseUrl": "{url}"}},'
        ' "openai": {{"baseUrl": "{url}/v1"}}}}}}'
    ),
    "cline": "# Settings > API Provider > Use custom base URL:\n{url}",
    "roo": "# Settings > Providers > Use custom base URL:\n{url}",
    "aider": "ANTHROPIC_API_BASE={url} OPENAI_API_BASE={url}/v1 aider",
    "joey": (
        "# Without a proxy: joey --record. Where the profile has no address of its own:\n"
        "ANTHROPIC_BASE_URL={url} OPENAI_BASE_URL={url}/v1 joey"
    ),
}


def describe_client_setup(client: str, url: str) -> str:
    """Describe a command line, or a file and the text for it."""
    return _INSTRUCTIONS[client].format(url=url)


def build_client_variables(url: str) -> dict[str, str]:
    """Build the variables of a program that is started for a recording."""
    return {ANTHROPIC_URL_VARIABLE: url, OPENAI_URL_VARIABLE: f"{url}/v1"}
