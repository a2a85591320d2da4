from __future__ import annotations

import pytest

from joey.core.models import ToolProtocol
from joey.core.prompts import messages_to_model

NATIVE, XML = ToolProtocol.NATIVE, ToolProtocol.XML


@pytest.mark.contract("loop:calls")
def test_the_message_of_a_denial_reaches_the_model() -> None:
    sentence = "The user did not allow this call; it was not carried out."
    message = 'say "hé" \n日本'
    assert messages_to_model.render_denial() == sentence
    assert messages_to_model.render_denial(message) == (
        f"{sentence} They said:\n<feedback>\n{message}\n</feedback>"
    )


def test_the_message_of_an_approval_reaches_the_model() -> None:
    assert messages_to_model.render_approval_feedback("ok").endswith(
        "\n<feedback>\nok\n</feedback>"
    )


@pytest.mark.contract("loop:calls")
def test_guidance_after_mistakes_reaches_the_model() -> None:
    assert messages_to_model.render_guidance("try a").endswith("\n<feedback>\ntry a\n</feedback>")


@pytest.mark.contract("loop:calls")
def test_an_error_is_plain_text() -> None:
    message = 'no "such" file\nat all'
    assert messages_to_model.render_tool_error(message) == f"[ERROR] {message}"


@pytest.mark.contract("loop:calls")
@pytest.mark.parametrize("protocol", list(ToolProtocol))
def test_a_missing_parameter_is_named_with_a_reminder(protocol: ToolProtocol) -> None:
    text = messages_to_model.render_missing_parameter(protocol, "read_file", "path")

    assert text.startswith("[ERROR] Missing value for required parameter 'path' of read_file")
    assert "# Reminder: Instructions for Tool Use" in text
    assert ("<attempt_completion>" in text) == (protocol is XML)


def test_a_hidden_file_is_an_access_error_with_advice() -> None:
    assert messages_to_model.render_rooignore_denial("secret/key.pem").startswith(
        "[ERROR] secret/key.pem is hidden"
    )


@pytest.mark.parametrize("protocol", list(ToolProtocol))
def test_a_reply_without_a_tool_is_sent_back(protocol: ToolProtocol) -> None:
    text = messages_to_model.render_no_tool_used(protocol)

    assert text.startswith(
        "[ERROR] You did not use a tool in your previous response! Please retry with a tool use."
        "\n\n# Reminder: Instructions for Tool Use\n\n"
    )
    assert "# Next Steps" in text


@pytest.mark.contract("loop:plain-reply")
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


@pytest.mark.contract("prompt:sections")
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
        (None, "was interrupted and continues"),
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
    assert "The last call was interrupted" in messages_to_model.render_resumption(
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
