"""The error hierarchy, by audience.

    JoeyError
    ├── ToolError                  the model: becomes the result of its call
    │   ├── ArgumentError          the call's arguments do not fit the tool
    │   ├── ToolErrorWithReply     the tool itself words the text that the model reads
    │   ├── IgnoredPathError       `.rooignore` hides the file from it
    │   ├── TargetNotFoundError    the object of a lookup does not exist
    │   └── DeniedError            a rule or a hook forbids the call (`core.permissions.reasons`)
    ├── UserError                  the user: printed as it is, never as a traceback
    │   ├── ConfigError            settings, profiles, keys (exit 78)
    │   │   ├── NoModelError       no key, no profile, or no model named: nothing was chosen yet
    │   │   └── UntrustedAddressError  a task folder names an address that the user has not
    │   ├── WorkspaceError         the workspace directory cannot be used
    │   ├── StoreError             task folders: missing, locked, unreadable, disk full
    │   │   ├── TaskNotFoundError
    │   │   ├── TaskLockedError
    │   │   └── TaskLostError
    │   ├── CondenseError          a conversation could not be condensed; it is unchanged
    │   └── ProviderError          the model's service; see `ProviderFailureKind` for the kinds
    ├── CheckpointError            files could not be saved or restored; reported, never fatal
    └── TaskStateError             the developer: the task's state forbids the operation

Foreign errors are translated once, where they enter joey, with ``raise ... from``.
"""

from __future__ import annotations

from enum import StrEnum


class JoeyError(Exception):
    """Base of all errors that joey raises on purpose."""


class ToolError(JoeyError):
    """A tool could not do what was asked; the text is written for the model to read."""

    is_informative = False
    """It tells the model what it wanted to know, so making the call was no mistake."""


class ArgumentError(ToolError):
    """The arguments of a call do not fit its tool."""

    def __init__(self, message: str, parameter: str | None = None) -> None:
        super().__init__(message)
        self.parameter = parameter
        """The required parameter that has no value, when that is what is wrong."""


class ToolErrorWithReply(ToolError):
    """A failure for which the tool has written the whole result."""

    def __init__(self, message: str, reply: str, *, is_informative: bool = False) -> None:
        super().__init__(message)
        self.reply = reply
        """What the model reads; `message` is for people."""
        self.is_informative = is_informative


class IgnoredPathError(ToolError):
    """The path is hidden from the model by `.rooignore`."""

    def __init__(self, path: str, reason: str = "") -> None:
        super().__init__(reason or f"{path} is hidden by .rooignore and cannot be used.")
        self.path = path
        self.reason = reason
        """Why every file is hidden, when no rule says so but the rules cannot be used."""


class TargetNotFoundError(ToolError):
    """The path or output that a call looks up does not exist."""

    is_informative = True


class NoServerError(ToolError):
    """Nothing listens at the address from which the browser should load a page."""


class CheckpointError(JoeyError):
    """The files of the workspace could not be saved, compared or restored."""


class UserError(JoeyError):
    """Something the user must know or decide; the text says what to do next."""


class ConfigError(UserError):
    """A setting, profile or key is missing or wrong."""

    def __init__(self, message: str, *, field: str = "", value: str = "") -> None:
        super().__init__(message)
        self.field = field
        """The argument or key that the caller gave a wrong value; empty if a file is wrong."""
        self.value = value


class NoModelError(ConfigError):
    """No model was chosen yet, as at the first start."""


class UntrustedAddressError(ConfigError):
    """A task directory names a model address that the user has not."""

    def __init__(self, provider: str, address: str) -> None:
        super().__init__(
            f"This task uses {address} (as {provider}). The address comes from the task directory"
            " and is not in any of your profiles, so nothing was sent there: neither the"
            f" conversation nor a key. If you trust it, add --base-url {address}; to use another"
            " model, add --profile or --provider."
        )
        self.provider = provider
        self.address = address


class WorkspaceError(UserError):
    """The workspace is missing, unreadable or not a directory."""


class StoreError(UserError):
    """A task directory could not be read or written."""


class TaskNotFoundError(StoreError):
    """No task has this id."""


class TaskLockedError(StoreError):
    """Another live process holds the task."""


class TaskLostError(StoreError):
    """Another process has taken over the task; nothing more may be written or run for it."""


class CondenseError(UserError):
    """A conversation could not be condensed. Nothing has changed."""


class ProviderFailureKind(StrEnum):
    """What kind of failure a provider reported; decides retry, wording and exit code."""

    AUTH = "auth"
    """401/403: the key is missing, wrong or not allowed."""
    NOT_FOUND = "not_found"
    """404: the model or the address does not exist."""
    INVALID_REQUEST = "invalid"
    """400/413/422: the request itself was refused."""
    CONTEXT_OVERFLOW = "overflow"
    """The conversation is longer than the model's window."""
    TOOLS_REFUSED = "tools"
    """The service does not take tools for this model; calls written as text would do."""
    OUT_OF_MEMORY = "memory"
    """A local server has too little memory for the model, or for its window."""
    QUOTA = "quota"
    """402 or an exhausted plan: waiting does not help."""
    RATE_LIMIT = "rate"
    """429: too many requests; waiting helps."""
    OVERLOAD = "overload"
    """500, 502, 503, 529: the service is having problems."""
    NETWORK = "network"
    """No connection, a time-out, or a connection lost."""
    MALFORMED_STREAM = "malformed"
    """The stream was not what the protocol promises."""
    EMPTY_REPLY = "empty"
    """The stream ended without text, reasoning or a call."""


UNREACHABLE_CODE = "unreachable"
"""Code of a `NETWORK` trouble that waiting seldom mends: nobody listens, or no such host."""
NOT_RUNNING_CODE = "not_running"
"""Code of a `NETWORK` failure at an address of this machine: the server must be started."""


class ProviderError(UserError):
    """The model's service failed."""

    def __init__(
        self,
        message: str,
        *,
        failure: ProviderFailureKind,
        status: int | None = None,
        code: str | None = None,
        retry_after: float | None = None,
        context_window: int | None = None,
        response: str = "",
        advice: str = "",
    ) -> None:
        super().__init__(message)
        self.response = response
        """The whole answer of the service, for programs; secrets may be in it."""
        self.failure = failure
        self.status = status
        self.code = code
        self.retry_after = retry_after
        """Seconds the service asked us to wait."""
        self.context_window = context_window
        """Tokens that the model takes, where a refusal names them."""
        self.advice = advice
        """How to start a local server so that it takes what it refused; part of the message."""


class TaskStateError(JoeyError):
    """The state of the task does not allow the operation."""


class FailureCode(StrEnum):
    """Why a task failed, unless its provider failed: see `encode_provider_failure`."""

    REPEATED_FAILURES = "mistakes"
    COST_LIMIT = "budget"
    TOKEN_LIMIT = "tokens"
    TURN_LIMIT = "turns"
    CALL_LIMIT = "calls"
    TIME_LIMIT = "time"
    CONTEXT_LIMIT = "context"
    WINDOW_TOO_SMALL = "window"
    INVALID_RESULT = "schema"
    SUBTASK_NOT_OPENED = "subtask"
    RESUME_DECLINED = "declined"
    INTERNAL_ERROR = "internal"


def encode_provider_failure(failure: ProviderFailureKind) -> str:
    """Return the code of a task that failed because its provider did."""
    return f"provider:{failure}"


_PROVIDER_FAILURE_BY_CODE = {encode_provider_failure(each): each for each in ProviderFailureKind}


def decode_provider_failure(code: str) -> ProviderFailureKind | None:
    """Return the provider's failure; None if the task failed for another or an unknown reason."""
    return _PROVIDER_FAILURE_BY_CODE.get(code)
