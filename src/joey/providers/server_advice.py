"""Advice about local model servers: how to start one, and how to give its model a larger window."""

from __future__ import annotations

import shlex

from joey.providers.catalog import find_provider_spec

ADVISED_WINDOW = 32_768
SMALLEST_WINDOW = 8_192
"""In which joey works, with a short prompt and few tools."""
_WINDOW_ADVICE = {
    "ollama": "{set_window}, or {use_other}",
    "lmstudio": "reload it with `lms unload {model} && lms load {model} --context-length {window}`,"
    " or set its context length in the app",
    "llamacpp": "restart it with `llama-server -c {window}`",
    "vllm": "restart it with `vllm serve {model} --max-model-len {window}`",
}
_USE_OTHER_MODEL = "use a model with a larger window"
_NEW_PROFILE_NAME = "local"
SERVER_KINDS = tuple(_WINDOW_ADVICE)
_MEMORY_ADVICE = {
    "ollama": "stop other models (`ollama ps` lists them), use a smaller one, or {set_window}",
    "lmstudio": "unload other models (`lms ps` lists them), use a smaller one, or reload it with"
    " `lms unload {model} && lms load {model} --context-length {window}`",
    "llamacpp": "use a smaller model, or restart it with `llama-server -c {window}`",
    "vllm": "use a smaller model, or restart it with `vllm serve {model} --max-model-len {window}`",
}
_START_COMMANDS = {
    "ollama": "ollama serve",
    "lmstudio": "lms server start",
    "llamacpp": "llama-server -m {model}.gguf -c {window}",
    "vllm": "vllm serve {model}",
}


OLLAMA_RESTART_ADVICE = f"restart it with `OLLAMA_CONTEXT_LENGTH={ADVISED_WINDOW} ollama serve`"
"""For requests that cannot say how large the window must be."""


def get_window_advice(
    kind: str,
    model: str,
    profile: str = "",
    base_url: str = "",
    *,
    window: int = 0,
    largest: int | None = None,
) -> str:
    """Advise how to get more than `window`; empty for an unknown server. `profile` is empty if
    flags and variables were used instead. `largest` is the model's maximum, if known."""
    if kind in _WINDOW_ADVICE and largest is not None and largest <= window:
        return _USE_OTHER_MODEL
    advised = min(ADVISED_WINDOW, largest or ADVISED_WINDOW)
    return _WINDOW_ADVICE.get(kind, "").format(
        model=model,
        window=advised,
        set_window=_format_set_window(kind, model, profile, base_url, advised),
        use_other=_USE_OTHER_MODEL,
    )


def get_memory_advice(kind: str, model: str, profile: str = "", base_url: str = "") -> str:
    """Advise how to use less memory."""
    set_window = _format_set_window(kind, model, profile, base_url, SMALLEST_WINDOW)
    advice = _MEMORY_ADVICE.get(kind, "use a smaller model")
    return advice.format(model=model, window=SMALLEST_WINDOW, set_window=set_window)


def _format_set_window(kind: str, model: str, profile: str, base_url: str, window: int) -> str:
    name = profile or _NEW_PROFILE_NAME
    command = shlex.join(("joey", "profiles", "set", name, "contextWindow", str(window)))
    if profile:
        return f"run `{command}`"
    is_usual = not base_url or base_url == find_provider_spec(kind or "ollama").base_url
    address = () if is_usual else ("--base-url", base_url)
    flags = ("--provider", kind, "-m", model, *address, "--no-key", "--use")
    return f"run `{shlex.join(('joey', 'profiles', 'add', name, *flags))}` and `{command}`"


def describe_not_running(kind: str, address: str, model: str) -> str:
    """Advise what to start if a connection to `address` (`host:port`) was refused."""
    command = _START_COMMANDS[kind].format(
        model=(model or "MODEL").removesuffix(".gguf"), window=ADVISED_WINDOW
    )
    port = address.rpartition(":")[2]
    if f":{port}/" not in find_provider_spec(kind).base_url:
        is_ollama = kind == "ollama"
        command = f"OLLAMA_HOST={address} {command}" if is_ollama else f"{command} --port {port}"
    app = ", or in the app under Developer" if kind == "lmstudio" else ""
    return f"{kind} is not running at {address}. Start it with `{command}`{app}."
