"""What joey says of itself when an editor connects."""

from __future__ import annotations

from acp.schema import (
    AgentCapabilities,
    AuthMethodAgent,
    ClientCapabilities,
    EnvVarAuthMethod,
    Implementation,
    McpCapabilities,
    PromptCapabilities,
    SessionCapabilities,
    SessionCloseCapabilities,
    SessionForkCapabilities,
    SessionListCapabilities,
    SessionResumeCapabilities,
    TerminalAuthMethod,
)

from joey import __version__

AuthMethods = list[EnvVarAuthMethod | TerminalAuthMethod | AuthMethodAgent]


def introduction() -> Implementation:
    return Implementation(name="joey", title="joey", version=__version__)


def capabilities() -> AgentCapabilities:
    return AgentCapabilities(
        load_session=True,
        prompt_capabilities=PromptCapabilities(image=True, embedded_context=True, audio=False),
        mcp_capabilities=McpCapabilities(http=True, sse=True),
        session_capabilities=SessionCapabilities(
            list=SessionListCapabilities(),
            resume=SessionResumeCapabilities(),
            close=SessionCloseCapabilities(),
            fork=SessionForkCapabilities(),
        ),
    )


def auth_methods(can: ClientCapabilities, missing: str | None) -> AuthMethods:
    """How a key comes to joey, when none is found: `missing` says so in words."""
    if missing is None:
        return []
    methods: AuthMethods = [
        AuthMethodAgent(
            id="environment",
            name="Set a key in the environment of joey",
            description=missing,
        )
    ]
    if can.auth is not None and can.auth.terminal:
        methods.insert(
            0,
            TerminalAuthMethod(
                type="terminal",
                id="terminal",
                name="Set up joey in a terminal",
                description="joey asks which model to use, and for its key.",
                args=["--setup"],
            ),
        )
    return methods
