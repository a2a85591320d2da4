from __future__ import annotations

import json

import pytest

from joey.core.models import ToolProtocol
from joey.core.prompts import messages_to_model

NATIVE, XML = ToolProtocol.NATIVE, ToolProtocol.XML


@pytest.mark.requirement("prompts:envelopes")
def test_a_denial_is_an_envelope_or_a_sentence() -> None:
    envelope = json.loads(messages_to_model.render_denial(NATIVE))

    assert list(envelope) == ["status", "message"]
    assert envelope["status"] == "denied"
    assert messages_to_model.render_denial(XML) == envelope["message"]


def test_the_message_of_a_denial_reaches_the_model() -> None:
    assert (
        messages_to_model.render_denial(NATIVE, "use tabs")
        == '{"status":"denied","feedback":"use tabs"}'
    )
    assert messages_to_model.render_denial(XML, "use tabs").endswith(
        "\n<feedback>\nuse tabs\n</feedback>"
    )


def test_the_message_of_an_approval_reaches_the_model() -> None:
    assert (
        messages_to_model.render_approval_feedback(NATIVE, "ok but hurry")
        == '{"status":"approved","feedback":"ok but hurry"}'
    )
    assert messages_to_model.render_approval_feedback(XML, "ok").endswith(
        "\n<feedback>\nok\n</feedback>"
    )


@pytest.mark.requirement("prompts:envelopes")
def test_guidance_after_mistakes_reaches_the_model() -> None:
    assert (
        messages_to_model.render_guidance(NATIVE, "try a")
        == '{"status":"guidance","feedback":"try a"}'
    )
    assert messages_to_model.render_guidance(XML, "try a").endswith(
        "\n<feedback>\ntry a\n</feedback>"
    )


@pytest.mark.requirement("prompts:envelopes")
def test_an_error_is_sent_in_an_envelope_or_in_tags() -> None:
    envelope = json.loads(messages_to_model.render_tool_error(NATIVE, "no such file"))

    assert list(envelope) == ["status", "message", "error"]
    assert envelope["status"] == "error"
    assert envelope["error"] == "no such file"
    assert messages_to_model.render_tool_error(XML, "no such file").endswith(
        "\n<error>\nno such file\n</error>"
    )


def test_envelopes_keep_quotes_and_letters_of_any_script() -> None:
    text = 'say "hé" \n日本'

    assert json.loads(messages_to_model.render_denial(NATIVE, text))["feedback"] == text
    assert "日本" in messages_to_model.render_denial(NATIVE, text)


@pytest.mark.requirement("tools:missing-parameter")
@pytest.mark.parametrize("protocol", list(ToolProtocol))
def test_a_missing_parameter_is_named_with_a_reminder(protocol: ToolProtocol) -> None:
    text = messages_to_model.render_missing_parameter(protocol, "read_file", "path")
    error = json.loads(text)["error"] if protocol is NATIVE else text

    assert "Missing value for required parameter 'path' of read_file" in error
    assert "# Reminder: Instructions for Tool Use" in error
    assert ("<attempt_completion>" in error) == (protocol is XML)


def test_a_hidden_file_is_an_access_error_with_advice() -> None:
    envelope = json.loads(messages_to_model.render_rooignore_denial(NATIVE, "secret/key.pem"))

    assert list(envelope) == ["status", "type", "message", "path", "suggestion"]
    assert envelope["type"] == "access_denied"
    assert envelope["path"] == "secret/key.pem"
    assert messages_to_model.render_rooignore_denial(XML, "secret/key.pem").startswith(
        "secret/key.pem is hidden"
    )


@pytest.mark.parametrize("protocol", list(ToolProtocol))
def test_a_reply_without_a_tool_is_sent_back(protocol: ToolProtocol) -> None:
    text = messages_to_model.render_no_tool_used(protocol)

    assert text.startswith(
        "[ERROR] You did not use a tool in your previous response! Please retry with a tool use."
        "\n\n# Reminder: Instructions for Tool Use\n\n"
    )
    assert "# Next Steps" in text


@pytest.mark.requirement("engine:loop:no-tool-wording")
def test_the_reminder_fits_the_protocol() -> None:
    assert messages_to_model.render_no_tool_used(XML).startswith(
        "[ERROR] You did not use a tool in your previous response! Please retry with a tool use."
        "\n\n# Reminder: Instructions for Tool Use\n\n"
        "Tool uses are formatted using XML-style tags."
    )
    assert "XML" not in messages_to_model.render_no_tool_used(NATIVE)


def test_feedback_on_a_result_is_worded_as_clients_know_it() -> None:
    assert messages_to_model.render_completion_feedback(
        "Can you also add a /goodbye endpoint?"
    ) == (
        "The user has provided feedback on the results. Consider their input to continue the task:"
        "\n<feedback>\nCan you also add a /goodbye endpoint?\n</feedback>"
    )


@pytest.mark.requirement("prompts:first-message")
def test_the_task_is_tagged_in_xml_and_bare_in_native() -> None:
    assert messages_to_model.render_task_message(XML, "do it") == "<task>\ndo it\n</task>"
    assert messages_to_model.render_task_message(NATIVE, "do it") == "do it"


def test_later_messages_are_tagged_in_both() -> None:
    assert (
        messages_to_model.render_user_message("and that")
        == "<user_message>\nand that\n</user_message>"
    )


@pytest.mark.parametrize(
    ("minutes", "said"),
    [
        (None, "was interrupted and goes on"),
        (0, "was interrupted moments ago and"),
        (1, "was interrupted 1 minute ago"),
        (59, "59 minutes ago"),
        (60, "1 hour ago"),
        (150, "2 hours ago"),
        (3 * 1440, "3 days ago"),
    ],
)
def test_a_resumed_task_is_sent_how_long_it_slept(minutes: int | None, said: str) -> None:
    text = messages_to_model.render_resumption(minutes, had_interrupted_call=False)

    assert text.startswith("[TASK RESUMPTION] ")
    assert said in text
    assert "last call" not in text


def test_a_resumed_task_is_warned_of_a_call_that_was_cut() -> None:
    assert "The last call did not report back" in messages_to_model.render_resumption(
        5, had_interrupted_call=True
    )


def test_skipped_and_repeated_calls_are_named() -> None:
    assert "apply_diff" in messages_to_model.render_skipped_after_rejection("apply_diff")
    assert "apply_diff" in messages_to_model.render_repetition_limit("apply_diff")
    assert "repetition limit" in messages_to_model.render_repetition_limit("apply_diff")


def test_an_empty_result_is_worded_as_clients_know_it() -> None:
    assert messages_to_model.EMPTY_RESULT_TEXT == "(tool did not return anything)"


def test_an_xml_result_is_headed_by_its_call() -> None:
    assert (
        messages_to_model.render_result_header("[read_file for 'a.py']")
        == "[read_file for 'a.py'] Result:"
    )


@pytest.mark.parametrize(
    "text",
    [
        messages_to_model.INTERRUPTED_CALL_TEXT,
        messages_to_model.render_unattended_denial(),
        messages_to_model.COMPLETION_AFTER_FAILURE_TEXT,
        messages_to_model.OPEN_TODOS_TEXT,
        messages_to_model.render_skipped_after_rejection("x"),
    ],
)
def test_plain_texts_read_the_same_in_both_protocols(text: str) -> None:
    assert text
    assert not text.startswith(("{", "<"))
