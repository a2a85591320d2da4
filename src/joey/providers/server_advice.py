"""Advice about local model servers: how to start one, and how to give its model a larger window."""

from __future__ import annotations

from joey.providers.catalog import find_provider_spec

ADVISED_WINDOW = 32_768
_WINDOW_ADVICE = {
    "ollama": "set `contextWindow` of the profile to {window}, or use a model with a larger window",
    "lmstudio": "reload it with `lms unload {model} && lms load {model} --context-length {window}`,"
    " or set its context length in the app",
    "llamacpp": "restart it with `llama-server -c {window}`",
    "vllm": "restart it with `vllm serve {model} --max-model-len {window}`",
}
SERVER_KINDS = tuple(_WINDOW_ADVICE)
_START_COMMANDS = {
    "ollama": "ollama serve",
    "lmstudio": "lms server start",
    "llamacpp": "llama-server -m {model}.gguf -c {window}",
    "vllm": "vllm serve {model}",
}


OLLAMA_RESTART_ADVICE = f"restart it with `OLLAMA_CONTEXT_LENGTH={ADVISED_WINDOW} ollama serve`"
"""For requests that cannot say how large the window must be."""


def get_window_advice(kind: str, model: str) -> str:
    """How to get a larger window; empty for a server of an unknown kind."""
    return _WINDOW_ADVICE.get(kind, "").format(model=model, window=ADVISED_WINDOW)


def describe_not_running(kind: str, address: str, model: str) -> str:
    """What to start where a connection to `address` (`host:port`) was refused."""
    command = _START_COMMANDS[kind].format(
        model=(model or "MODEL").removesuffix(".gguf"), window=ADVISED_WINDOW
    )
    port = address.rpartition(":")[2]
    if f":{port}/" not in find_provider_spec(kind).base_url:
        is_ollama = kind == "ollama"
        command = f"OLLAMA_HOST={address} {command}" if is_ollama else f"{command} --port {port}"
    app = ", or in the app under Developer" if kind == "lmstudio" else ""
    return f"{kind} is not running at {address}. Start it with `{command}`{app}."
