from __future__ import annotations

import pytest

from joey.core.permissions.policy import Access, Ask, Claim, decide
from joey.core.settings import Settings
from joey.errors import FailureCode, ProviderFailureKind, encode_provider_failure
from joey.presentation.phrases import (
    FAILURE_TEXTS,
    describe_error,
    describe_failure,
    describe_provider_error,
    lower_first,
)
from joey.presentation.questions import describe_reasons

BEHIND_OUR_NAME = [
    ("There is no mode", "there is no mode"),
    ("OpenRouter is busy", "OpenRouter is busy"),
    ("Anthropic is busy", "Anthropic is busy"),
    ("HTTP is busy", "HTTP is busy"),
    ("A task", "a task"),
    ("Don't stop, or wait.", "don't stop, or wait."),
    ("Qwen3-Coder-30B-Q4_K_M.gguf is busy", "Qwen3-Coder-30B-Q4_K_M.gguf is busy"),
    ("Gemma-it is busy", "Gemma-it is busy"),
    ("Org/model is busy", "Org/model is busy"),
    ("Llama3:latest is busy", "Llama3:latest is busy"),
    ("/home/x is not JSON", "/home/x is not JSON"),
    ("", ""),
]
ERROR_TEXTS = [
    ("MODEL_NO_TOOLS_USED", "the model used no tool, and is reminded to"),
    ("apply_diff: no\n<error_details>\nnot found\n</error_details>", "apply_diff: no\n\nnot found"),
    ('{"status":"error","message":"It failed.","error":"no such file"}', "no such file"),
    ("[ERROR] no such file", "no such file"),
    ('read_file: {"a": 1} is odd', 'read_file: {"a": 1} is odd'),
    ("plain words", "plain words"),
    (
        "apply_diff: Unable to apply diff to file: a.py\n\n<error_details>\nNo match: the best"
        " is 40% similar. Searched: all of it. Read it again.\n\nSearch Content:\nx = 1\n\n"
        "Best Match Found:\n3 | x = 2\n</error_details>",
        "apply_diff: Unable to apply diff to file: a.py. No match: the best is 40% similar.",
    ),
    (
        "edit: No match found for old_string in a.py. Copy the text exactly. The nearest is line 4."
        "\n\nWhat is there:\n4 | x",
        "edit: No match found for old_string in a.py.",
    ),
    (
        "File not found: b\n\n<error_details>\nA text can only be replaced in a file that exists."
        "\n\nRecovery suggestions:\n1. Check the path.\n</error_details>",
        "File not found: b. A text can only be replaced in a file that exists.",
    ),
    (
        "Applied to a.py.\n\nUnable to apply diff to file: b.py\n\nNo match found. Read it again."
        "\n\nSearch Content:\ny",
        "Unable to apply diff to file: b.py. No match found.",
    ),
]


@pytest.mark.parametrize(("text", "shown"), BEHIND_OUR_NAME)
def test_a_message_begins_small_unless_with_a_name(text: str, shown: str) -> None:
    assert lower_first(text) == shown


@pytest.mark.parametrize(("text", "shown"), ERROR_TEXTS)
def test_people_read_errors_without_marks_for_programs(text: str, shown: str) -> None:
    assert describe_error(text) == shown


def test_every_way_to_fail_has_a_sentence() -> None:
    assert set(FailureCode) <= set(FAILURE_TEXTS)
    for kind in ProviderFailureKind:
        shown = describe_failure(encode_provider_failure(kind))
        assert shown.startswith("failed: ")
    for code in ("something new", "provider:something new", FailureCode.SUBTASK_NOT_OPENED):
        assert describe_failure(code) == "failed"


def test_the_reason_does_not_repeat_the_command() -> None:
    command = "make `x`; rm -rf build"
    decision = decide((Claim(Access.EXECUTE, command=command),), Settings())
    assert isinstance(decision, Ask)
    why = describe_reasons(decision.reasons, None)
    assert why == "commands require confirmation (alwaysAllowExecute is off)"
    switched_on = Settings(always_allow_execute=True, allowed_commands=("ls",))
    decision = decide((Claim(Access.EXECUTE, command="rm x"),), switched_on)
    assert isinstance(decision, Ask)
    assert describe_reasons(decision.reasons, None) == "no rule allows it"


def test_the_reason_in_an_old_journal_is_shown_as_it_is() -> None:
    old = "running `rm x`: alwaysAllowExecute is off"
    assert describe_reasons((), old) == old


def test_numbers_for_programs_are_left_out_of_a_wait() -> None:
    assert describe_provider_error("529\nbusy") == "busy"
    assert describe_provider_error("busy") == "busy"
