"""How calls are made in each protocol, and how to choose them well."""

from __future__ import annotations

from joey.core.protocol import ToolProtocol

_INTRODUCTION = """\
TOOL USE

You act through tools. The user's rules judge every call: some run at once, others wait until \
the user approves, and the user may refuse. The result of each call comes with the next message."""

_NATIVE = """\
- Make calls through the tool-calling interface of this API. Never write a call into your text, \
as XML, JSON or a code block: nothing in the text is executed.
- Every reply makes at least one call; a reply without any comes back to you as an error. To \
finish, call attempt_completion; to ask, call ask_followup_question.
- Make several calls in one reply whenever they do not need each other's results: files to \
read, searches, edits of different files. They run in the order you give them, and each saves a \
round trip. Wait only where the next call depends on a result.
- Give every required parameter a real value. Leave optional ones out (or null) when you have \
nothing to say there; never fill them with guesses.
- Call attempt_completion alone, in a reply of its own."""

_XML = """\
Calls are written in your reply with XML-style tags. The name of the tool is the outer tag, and \
each parameter has a tag of its own inside it:

<tool_name>
<first_parameter>value</first_parameter>
<second_parameter>value</second_parameter>
</tool_name>

- Use exactly one tool per message, at its end, and stop there: the result comes with the next \
message, and you decide the next step with it in hand. A message without a call comes back to \
you as an error. To finish, use attempt_completion; to ask, use ask_followup_question.
- Use the names of tools and parameters exactly as the catalogue below gives them, and close \
every tag.
- Write the tags as plain text, not inside a code block and not as JSON.
- Values are taken literally: do not escape `<`, `>` or `&`, and keep indentation and line \
breaks as they shall be. Leave optional parameters out when you have nothing to say there."""

_GUIDELINES = """\
# Tool Use Guidelines

1. Take stock first: what do you know, what do you still need, which tool gets it most directly? \
Prefer the tool made for the purpose over a shell command that does the same.
{pace}
3. Read each result to its end. It may hold an error, output of a command, a note that \
something was cut off, or words of the user; all of them matter for the next step. Never assume \
that a call worked.
4. When a call fails, understand why before you go on. The same call with the same arguments \
gives the same result, and is stopped after a few times.
5. When the user refuses a call, do not get the same effect by another way. Take their feedback \
into account; ask if it is unclear what they want instead."""

_PACE = {
    ToolProtocol.NATIVE: (
        "2. Gather context broadly and in few replies, then act. Let results, not assumptions,"
        " decide each further step."
    ),
    ToolProtocol.XML: (
        "2. Go step by step, one tool at a time. Let the result of each, not assumptions, decide"
        " the next."
    ),
}


def tool_use(protocol: ToolProtocol, catalogue: str) -> str:
    """The rules of calling. In XML tasks the catalogue of tools is part of the prompt."""
    parts = [_INTRODUCTION, _NATIVE if protocol is ToolProtocol.NATIVE else _XML]
    if protocol is ToolProtocol.XML:
        parts.append(catalogue)
    parts.append(_GUIDELINES.format(pace=_PACE[protocol]))
    return "\n\n".join(part for part in parts if part)
