from __future__ import annotations

import pytest

from joey.cli.exit_codes import UsageError, error_to_exit_code, outcome_to_exit_code
from joey.engine.outcomes import Aborted, Completed, Ending, Failed
from joey.errors import (
    ConfigError,
    ProviderError,
    ProviderFailureKind,
    StoreError,
    TaskNotFoundError,
    WorkspaceError,
)

ENDINGS = [
    (Completed("done"), False, 0),
    (Completed("done"), True, 3),
    (Aborted(), False, 130),
    (Failed("mistakes", ""), True, 3),
    (Failed("turns", ""), False, 53),
    (Failed("turns", ""), True, 53),
    (Failed("calls", ""), False, 53),
    (Failed("budget", ""), False, 55),
    (Failed("tokens", ""), False, 55),
    (Failed("time", ""), False, 55),
    (Failed("provider:rate", ""), True, 75),
    (Failed("provider:overload", ""), True, 75),
    (Failed("provider:network", ""), True, 75),
    (Failed("provider:malformed", ""), True, 75),
    (Failed("provider:empty", ""), True, 75),
    (Failed("provider:auth", ""), True, 78),
    (Failed("provider:not_found", ""), True, 78),
    (Failed("provider:quota", ""), True, 78),
    (Failed("provider:invalid", ""), True, 1),
    (Failed("provider:overflow", ""), True, 1),
    (Failed("provider:something new", ""), True, 1),
    (Failed("internal", ""), False, 1),
]
ERRORS = [
    (UsageError("no"), 2),
    (WorkspaceError("no"), 2),
    (ConfigError("no"), 78),
    (StoreError("no"), 1),
    (TaskNotFoundError("no"), 1),
    (ProviderError("no", failure=ProviderFailureKind.AUTH), 78),
    (ProviderError("no", failure=ProviderFailureKind.OVERLOAD), 75),
    (ProviderError("no", failure=ProviderFailureKind.INVALID_REQUEST), 1),
    (KeyboardInterrupt(), 130),
    (RuntimeError("no"), 1),
]


@pytest.mark.contract("cli:exit-codes")
@pytest.mark.parametrize(("ending", "refused", "code"), ENDINGS)
def test_each_ending_has_its_exit_code(ending: Ending, refused: bool, code: int) -> None:
    assert outcome_to_exit_code(ending, refused=refused) == code


@pytest.mark.contract("cli:exit-codes")
@pytest.mark.parametrize(("error", "code"), ERRORS)
def test_each_error_has_its_exit_code(error: BaseException, code: int) -> None:
    assert error_to_exit_code(error) == code


def test_every_provider_failure_has_an_exit_code_other_than_success() -> None:
    assert all(
        outcome_to_exit_code(Failed(f"provider:{error}", "")) in (1, 75, 78)
        for error in ProviderFailureKind
    )
