"""Refusals of tools, in the words of services."""

from __future__ import annotations

TOOL_REFUSALS = [
    (400, "registry.ollama.ai/library/gemma3:4b does not support tools"),
    (400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'),
    (400, "Function calling is not enabled for models/gemma-3-27b-it"),
    (
        404,
        "No endpoints found that support tool use. To learn more about provider routing, visit …",
    ),
    (500, "tools param requires --jinja flag"),
    (400, "deepseek-reasoner does not support Function Calling"),
    (400, "The model does not support tool use or function calling but tools were specified."),
    (400, "tools is not supported in this model. For a list of supported models, refer to …"),
    (400, "`tool calling` is not supported with this model"),
    (400, "<400> InternalError.Algo.InvalidParameter: The tool call is not supported."),
]
