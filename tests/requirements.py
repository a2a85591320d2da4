"""What joey has to do, one line each: the specification as a manifest.

Each behaviour has an id, a source (a section of a seed document, a decision `D…` of
docs/decisions.md, a flaw `B…` of Roo Code that must not come back, or a promise or class of
attack of the security specification) and a sentence. Tests carry the ids:

    @pytest.mark.requirement("parsing:xml:nested-args")

`tests/test_requirements.py` checks both directions.
"""

from __future__ import annotations

from typing import Literal, NamedTuple


class Requirement(NamedTuple):
    source: str
    text: str
    status: Literal["now", "later"] = "now"
    reason: str = ""
    """Why it is put off."""


def _later(source: str, text: str, reason: str) -> Requirement:
    return Requirement(source, text, "later", reason)


def _tool(text: str) -> Requirement:
    """What the examples of a tool show: `tests/harness/tools/tool_examples.py`."""
    return Requirement("spec, tools", text)


REQUIREMENTS: dict[str, Requirement] = {
    # The protocols: what the model says, understood while it streams
    "parsing:native:deltas-by-index": Requirement(
        "D3", "Argument deltas are joined by their index, whatever else arrives in between."
    ),
    "parsing:native:any-split": Requirement(
        "seed 001, Incremental JSON Parsing", "However a stream is split, the reply is the same."
    ),
    "parsing:native:partial-arguments": Requirement(
        "seed 001, Incremental JSON Parsing",
        "Arguments can be seen while they grow, an unfinished string included.",
    ),
    "parsing:native:name-after-arguments": Requirement(
        "seed 001, Native Tool Call Parser", "Arguments that arrive before the name are not lost."
    ),
    "parsing:native:interleaved-calls": Requirement(
        "D3", "Two calls whose deltas alternate both come out whole."
    ),
    "parsing:native:empty-arguments": Requirement(
        "seed 001, Native Tool Call Parser", "A call without arguments has the empty object."
    ),
    "parsing:native:malformed": Requirement(
        "D14", "Arguments that are no JSON object make the call a problem, with the reason."
    ),
    "parsing:native:cut-off": Requirement(
        "D14", "A call that the stream breaks off is a problem, however usable its beginning looks."
    ),
    "parsing:native:unique-ids": Requirement(
        "D16, flaw B17", "An id that the task has already seen is replaced on arrival."
    ),
    "parsing:native:clean-ids": Requirement("D16", "Ids keep only letters, digits, `_` and `-`."),
    "parsing:native:state-of-its-own": Requirement(
        "flaw B4", "Two streams parsed at the same time do not touch each other."
    ),
    "parsing:native:text-after-call": Requirement(
        "flaw B15", "Text after a call is a part of its own and holds only the new words."
    ),
    "parsing:xml:text-and-call": Requirement(
        "seed 001, XML Protocol", "Text before a call and the call itself are told apart."
    ),
    "parsing:xml:nested-args": Requirement(
        "seed 003, Expected Tool Format",
        "`args` with nested `file` and `path` tags arrive as structure.",
    ),
    "parsing:xml:any-split": Requirement(
        "seed 001, XML Protocol", "However the text is split, the reply is the same."
    ),
    "parsing:xml:unknown-tags": Requirement(
        "seed 001, XML Protocol", "Tags that name no tool stay text."
    ),
    "parsing:xml:tags-in-values": Requirement(
        "seed 001, XML Protocol", "Tool tags inside a value are part of the value."
    ),
    "parsing:xml:inner-closing-tag": Requirement(
        "seed 001, XML Protocol",
        "Content that holds its own closing tag survives up to the last one.",
    ),
    "parsing:xml:newlines": Requirement(
        "seed 001, XML Protocol", "Content loses one newline at each end; other values are trimmed."
    ),
    "parsing:xml:large-values": Requirement(
        "seed 001, XML Protocol", "A value of many hundred kilobytes arrives whole."
    ),
    "parsing:xml:unclosed": Requirement(
        "D14", "A call whose closing tag never came is a problem and does not run."
    ),
    "parsing:xml:several-calls": Requirement(
        "D13", "All calls of one reply are understood, in their order."
    ),
    "parsing:xml:half-a-tag": Requirement(
        "seed 001, XML Protocol", "A tag that has only begun is not shown as text."
    ),
    "parsing:text:tool-code-fence": Requirement(
        "D9, seed 003, Tool Call Embedding",
        "A fenced `tool_code` block that names a known tool is that call.",
    ),
    "parsing:text:tool-call-tag": Requirement("D9", "JSON in a `tool_call` tag is that call."),
    "parsing:text:not-a-call": Requirement(
        "D9", "A fence that does not parse or names no known tool stays text."
    ),
    "parsing:text:off-switch": Requirement("D9", "One setting turns the leniency off."),
    "parsing:think:calls": Requirement(
        "D14, reasoning", "Calls in reasoning are never run, with or without its opening tag."
    ),
    "parsing:think:tags": Requirement(
        "seed 001, API Stream Chunks",
        "A leading `<think>` section is reasoning, however its tags are split.",
    ),
    "protocol:locked-first": Requirement(
        "D8, seed 001, Protocol Resolution",
        "The protocol that a task was locked to wins over everything.",
    ),
    "protocol:from-history": Requirement(
        "D8, seed 001, Protocol Resolution",
        "Without a lock, the history says which protocol it speaks.",
    ),
    "protocol:named-anew": Requirement(
        "D8", "Naming a protocol for an existing task shows its whole history in that protocol."
    ),
    "protocol:named-stays": Requirement("D8", "A named protocol never changes by itself."),
    "protocol:tools-refused": Requirement(
        "D8",
        "A service that refuses tools is asked again in XML, and is remembered for the model.",
    ),
    "protocol:unusable-calls": Requirement(
        "D8", "Two replies in a row with unusable calls change the protocol, once in a task."
    ),
    "protocol:from-model": Requirement(
        "D8, seed 001, Protocol Resolution",
        "Without a history, a model that cannot call tools gets XML, any other native.",
    ),
    # Servers on the user's own machine
    "local:asked-once": Requirement(
        "D77", "A local server is asked for window and abilities once per address and model."
    ),
    "local:window-too-small": Requirement(
        "D77", "A window too small for any task ends the run before a request, with what to run."
    ),
    "local:not-running": Requirement(
        "D89", "A server of this machine that is not running is tried once more, and named."
    ),
    "local:restarted": Requirement(
        "D89", "A local server that breaks off an answer is waited for with the usual retries."
    ),
    "local:first-contact": Requirement(
        "D89", "With a window of 4,096 tokens, one key works or says what to change."
    ),
    "local:window-learnt": Requirement("D77", "The window that a refusal names is remembered."),
    "local:no-tools": Requirement(
        "D77", "A model that takes no tools, by its server's word, starts in XML."
    ),
    "local:truncation-noticed": Requirement(
        "D77", "A server that cuts prompts silently is noticed after the second request."
    ),
    "local:output-limit": Requirement(
        "D77", "Local servers are told how long a reply may be, and summaries how short."
    ),
    "local:whole-document": Requirement(
        "D77", "A reply that comes as one JSON document instead of a stream is read."
    ),
    "local:no-price": Requirement(
        "D77", "Open models at loopback and private addresses have no price."
    ),
    "local:ollama-wire": Requirement(
        "D77", "Ollama is spoken to by /api/chat, with num_ctx, keep_alive, tools and thinking."
    ),
    "local:growing-prompt": Requirement(
        "D92", "Requests only grow at their end, so that a server has the rest in its cache."
    ),
    "local:summary-appended": Requirement(
        "D41", "A summary is asked for at the end of the conversation, in small windows, too."
    ),
    "local:doctor": Requirement(
        "D77", "`joey doctor` prints window, abilities and speed of each local server."
    ),
    "local:models": Requirement(
        "D77", "`joey models` lists the windows that local servers tell, of all if none is chosen."
    ),
    "local:address-asked": Requirement(
        "D77", "A server at a local address is asked for its window, whatever kind it is."
    ),
    "local:lean": Requirement(
        "D77", "Below 24,000 tokens prompt and tools are lean, so that a window of 8k is enough."
    ),
    # The two histories
    "history:survives-everything": Requirement(
        "D15, D16, seed 004",
        "Turns, denials, condensing, truncation, rewinds, forks, cancelling and crashes in any"
        " order leave both histories valid, and bring back exactly what was.",
    ),
    "history:api:second-result": Requirement(
        "D16", "A second result for the same call changes nothing."
    ),
    "history:api:seed-000": Requirement(
        "seed 000, Final apiConversationHistory Structure",
        "The seed's conversation yields the seed's eight messages.",
    ),
    "history:api:result-follows-call": Requirement(
        "D16", "The message after a reply starts with one result for each of its calls."
    ),
    "history:api:results-by-id": Requirement(
        "flaw B7", "Results belong to calls by id and are never moved by position."
    ),
    "history:api:missing-result": Requirement(
        "D16", "A call that never finished is answered as interrupted."
    ),
    "history:api:images-after-results": Requirement(
        "D16", "Images of a result follow the results as blocks of their own."
    ),
    "history:api:accepted-completion": Requirement(
        "D16, seed 000, Task Completion",
        "An accepted completion leaves the assistant's message last.",
    ),
    "history:api:xml-results": Requirement(
        "seed 003, Tool Response Format",
        "In an XML task results are text under a header that names the call.",
    ),
    "history:api:environment-last": Requirement(
        "seed 003, User Message Format", "Each user message ends with the environment details."
    ),
    "history:api:interrupted-text": Requirement(
        "flaw B5", "Words that had arrived before a cancel stay, marked as interrupted."
    ),
    "history:ui:tool-row": Requirement(
        "D6, seed 004, Same Event, Different Representations",
        "A tool's row has `tool`, `path`, `diff`, `approvalState`, `result` and Roo's JSON.",
    ),
    "history:ui:ask-or-say": Requirement(
        "D6", "A tool that waits for a person is an ask; one that the rules allow is a say."
    ),
    "history:ui:approval-states": Requirement(
        "D6, seed 004, UI Messages Need", "A row goes from pending to approved or rejected."
    ),
    "history:ui:partial-rows": Requirement(
        "seed 004, UI Messages Need", "A streaming row is partial, keeps its `ts`, and ends whole."
    ),
    "history:ui:request-row": Requirement(
        "seed 000, Token Usage Tracking",
        "The request's row gets tokens, cost and the reason of a cancel.",
    ),
    "history:ui:completion-rows": Requirement(
        "seed 004, Complete Conversation Example", "A completion is shown as a row with its result."
    ),
    "history:both:rising-ts": Requirement(
        "D15, flaw B3",
        "No two rows of a task share a `ts`, even within a millisecond; both histories use it.",
    ),
    "history:both:replay": Requirement(
        "seed 004, Synchronization", "Replaying the journal gives both histories as they were."
    ),
    "history:both:any-moment": Requirement(
        "seed 004, Synchronization", "Cut the journal anywhere: the API history is still valid."
    ),
    # Providers
    "providers:anthropic:request": Requirement(
        "seed 000, API Request Structure",
        "The request has the seed's system block, messages, tools, choice and headers.",
    ),
    "providers:anthropic:cache-marks": Requirement(
        "seed 000, Key Architectural Points",
        "The system block and the latest user messages carry cache marks.",
    ),
    "providers:anthropic:stream": Requirement(
        "seed 000, Model Response",
        "Text, thinking, calls, usage and stop reason are read from the stream.",
    ),
    "providers:anthropic:cost": Requirement(
        "flaw B15", "The cost counts output tokens that are reported at the end."
    ),
    "providers:anthropic:older-servers": Requirement(
        "seed 000, API Request Structure",
        "Behind a base URL the older key header and version are sent.",
    ),
    "providers:openai:request": Requirement(
        "seed 003, Top-Level Request Object",
        "The request has the seed's five fields, and tools only when native.",
    ),
    "providers:openai:xml-messages": Requirement(
        "seed 003, Messages Array Structure",
        "In XML, user content is an array of texts and the assistant's a string.",
    ),
    "providers:openai:tool-messages": Requirement(
        "seed 001, Native Protocol Architecture",
        "Results become `tool` messages, in the order of the calls.",
    ),
    "providers:openai:stream": Requirement(
        "seed 001, API Stream Chunks",
        "Text, reasoning, calls by index and usage are read from the stream.",
    ),
    "providers:openai:odd-streams": Requirement(
        "seed 001, API Stream Chunks",
        "Missing choices, late usage and a missing end marker are taken in stride.",
    ),
    "providers:responses:rules": Requirement(
        "D86",
        "A task at the Responses API keeps its rules; encrypted reasoning goes back in place.",
    ),
    "providers:responses:stream": Requirement(
        "D86", "Its stream is read however it is split: text, summaries, calls, usage, failures."
    ),
    "providers:responses:switch": Requirement(
        "D86", "A task changes between the Responses API and chat completions in both directions."
    ),
    "providers:responses:fallback": Requirement(
        "D86", "An address without the Responses API is asked once; a model that needs it gets it."
    ),
    "providers:responses:errors": Requirement(
        "D86", "Failures, refusals, the content filter and the output limit end a reply as such."
    ),
    "providers:prices:long-input": Requirement(
        "D88",
        "Costs and budgets count a request with a long input by the tariff for it.",
    ),
    "providers:services:rules": Requirement(
        "D80",
        "A task keeps the rules of every provider's service when it is resumed and changes hands.",
    ),
    "providers:services:import": Requirement(
        "D80", "After an import, reasoning and signatures go back to their service unchanged."
    ),
    "providers:services:refusals": Requirement(
        "D80", "What a server refuses once is left out of further requests, also of later runs."
    ),
    "providers:clouds:errors": Requirement(
        "D90", "Errors of Bedrock end a run with its words, and passing ones are tried again."
    ),
    "providers:clouds:library": Requirement(
        "D90", "A cloud without its library is answered with the command that installs it."
    ),
    "providers:clouds:roo": Requirement(
        "D90", "Roo's profiles for Bedrock, Vertex AI and Azure reach the right address and key."
    ),
    "providers:services:schemas": Requirement(
        "D80", "Off OpenAI's own service, tool schemas are plain and optional parameters optional."
    ),
    "providers:sse:any-split": Requirement(
        "seed 001, API Stream Chunks",
        "Server-sent events come out the same however the bytes are split.",
    ),
    "providers:http:cancel": Requirement(
        "flaw B5", "Closing the stream closes the socket of the request."
    ),
    "providers:http:any-split": Requirement(
        "seed 001, API Stream Chunks",
        "Chunked and plain bodies are read the same however the bytes are split.",
    ),
    "providers:errors:kinds": Requirement(
        "flaw B10", "Status, code and wait are kept, and the kind of trouble is named."
    ),
    "providers:errors:in-stream": Requirement(
        "flaw B10", "An error in the middle of a stream has its kind like any other."
    ),
    "providers:errors:overflow": Requirement(
        "flaw B10", "A conversation that is too long is told apart from other refusals."
    ),
    "providers:errors:lost-connection": Requirement(
        "flaw B10", "A connection lost half-way is an error, never a short reply."
    ),
    "providers:errors:no-keys": Requirement("security K9", "No error text holds the key."),
    # The engine
    "engine:loop:seed-000": Requirement(
        "seed 000, Summary of the Conversation Flow",
        "The seed's conversation takes four requests and ends completed.",
    ),
    "engine:loop:whole-history": Requirement(
        "seed 000, Total API Requests", "Each request holds the full conversation up to it."
    ),
    "engine:loop:no-tool": Requirement(
        "seed 001, Task Loop Breaks",
        "A reply without a call earns the reminder, and the loop goes on.",
    ),
    "engine:loop:no-tool-wording": Requirement(
        "seed 003, Tool Response Format",
        "In XML the reminder opens with the seed's `[ERROR]` line.",
    ),
    "engine:loop:mistake-limit": Requirement(
        "seed 001, Attempt Completion Tool Execution",
        "After several mistakes a person is asked, and their advice reaches the model.",
    ),
    "engine:loop:repetition": Requirement(
        "seed 001, Attempt Completion Tool Execution",
        "The same call over and over stops for a person.",
    ),
    "engine:loop:repetition-result": Requirement(
        "D13",
        "A call is a repetition only if its result is the same and no background command runs;"
        " without a user the first stop is an error for the model.",
    ),
    "engine:loop:mistakes-per-reply": Requirement(
        "seed 001, Attempt Completion Tool Execution",
        "A mistake is a reply in which no call succeeded; a path that does not exist is an answer.",
    ),
    "engine:loop:mistakes-unattended": Requirement(
        "D12",
        "Without a user at least ten replies in a row may fail, and the model is warned before.",
    ),
    "engine:loop:plain-answer": Requirement(
        "seed 001, Task Loop Breaks",
        "A second plain reply in a row, or the first in a mode that may neither edit nor run"
        " commands, is presented as the result.",
    ),
    "engine:loop:endless-reply": Requirement(
        "decision D87",
        "A reply whose text repeats itself without end is stopped; the model is told, and no text"
        " that has to repeat itself is cut.",
    ),
    "engine:loop:commit-before-act": Requirement(
        "flaw B6", "The reply is in the journal before its first call runs."
    ),
    "engine:loop:ends": Requirement(
        "flaw B1", "An accepted completion ends the loop; the model is not called again."
    ),
    "engine:loop:run-limits": Requirement(
        "D12", "Turns, budget and time end a run with a result that says so."
    ),
    "engine:loop:settings-limits": Requirement(
        "seed 004, Complete Conversation Example", "Limits of the settings ask whether to go on."
    ),
    "engine:calls:in-order": Requirement(
        "D13", "All calls of a reply run, and their results keep the order."
    ),
    "engine:calls:side-by-side": Requirement(
        "D13", "Neighbouring calls that only read run at the same time."
    ),
    "engine:calls:rejection": Requirement(
        "D13", "A user's rejection skips the calls after it, each with a result of its own."
    ),
    "engine:calls:rejection-stops": Requirement(
        "D13", "A rejection that stops ends the run, subtasks included, until a message comes."
    ),
    "engine:calls:malformed": Requirement(
        "D14", "A malformed call gets an error result and the others still run."
    ),
    "engine:calls:unknown-tool": Requirement(
        "D14", "A tool that does not exist gets an error result that names the tools there are."
    ),
    "engine:calls:mode": Requirement(
        "seed 003, System Prompt Analysis",
        "A tool or file that the mode does not grant is refused.",
    ),
    "engine:calls:feedback-with-yes": Requirement(
        "seed 004, UI Messages Need", "Words given with a yes stand in front of the one result."
    ),
    "engine:calls:message-is-no": Requirement(
        "seed 004, UI Messages Need",
        "A message in place of a yes rejects the call and is its feedback.",
    ),
    "engine:asks:once": Requirement(
        "flaw B2", "An ask is answered once, by id; a later answer is refused."
    ),
    "engine:asks:cancel": Requirement(
        "flaw B2", "Cancelling while asking leaves no pending ask and no task behind."
    ),
    "engine:asks:queue-is-no-answer": Requirement(
        "D17", "A message queued before an ask opens does not answer it."
    ),
    "engine:asks:queued-words": Requirement(
        "D11", "Words sent while nothing is asked reach the model at its next turn."
    ),
    "engine:asks:followup-time": Requirement(
        "seed 003, System Prompt Analysis",
        "A question may answer itself with its first suggestion after a while.",
    ),
    "engine:asks:nobody-there": Requirement(
        "D12", "Without a person each kind of ask is answered by its policy."
    ),
    "engine:completion:fires": Requirement(
        "D4, seed 000, Task Execution", "`taskCompleted` fires when the result is presented."
    ),
    "engine:completion:accepted": Requirement(
        "D4, seed 001, Task Loop Breaks", "Acceptance ends the task and emits `taskFinished`."
    ),
    "engine:completion:feedback": Requirement(
        "D4, seed 000, Alternative Scenario",
        "Feedback becomes the call's result and the loop goes on.",
    ),
    "engine:completion:fires-again": Requirement("D4", "A later completion fires again."),
    "engine:completion:failed-tool": Requirement(
        "seed 001, Attempt Completion Tool Execution",
        "A completion beside a failed call is refused.",
    ),
    "engine:completion:unseen-results": Requirement(
        "D13",
        "A completion that follows other calls in its reply is not presented; they run.",
    ),
    "engine:completion:open-todos": Requirement(
        "seed 001, Attempt Completion Tool Execution",
        "With the setting on, open todos refuse a completion.",
    ),
    "engine:completion:facts": Requirement(
        "D78",
        "A result is sent back once, with the fact, when a command failed in its last run or an"
        " edit left errors; where no fact speaks against it, nothing is asked.",
    ),
    "parsing:xml:imitated-results": Requirement(
        "D79", "Calls after text that imitates a result or a message of the user are not run."
    ),
    "engine:completion:continued": Requirement(
        "D16", "The completion's result is written when the task is continued."
    ),
    "engine:retry:passing": Requirement(
        "flaw B10", "Passing trouble is waited out, and the request is sent again."
    ),
    "engine:retry:bounded": Requirement(
        "flaw B9", "Attempts and waiting are bounded; then a person is asked."
    ),
    "engine:retry:announced": Requirement(
        "flaw B9", "Each wait is counted down in a row of its own."
    ),
    "engine:retry:service-wait": Requirement(
        "flaw B10", "The wait that the service asks for is kept."
    ),
    "engine:retry:hopeless": Requirement(
        "flaw B10", "Trouble that waiting does not cure is not tried again."
    ),
    "engine:retry:nothing-lost": Requirement(
        "flaw B8",
        "The message and its results are sent again, unchanged, after an empty or broken reply.",
    ),
    # The model's window
    "context:never-above-window": Requirement(
        "spec, context management", "No request is longer than the model's window."
    ),
    "context:long": Requirement(
        "D41", "A task goes on for as long as it takes, however small the window."
    ),
    "context:nested": Requirement(
        "spec, context management", "A summary covers the one before and what came after it."
    ),
    "context:kept": Requirement(
        "D41", "The person's words, open todos, mode and files in play are kept without a model."
    ),
    "context:stable-prefix": Requirement(
        "D28", "Between two summaries a request begins with the bytes of the one before."
    ),
    "context:threshold": Requirement(
        "Roo Code, settings", "`autoCondenseContextPercent` and `profileThresholds` say when."
    ),
    "context:truncation": Requirement(
        "flaw B12", "Truncation counts what the model really sees, and leaves no result alone."
    ),
    "context:overflow": Requirement(
        "flaw B13", "A request that a service finds too long is made shorter, never sent again."
    ),
    "context:giant-result": Requirement(
        "spec, context management", "A result that is larger than the window is cut to fit."
    ),
    "context:too-much": Requirement(
        "spec, context management", "Words that no window holds end the run and say so."
    ),
    "context:subtasks": Requirement(
        "spec, subtasks", "A subtask's conversation is summed up for itself."
    ),
    "context:manual": Requirement(
        "Roo Code, condensing", "A person may have a conversation summed up at any time."
    ),
    "context:cancel": Requirement("D41", "A summary that is stopped changes nothing."),
    "context:crash": Requirement("D41", "A death while a summary is written changes nothing."),
    "context:rewind": Requirement("spec, rewind", "Going back before a summary shows what it hid."),
    "context:adopted": Requirement("on disk", "A task that Roo wrote can be summed up."),
    "engine:cancel:before-reply": Requirement(
        "flaw B5", "Cancel before the first chunk leaves valid histories."
    ),
    "engine:cancel:mid-text": Requirement(
        "flaw B5", "Cancel in the middle of text keeps what had arrived."
    ),
    "engine:cancel:mid-arguments": Requirement(
        "flaw B5", "Cancel in the middle of arguments runs nothing."
    ),
    "engine:cancel:during-tool": Requirement(
        "flaw B5", "Cancel during a command kills it and answers the call as interrupted."
    ),
    "engine:cancel:during-wait": Requirement(
        "flaw B2", "Cancel during the countdown ends it at once."
    ),
    "engine:cancel:twice": Requirement(
        "flaw B2", "Cancelling twice, or right after the start, does no harm."
    ),
    "engine:resume:same-model": Requirement(
        "settings belong to the task", "A resumed task stays with its model and its address."
    ),
    "engine:resume:goes-on": Requirement(
        "seed 001, Protocol Selection", "A cancelled task goes on with all it knew."
    ),
    "engine:resume:completed": Requirement(
        "D16", "A completed task can be continued with new words."
    ),
    "engine:resume:after-kill": Requirement(
        "flaw B11", "What was acknowledged before the process died is there afterwards."
    ),
    "engine:resume:same-protocol": Requirement("D8", "An XML task resumes as XML."),
    "engine:tasks:side-by-side": Requirement(
        "flaw B4", "Many tasks run in one process without touching each other."
    ),
    "engine:tasks:own-settings": Requirement(
        "flaw B14", "A change for one task does not reach another."
    ),
    "engine:events:replay": Requirement(
        "seed 004, Synchronization",
        "A subscriber may ask for everything after a number and misses nothing.",
    ),
    "engine:usage:adds-up": Requirement(
        "seed 000, Token Usage Tracking",
        "Tokens and cost of all requests add up, failed ones included.",
    ),
    # Keeping tasks
    "store:layout": Requirement(
        "D5, seed 004, File Locations", "A task's files are where the seed puts them."
    ),
    "store:home": Requirement("D5", "`JOEY_HOME` moves everything."),
    "store:journal": Requirement(
        "flaw B11", "What is committed is on disk and is read back in order."
    ),
    "store:torn-line": Requirement(
        "flaw B11", "A torn last line is cut off; everything before it loads."
    ),
    "store:unreadable": Requirement(
        "flaw B11", "What cannot be read is kept aside and reported, never overwritten."
    ),
    "store:snapshots": Requirement(
        "seed 004, Saving", "Both history files are whole, valid JSON at every moment."
    ),
    "store:at-rest": Requirement(
        "seed 004, Saving", "When a task comes to rest, both history files are up to date."
    ),
    "store:full-disk": Requirement(
        "flaw B11", "A full disk is told with its place; what was written before stays whole."
    ),
    "store:private": Requirement(
        "security K9", "Folders are 0700 and files 0600 whatever the umask."
    ),
    "store:one-holder": Requirement(
        "flaw B11", "A second process gets a clear error; a dead holder's lock is taken over."
    ),
    "store:adoption": Requirement(
        "D5", "Folders that Roo wrote are read and continued, and their files kept."
    ),
    "store:listing": Requirement("seed 004, File Locations", "Tasks are listed, the latest first."),
    "store:artifacts": Requirement("flaw B16", "Command output is kept as long as its task."),
    # Tasks from other programs, and for them
    "adoption:places": Requirement(
        "D5", "Tasks of Roo Code, Zoo Code and Cline are found where each editor keeps them."
    ),
    "adoption:dry-run": Requirement("D5", "What would be imported can be seen before."),
    "adoption:forms": Requirement(
        "D5, seed 004, File Locations", "Folders of any age open, whole or damaged."
    ),
    "adoption:unaltered": Requirement(
        "D5", "Looking at a folder of another program, or importing it, alters nothing in it."
    ),
    "adoption:copied": Requirement("D5", "Imported tasks are listed and shown; none comes twice."),
    "adoption:damaged": Requirement("D5", "A damaged task is told, and keeps no other back."),
    "adoption:resumed": Requirement(
        "D8", "An imported task goes on in its protocol, with a history that a provider takes."
    ),
    "adoption:protocol": Requirement("D8", "The lock of an older task is found in its editor."),
    "adoption:hidden": Requirement(
        "engine 3.7, 3.9", "What Roo has hidden stays, and comes back with a rewind."
    ),
    "adoption:usage": Requirement("D5", "What a task has cost before it was imported is counted."),
    "adoption:family": Requirement("D5", "Imported subtasks and their parents know each other."),
    "adoption:large": Requirement("D5", "A task of fifty megabytes opens whole."),
    "export:roo": Requirement("D5", "A task can be written as a folder that Roo Code lists."),
    "export:round-trip": Requirement("D5", "What is exported is imported again as it was."),
    "export:markdown": Requirement("D5", "A task can be written as a document."),
    "secrets:canary": Requirement(
        "security P6, K9", "A key or token that is planted is found nowhere after real runs."
    ),
    "secrets:log": Requirement("security K9", "Every log blots secrets out where it is written."),
    "secrets:children": Requirement(
        "security P6", "No process that is started gets keys or tokens, by whatever way."
    ),
    "secrets:modes": Requirement(
        "security K9", "All that is under JOEY_HOME is closed to others, whatever the umask."
    ),
    "gates:table": Requirement(
        "security, 6", "Each tool, command, route and setting has a gate, and the document says it."
    ),
    "gates:user-scope": Requirement(
        "security K4", "No setting can be loosened by a file of the project."
    ),
    "export:secrets": Requirement("security K9", "What is exported carries no secret along."),
    "export:force": Requirement("D5", "Exporting replaces nothing unless it is told to."),
    "tasks:index:true": Requirement(
        "D5", "The index tells what the folders hold, whoever changed, moved or added them."
    ),
    "tasks:index:many": Requirement(
        "D5", "Among very many tasks, what is shown is true without looking at every folder."
    ),
    "tasks:index:rebuilt": Requirement(
        "D5", "An index that is damaged, foreign or missing is made anew from the folders."
    ),
    "tasks:index:kill": Requirement("D5", "A kill while the index is built harms nothing."),
    "tasks:index:processes": Requirement("D5", "Several processes write and read it at once."),
    "tasks:index:unwritable": Requirement(
        "D5", "Where it cannot be written, the folders are read instead; no task ever fails by it."
    ),
    "tasks:index:private": Requirement("security K9", "Only its owner can read the index."),
    "tasks:index:search": Requirement(
        "D5", "Words, phrases and beginnings of words are found, in any script."
    ),
    "tasks:index:syntax": Requirement(
        "D5", "Nothing that is searched for is taken for the syntax of a query."
    ),
    "tasks:index:deleted": Requirement(
        "D5", "Of a deleted task nothing is left, in its folder or in the index."
    ),
    # What is allowed
    "permissions:commands:words": Requirement(
        "flaw B19", "Rules match whole words: `git` does not allow `gitevil`."
    ),
    "permissions:commands:substitution": Requirement(
        "flaw B19", "A substitution is seen inside quotes, defaults and arithmetic."
    ),
    "permissions:commands:redirection": Requirement("flaw B19", "A redirection into a file asks."),
    "permissions:commands:every-part": Requirement(
        "security K1", "Each command of a line or pipeline must be allowed."
    ),
    "permissions:commands:deny": Requirement(
        "security K1", "A denied command stays denied behind wrappers, paths and quotes."
    ),
    "permissions:commands:evaluated": Requirement(
        "security K1", "Code that a line computes asks where there is a deny rule."
    ),
    "permissions:commands:remote-helpers": Requirement(
        "security K1", "An address that makes git run a helper program asks, under any rule."
    ),
    "permissions:commands:longest": Requirement(
        "security K1", "Of an allowing and a denying rule the longer one counts; deny wins a tie."
    ),
    "permissions:commands:unclear": Requirement("security P2", "What cannot be parsed asks."),
    "permissions:commands:harmless": Requirement(
        "security K1", "A plain command on the list runs without asking."
    ),
    "permissions:commands:options": Requirement(
        "security K1", "Options that write or execute ask, even for a listed program."
    ),
    "permissions:commands:two-readings": Requirement(
        "security K1", "What the shell's grammar reads otherwise than the rules do asks."
    ),
    "permissions:commands:faults": Requirement(
        "security P2", "A fault in the rules, a huge line or a deep one asks; it never allows."
    ),
    "permissions:commands:corpus": Requirement(
        "security, evidence",
        "No hostile command that runs unasked does harm; of harmless ones 95 in 100 run unasked.",
    ),
    "permissions:commands:reading": Requirement(
        "security P2", "Sandboxed commands that only read run unasked, and start no helpers of git."
    ),
    "permissions:commands:protected": Requirement(
        "security K3", "A command that would change a protected file asks, through links too."
    ),
    "permissions:sandbox:told": Requirement(
        "security 4", "Each approval tells how far the command is confined, and which rule decided."
    ),
    "permissions:custom-tools": Requirement(
        "security P1", "Leave to run some commands is no leave to run tools of one's own."
    ),
    "permissions:narrowest": Requirement(
        "security K1", "The rule that `always allow` makes covers the command and no other program."
    ),
    "permissions:yes-boundary": Requirement(
        "security P7", "With `-y`, file tools reach what sandboxed commands can, and no more."
    ),
    "permissions:add-dir": Requirement(
        "security P7", "`--add-dir` opens a directory to file tools and sandboxed commands alike."
    ),
    "permissions:explain": Requirement(
        "security K1",
        "`joey permissions explain` says what the engine would decide, and changes nothing.",
    ),
    "permissions:report": Requirement(
        "security P1",
        "A journal tells of each call which rule, or whose answer, let it run or not.",
    ),
    "permissions:report:rules": Requirement(
        "security P1", "Calls of earlier tasks can be judged again by other rules."
    ),
    "permissions:report:reads": Requirement(
        "security P4", "The report runs nothing and changes nothing."
    ),
    "always:narrowest": Requirement(
        "security P1", "The rule that an answer adds covers the command that was asked about."
    ),
    "always:not-offered": Requirement(
        "security P2", "Where no rule says just this, none is offered."
    ),
    "always:denied": Requirement(
        "security K1", "No rule is offered that would get around a denied command."
    ),
    "always:nothing-else": Requirement(
        "security P1", "Adding a rule allows what it says and wakes up no other."
    ),
    "always:written": Requirement(
        "security K9", "A rule is written into the person's settings; all else there stays."
    ),
    "always:task": Requirement(
        "security P1",
        "The task that asked goes by the rule at once, and asks about other commands.",
    ),
    "always:edits": Requirement(
        "security P1",
        "Leave to edit covers unprotected files of the workspace, and ends with its task.",
    ),
    "always:scope": Requirement(
        "security P1",
        "A rule goes as far as the answer says: task, directory, everywhere; and can be revoked.",
    ),
    "always:only-yes": Requirement("security P1", "Only a yes to an open question makes a rule."),
    "sandbox:network:answers": Requirement(
        "security P1",
        "An approval says what a command reaches; a yes may open the network for this command.",
    ),
    "always:client": Requirement(
        "security K6", "The engine makes the rule; a client may take it, or not."
    ),
    "project-settings:tighten": Requirement(
        "security K4", "Settings of a project make rules stricter, against flags too."
    ),
    "project-settings:never-loosen": Requirement(
        "security K4", "What would loosen anything is passed over, and named."
    ),
    "project-settings:unclear": Requirement(
        "security P2", "If the file cannot be understood, everything is asked."
    ),
    # Hooks
    "hooks:before": Requirement(
        "security P3", "A hook sees a call before it runs, and stops it with a reason."
    ),
    "hooks:approved": Requirement("security P3", "A hook cannot change what was approved."),
    "hooks:ask": Requirement("security P1", "A hook never turns a question into a yes."),
    "hooks:denied": Requirement("security P1", "Hooks do not run for what the rules refuse."),
    "hooks:completion": Requirement("security P1", "A hook may send a result back."),
    "hooks:failure": Requirement(
        "security P2", "A hook that fails is told once, and blocks where it has to succeed."
    ),
    "hooks:bounds": Requirement(
        "security P8", "Time and output of a hook are bounded, and nothing of it is left behind."
    ),
    "hooks:cancel": Requirement("security K10", "Cancelling a task ends its hook."),
    "hooks:environment": Requirement("security P6", "Hooks get no keys."),
    "hooks:trust": Requirement(
        "security K4", "A project's hooks run once they are trusted, byte for byte."
    ),
    "hooks:changed": Requirement(
        "security K4", "A hook that is changed while a task works counts as failed."
    ),
    "hooks:links": Requirement(
        "security K2", "Links lead no file of hooks out of the workspace, and trust to other bytes."
    ),
    "hooks:shown": Requirement("security K4", "The question of trust shows the whole command."),
    "hooks:protected": Requirement("security K3", "Files of hooks are protected."),
    "permissions:paths:outside": Requirement(
        "security K2", "Paths outside the workspace ask, also through links and `..`."
    ),
    "permissions:paths:race": Requirement(
        "security K2", "Swapping files and links meanwhile lets nothing in or out."
    ),
    "permissions:paths:approved": Requirement(
        "security P3", "What was approved is written where it was approved, or not at all."
    ),
    "permissions:paths:special": Requirement(
        "security K2", "Pipes, devices, sockets and files of the kernel are refused, not awaited."
    ),
    "permissions:paths:protected": Requirement(
        "security K3", "Files that are executed later or loosen the rules ask."
    ),
    "permissions:settings": Requirement(
        "seed 004, UI Messages Need",
        "Each `alwaysAllow…` setting opens exactly its own kind of call.",
    ),
    "permissions:nobody-there": Requirement(
        "security P2", "With nobody to ask, what is not allowed is refused."
    ),
    # The tools
    "tools:schemas": Requirement(
        "seed 000, API Request Structure",
        "Every tool has a closed schema, with all its parameters described.",
    ),
    "tools:xml-catalogue": Requirement(
        "seed 003, System Prompt Analysis", "In XML the prompt describes every tool with its tags."
    ),
    "tools:lenient-arguments": Requirement(
        "seed 001, ToolUse Data Structure",
        "Numbers and booleans given as text are understood in both protocols.",
    ),
    "tools:missing-parameter": Requirement(
        "seed 001, ToolUse Data Structure", "A missing parameter is named in the result."
    ),
    # Every tool, in both protocols: `tool:NAME:schema`, `native`, `xml`, `approval`, `success` and
    # `failure:WHICH`, each with more behind a further colon
    "tool:read_file:schema": _tool("Offered with its schema, natively and in the XML catalogue."),
    "tool:read_file:native": _tool("A native call is read at every split."),
    "tool:read_file:xml": _tool("An XML call means the same, at every split."),
    "tool:read_file:approval": _tool(
        "The person sees what it is about, and is asked unless `alwaysAllowReadOnly` is on."
    ),
    "tool:read_file:failure:missing": _tool("A missing parameter is named."),
    "tool:read_file:failure:hidden": _tool("What `.rooignore` hides is refused."),
    "tool:read_file:failure:no-file": _tool("A file that is not there is told."),
    "tool:read_file:failure:folder": _tool("A folder in place of a file is told."),
    "tool:read_file:failure:wrong-kind": _tool("A value of the wrong kind is named as such."),
    "tool:read_file:failure:bad-lines": _tool("Lines that make no sense are refused."),
    "tool:read_file:failure:bad-range": _tool("A range that ends before it begins is refused."),
    "tool:read_file:failure:past-the-end": _tool("What is behind the end is told."),
    "tool:read_file:failure:unclear-lines": _tool(
        "Lines that may belong to any of several paths are refused."
    ),
    "tool:read_file:failure:special": _tool("Pipes, devices and sockets are never read."),
    "tool:search_files:schema": _tool(
        "Offered with its schema, natively and in the XML catalogue."
    ),
    "tool:search_files:native": _tool("A native call is read at every split."),
    "tool:search_files:xml": _tool("An XML call means the same, at every split."),
    "tool:search_files:approval": _tool(
        "The person sees what it is about, and is asked unless `alwaysAllowReadOnly` is on."
    ),
    "tool:search_files:failure:missing": _tool("A missing parameter is named."),
    "tool:search_files:failure:hidden": _tool("What `.rooignore` hides is refused."),
    "tool:search_files:failure:no-folder": _tool("A folder that is not there is told."),
    "tool:list_files:schema": _tool("Offered with its schema, natively and in the XML catalogue."),
    "tool:list_files:native": _tool("A native call is read at every split."),
    "tool:list_files:xml": _tool("An XML call means the same, at every split."),
    "tool:list_files:approval": _tool(
        "The person sees what it is about, and is asked unless `alwaysAllowReadOnly` is on."
    ),
    "tool:list_files:failure:missing": _tool("A missing parameter is named."),
    "tool:list_files:failure:hidden": _tool("What `.rooignore` hides is refused."),
    "tool:list_files:failure:no-folder": _tool("A folder that is not there is told."),
    "tool:list_code_definition_names:schema": _tool(
        "Offered with its schema, natively and in the XML catalogue."
    ),
    "tool:list_code_definition_names:xml": _tool("An XML call means the same, at every split."),
    "tool:list_code_definition_names:approval": _tool(
        "The person sees what it is about, and is asked unless `alwaysAllowReadOnly` is on."
    ),
    "tool:list_code_definition_names:failure:missing": _tool("A missing parameter is named."),
    "tool:list_code_definition_names:failure:hidden": _tool("What `.rooignore` hides is refused."),
    "tool:list_code_definition_names:failure:no-file": _tool("A file that is not there is told."),
    "tool:list_code_definition_names:failure:no-parser": _tool(
        "Without a parser the other tools are named."
    ),
    "tool:codebase_search:schema": _tool(
        "Offered with its schema, natively and in the XML catalogue."
    ),
    "tool:codebase_search:native": _tool("A native call is read at every split."),
    "tool:codebase_search:xml": _tool("An XML call means the same, at every split."),
    "tool:codebase_search:failure:missing": _tool("A missing parameter is named."),
    "tool:codebase_search:failure:hidden": _tool("What `.rooignore` hides is refused."),
    "tool:codebase_search:failure:outside": _tool("What is outside of the workspace is refused."),
    "tool:codebase_search:failure:no-index": _tool("Without an index the other tools are named."),
    "tool:codebase_search:failure:not-ready": _tool(
        "While the index is filled it says how far it is."
    ),
    "tool:codebase_search:failure:broken": _tool(
        "An index that cannot be used names the other tool."
    ),
    "tool:fetch_instructions:schema": _tool(
        "Offered with its schema, natively and in the XML catalogue."
    ),
    "tool:fetch_instructions:native": _tool("A native call is read at every split."),
    "tool:fetch_instructions:xml": _tool("An XML call means the same, at every split."),
    "tool:fetch_instructions:approval": _tool(
        "The person sees what it is about, and is asked unless `autoApprovalEnabled` is on."
    ),
    "tool:fetch_instructions:failure:missing": _tool("A missing parameter is named."),
    "tool:apply_diff:schema": _tool("Offered with its schema, natively and in the XML catalogue."),
    "tool:apply_diff:xml": _tool("An XML call means the same, at every split."),
    "tool:apply_diff:failure:hidden": _tool("What `.rooignore` hides is refused."),
    "tool:apply_diff:failure:binary": _tool("A file that is no text is left alone."),
    "tool:apply_diff:failure:folder": _tool("A folder in place of a file is told."),
    "tool:apply_diff:failure:changed-meanwhile": _tool(
        "A file that changed since the approval is left alone."
    ),
    "tool:apply_diff:failure:outside": _tool(
        "What is found outside is told only once it is allowed."
    ),
    "tool:apply_patch:failure:hidden": _tool("What `.rooignore` hides is refused."),
    "tool:apply_patch:failure:no-file": _tool("A file that is not there is told."),
    "tool:apply_patch:failure:empty": _tool("An empty patch is refused."),
    "tool:apply_patch:failure:exists": _tool("A file that is there is not made anew."),
    "tool:apply_patch:failure:taken": _tool("Nothing is moved to where a file is."),
    "tool:apply_patch:failure:binary": _tool("A file that is no text is left alone."),
    "tool:apply_patch:failure:folder": _tool("A folder in place of a file is told."),
    "tool:apply_patch:failure:changed-by-others": _tool(
        "A file that somebody else changed is left alone."
    ),
    "tool:edit:schema": _tool("Offered with its schema, natively and in the XML catalogue."),
    "tool:edit:xml": _tool("An XML call means the same, at every split."),
    "tool:edit:failure:hidden": _tool("What `.rooignore` hides is refused."),
    "tool:edit:failure:binary": _tool("A file that is no text is left alone."),
    "tool:edit:failure:folder": _tool("A folder in place of a file is told."),
    "tool:edit:failure:bad-operation": _tool("An operation without a text to look for is refused."),
    "tool:edit:failure:no-operation-fits": _tool("If no operation fits, each is told."),
    "tool:edit:failure:bad-expression": _tool("What is no regular expression is told."),
    "tool:search_replace:schema": _tool(
        "Offered with its schema, natively and in the XML catalogue."
    ),
    "tool:search_replace:xml": _tool("An XML call means the same, at every split."),
    "tool:search_replace:failure:hidden": _tool("What `.rooignore` hides is refused."),
    "tool:search_replace:failure:binary": _tool("A file that is no text is left alone."),
    "tool:search_replace:failure:folder": _tool("A folder in place of a file is told."),
    "tool:search_replace:failure:identical": _tool("Identical texts are refused."),
    "tool:edit_file:schema": _tool("Offered with its schema, natively and in the XML catalogue."),
    "tool:edit_file:xml": _tool("An XML call means the same, at every split."),
    "tool:edit_file:failure:hidden": _tool("What `.rooignore` hides is refused."),
    "tool:edit_file:failure:binary": _tool("A file that is no text is left alone."),
    "tool:edit_file:failure:folder": _tool("A folder in place of a file is told."),
    "tool:edit_file:failure:bad-count": _tool("A count below one is refused."),
    "tool:edit_file:failure:exists": _tool("A file that is there is not made anew."),
    "tool:write_to_file:schema": _tool(
        "Offered with its schema, natively and in the XML catalogue."
    ),
    "tool:write_to_file:xml": _tool("An XML call means the same, at every split."),
    "tool:write_to_file:failure:hidden": _tool("What `.rooignore` hides is refused."),
    "tool:write_to_file:failure:folder": _tool("A folder in place of a file is told."),
    "tool:write_to_file:failure:changed-meanwhile": _tool(
        "A file that changed since the approval is left alone."
    ),
    "tool:generate_image:schema": _tool(
        "Offered with its schema, natively and in the XML catalogue."
    ),
    "tool:generate_image:native": _tool("A native call is read at every split."),
    "tool:generate_image:failure:missing": _tool("A missing parameter is named."),
    "tool:generate_image:failure:hidden": _tool("What `.rooignore` hides is refused."),
    "tool:generate_image:failure:no-model": _tool(
        "Without a model for pictures the setting is named."
    ),
    "tool:generate_image:failure:not-a-picture": _tool("Only pictures can be started from."),
    "tool:generate_image:failure:no-picture": _tool("A picture that is not there is told."),
    "tool:generate_image:failure:unknown-kind": _tool("A picture of an unknown kind is told."),
    "tool:generate_image:failure:too-big": _tool("A picture beyond the limit is refused."),
    "tool:insert_content:failure:missing": _tool("A missing parameter is named."),
    "tool:insert_content:failure:hidden": _tool("What `.rooignore` hides is refused."),
    "tool:insert_content:failure:bad-line": _tool("A line below zero is refused."),
    "tool:insert_content:failure:past-the-end": _tool(
        "A line behind the end is told with their number."
    ),
    "tool:insert_content:failure:no-file": _tool("A file that is not there is told."),
    "tool:insert_content:failure:binary": _tool("A file that is no text is left alone."),
    "tool:insert_content:failure:folder": _tool("A folder in place of a file is told."),
    "tool:insert_content:failure:changed-by-others": _tool(
        "A file that somebody else changed is left alone."
    ),
    "tool:execute_command:schema": _tool(
        "Offered with its schema, natively and in the XML catalogue."
    ),
    "tool:execute_command:native": _tool("A native call is read at every split."),
    "tool:execute_command:xml": _tool("An XML call means the same, at every split."),
    "tool:execute_command:approval": _tool(
        "The person sees what it is about, and is asked unless `alwaysAllowExecute` is on."
    ),
    "tool:execute_command:failure:missing": _tool("A missing parameter is named."),
    "tool:execute_command:failure:no-folder": _tool("A folder that is not there is told."),
    "tool:execute_command:failure:hidden": _tool("What `.rooignore` hides is refused."),
    "tool:execute_command:failure:denied": _tool("What a rule denies is refused."),
    "tool:execute_command:failure:killed": _tool(
        "A command that takes longer than the user allows is killed."
    ),
    "tool:read_command_output:schema": _tool(
        "Offered with its schema, natively and in the XML catalogue."
    ),
    "tool:read_command_output:native": _tool("A native call is read at every split."),
    "tool:read_command_output:xml": _tool("An XML call means the same, at every split."),
    "tool:read_command_output:approval": _tool(
        "The person sees what it is about; nobody is asked."
    ),
    "tool:read_command_output:success": _tool("Kept output is paged through or searched."),
    "tool:read_command_output:success:wait": _tool("A background command is waited for."),
    "tool:read_command_output:success:stop": _tool("A background command is stopped."),
    "tool:read_command_output:failure:missing": _tool("A missing parameter is named."),
    "tool:read_command_output:failure:bad-id": _tool("Only ids of the right form are looked at."),
    "tool:read_command_output:failure:unknown": _tool("Output that was not kept is told."),
    "tool:read_command_output:failure:bad-offset": _tool(
        "An offset outside of the output is refused."
    ),
    "tool:read_command_output:failure:bad-limit": _tool("A limit of nothing is refused."),
    "tool:read_command_output:failure:endless-search": _tool(
        "An expression that never ends is stopped."
    ),
    "tool:ask_followup_question:schema": _tool(
        "Offered with its schema, natively and in the XML catalogue."
    ),
    "tool:ask_followup_question:native": _tool("A native call is read at every split."),
    "tool:ask_followup_question:xml": _tool("An XML call means the same, at every split."),
    "tool:ask_followup_question:approval": _tool(
        "The person sees what it is about, and is always asked."
    ),
    "tool:ask_followup_question:failure:missing": _tool("A missing parameter is named."),
    "tool:ask_followup_question:failure:bad-suggestions": _tool(
        "Suggestions of the wrong kind are refused."
    ),
    "tool:ask_followup_question:failure:nobody": _tool(
        "A question that nobody answers is an error."
    ),
    "tool:attempt_completion:schema": _tool(
        "Offered with its schema, natively and in the XML catalogue."
    ),
    "tool:attempt_completion:native": _tool("A native call is read at every split."),
    "tool:attempt_completion:xml": _tool("An XML call means the same, at every split."),
    "tool:attempt_completion:approval": _tool(
        "The person sees what it is about, and is always asked."
    ),
    "tool:attempt_completion:failure:missing": _tool("A missing parameter is named."),
    "tool:attempt_completion:failure:open-todos": _tool(
        "Open todos keep the task from being completed, if set so."
    ),
    "tool:attempt_completion:failure:after-a-failure": _tool(
        "Not in a reply in which a call failed."
    ),
    "tool:switch_mode:schema": _tool("Offered with its schema, natively and in the XML catalogue."),
    "tool:switch_mode:native": _tool("A native call is read at every split."),
    "tool:switch_mode:xml": _tool("An XML call means the same, at every split."),
    "tool:switch_mode:approval": _tool(
        "The person sees what it is about, and is asked unless `alwaysAllowModeSwitch` is on."
    ),
    "tool:switch_mode:failure:missing": _tool("A missing parameter is named."),
    "tool:switch_mode:failure:unknown": _tool("An unknown name is answered with the known ones."),
    "tool:switch_mode:failure:already": _tool("The current mode is told."),
    "tool:new_task:schema": _tool("Offered with its schema, natively and in the XML catalogue."),
    "tool:new_task:xml": _tool("An XML call means the same, at every split."),
    "tool:new_task:approval": _tool(
        "The person sees what it is about, and is asked unless `alwaysAllowSubtasks` is on."
    ),
    "tool:new_task:success": _tool("The result of the subtask is the result of the call."),
    "tool:new_task:failure:missing": _tool("A missing parameter is named."),
    "tool:new_task:failure:unknown-mode": _tool("An unknown mode is answered with the known ones."),
    "tool:new_task:failure:no-todos": _tool(
        "A todo list is asked for where the settings want one."
    ),
    "tool:new_task:failure:subtask-failed": _tool(
        "A subtask that fails is an error, and the task goes on."
    ),
    "tool:new_task:failure:subtask-stopped": _tool("A subtask that is stopped is an error, too."),
    "tool:new_task:failure:too-deep": _tool("Subtasks are nested eight deep and no deeper."),
    "tool:new_task:failure:no-repository": _tool("A worktree needs a git repository."),
    "tool:update_todo_list:schema": _tool(
        "Offered with its schema, natively and in the XML catalogue."
    ),
    "tool:update_todo_list:native": _tool("A native call is read at every split."),
    "tool:update_todo_list:xml": _tool("An XML call means the same, at every split."),
    "tool:update_todo_list:approval": _tool("The person sees what it is about; nobody is asked."),
    "tool:update_todo_list:failure:missing": _tool("A missing parameter is named."),
    "tool:update_todo_list:failure:no-steps": _tool("A list without steps is refused."),
    "tool:update_todo_list:failure:bad-status": _tool("An unknown status is named."),
    "tool:browser_action:schema": _tool(
        "Offered with its schema, natively and in the XML catalogue."
    ),
    "tool:browser_action:native": _tool("A native call is read at every split."),
    "tool:browser_action:success": _tool("A page is opened and seen."),
    "tool:browser_action:failure:missing": _tool("A missing parameter is named."),
    "tool:browser_action:failure:no-url": _tool("What an action needs is named."),
    "tool:browser_action:failure:unknown": _tool("An unknown action is refused."),
    "tool:browser_action:failure:not-open": _tool("A step without a page is refused."),
    "tool:browser_action:failure:address": _tool(
        "Other addresses than pages and files are refused."
    ),
    "tool:browser_action:failure:no-browser": _tool("Without a browser it says what is needed."),
    "tool:browser_action:failure:bad-point": _tool("A point that is none is refused."),
    "tool:browser_action:failure:screenshot": _tool(
        "A screenshot stays in the workspace, as a picture."
    ),
    "tool:use_mcp_tool:schema": _tool("Offered in XML, where a server has tools."),
    "tool:use_mcp_tool:native": _tool("A native call is read at every split."),
    "tool:use_mcp_tool:xml": _tool("An XML call means the same, at every split."),
    "tool:use_mcp_tool:approval": _tool(
        "The person sees what it is about, and is asked unless `alwaysAllowMcp` is on."
    ),
    "tool:use_mcp_tool:success": _tool("The server's answer is the result."),
    "tool:use_mcp_tool:failure:missing": _tool("A missing parameter is named."),
    "tool:use_mcp_tool:failure:unknown-server": _tool(
        "An unknown server is answered with the known ones."
    ),
    "tool:use_mcp_tool:failure:unknown-tool": _tool(
        "An unknown tool is answered with the known ones."
    ),
    "tool:use_mcp_tool:failure:bad-arguments": _tool(
        "Arguments that are no JSON object are refused."
    ),
    "tool:use_mcp_tool:failure:tool-error": _tool("What the server calls an error is told as one."),
    "tool:use_mcp_tool:failure:switched-off": _tool(
        "Without servers it says which setting is off."
    ),
    "tool:access_mcp_resource:schema": _tool(
        "Offered with its schema, natively and in the XML catalogue."
    ),
    "tool:access_mcp_resource:native": _tool("A native call is read at every split."),
    "tool:access_mcp_resource:xml": _tool("An XML call means the same, at every split."),
    "tool:access_mcp_resource:approval": _tool(
        "The person sees what it is about, and is asked unless `alwaysAllowMcp` is on."
    ),
    "tool:access_mcp_resource:success": _tool("The resource is the result."),
    "tool:access_mcp_resource:failure:missing": _tool("A missing parameter is named."),
    "tool:access_mcp_resource:failure:unknown-server": _tool(
        "An unknown server is answered with the known ones."
    ),
    "tool:access_mcp_resource:failure:unknown": _tool(
        "What the server says of an unknown resource is told."
    ),
    "tool:access_mcp_resource:failure:switched-off": _tool(
        "Without servers it says which setting is off."
    ),
    "tool:mcp:schema": _tool("Offered natively, with the server's own schema."),
    "tool:mcp:native": _tool("A native call is read at every split."),
    "tool:mcp:xml": _tool("An XML call means the same, at every split."),
    "tool:mcp:approval": _tool(
        "The person sees what it is about, and is asked unless `alwaysAllowMcp` is on."
    ),
    "tool:mcp:success": _tool("The server's answer is the result."),
    "tool:mcp:failure:tool-error": _tool("What the server calls an error is told as one."),
    "tool:use_mcp_tool:schema:offered": _tool("Native tasks have a tool for each tool instead."),
    "tool:use_mcp_tool:schema:mode": _tool("A mode without the group `mcp` is offered none."),
    "tool:use_mcp_tool:native:arguments": _tool("Arguments may be an object or its JSON."),
    "tool:use_mcp_tool:approval:permission": _tool(
        "The switch alone is not enough: the tool must be on a list too."
    ),
    "tool:use_mcp_tool:success:says": _tool("Rows tell that a server is asked, and its answer."),
    "tool:access_mcp_resource:schema:offered": _tool("Offered where a server has resources."),
    "tool:mcp:schema:names": _tool("Names are made of letters that every provider takes."),
    "tool:mcp:schema:duplicates": _tool(
        "Of two tools that get the same name the first is offered."
    ),
    "tool:mcp:schema:stable": _tool("The same tools are offered in the same bytes."),
    "tool:mcp:native:mangled-names": _tool("Names that models mangle are understood (D2)."),
    "tool:mcp:failure:died": _tool("A server that dies in a call says so."),
    "tool:mcp:failure:timeout": _tool("A call that is never answered ends in time."),
    "tool:mcp:failure:ambiguous": _tool("A name that may mean two tools means none."),
    "tool:run_slash_command:schema": _tool(
        "Offered with its schema, natively and in the XML catalogue."
    ),
    "tool:run_slash_command:native": _tool("A native call is read at every split."),
    "tool:run_slash_command:xml": _tool("An XML call means the same, at every split."),
    "tool:run_slash_command:approval": _tool(
        "The person sees what it is about, and is asked unless `autoApprovalEnabled` is on."
    ),
    "tool:run_slash_command:failure:missing": _tool("A missing parameter is named."),
    "tool:run_slash_command:failure:unknown": _tool(
        "An unknown name is answered with the known ones."
    ),
    "tool:skill:schema": _tool("Offered with its schema, natively and in the XML catalogue."),
    "tool:skill:native": _tool("A native call is read at every split."),
    "tool:skill:xml": _tool("An XML call means the same, at every split."),
    "tool:skill:approval": _tool(
        "The person sees what it is about, and is asked unless `autoApprovalEnabled` is on."
    ),
    "tool:skill:failure:missing": _tool("A missing parameter is named."),
    "tool:skill:failure:unknown": _tool("An unknown name is answered with the known ones."),
    "tool:skill:failure:gone": _tool("What was deleted meanwhile is told."),
    "tool:custom:schema": _tool("Offered with the schema of the file."),
    "tool:custom:native": _tool("A native call is read at every split."),
    "tool:custom:xml": _tool("An XML call means the same, at every split."),
    "tool:custom:approval": _tool(
        "The person sees what it is about, and is asked unless `alwaysAllowExecute` is on."
    ),
    "tool:custom:failure:missing": _tool("A missing parameter is named."),
    "tool:custom:failure:error": _tool("What the tool raises is told."),
    "tool:custom:failure:gone": _tool("What was deleted meanwhile is told."),
    "tool:read_file:success": Requirement(
        "seed 000, Tool Execution", "Lines are numbered; ranges and several files work."
    ),
    "tool:read_file:success:odd-files": Requirement(
        "seed 000, Tool Execution",
        "A missing file, a folder, an empty or a binary file says what it is.",
    ),
    "tool:read_file:success:images": Requirement(
        "seed 000, Tool Execution", "An image is shown to models that can see it."
    ),
    "tool:write_to_file:success": Requirement(
        "seed 000, Turn 3",
        "A file is written with its parents; the result says created or modified.",
    ),
    "tool:write_to_file:native:alias": Requirement(
        "D1", "`file_text` means `content`, in both protocols."
    ),
    "tool:write_to_file:success:cleaning": Requirement(
        "seed 001, Example Comparison",
        "Fences around the content and line numbers in it are removed.",
    ),
    "tool:apply_diff:success:blocks": Requirement(
        "seed 003, System Prompt Analysis", "Several blocks apply, with or without line hints."
    ),
    "tool:apply_diff:success:tolerance": Requirement(
        "seed 003, System Prompt Analysis",
        "Whitespace, quotes and indentation may differ; the file's own are kept.",
    ),
    "tool:apply_diff:failure:format": Requirement(
        "D14", "A malformed diff is refused with the line and what was expected."
    ),
    "tool:apply_diff:success:in-part": Requirement(
        "seed 003, System Prompt Analysis",
        "What does not match is told with the nearest text; the rest applies.",
    ),
    "tool:apply_diff:success:line-ends": Requirement(
        "seed 003, System Prompt Analysis", "CRLF files stay CRLF."
    ),
    "tool:apply_patch:schema:offered": Requirement(
        "seed 003, System Prompt Analysis",
        "Models that know patches get apply_patch instead of apply_diff and write_to_file.",
    ),
    "tool:apply_patch:schema": Requirement(
        "seed 000, API Request Structure", "Its only parameter is the patch."
    ),
    "tool:apply_patch:native": Requirement(
        "seed 001, Native Tool Call Parser", "A native call brings its patch unchanged."
    ),
    "tool:apply_patch:xml": Requirement(
        "seed 001, XML Protocol", "Tags inside of `<patch>` are part of the patch."
    ),
    "tool:apply_patch:failure:missing": Requirement(
        "seed 001, ToolUse Data Structure", "A call without a patch names the parameter."
    ),
    "tool:apply_patch:approval": Requirement(
        "seed 004, UI Messages Need", "One approval shows every file with its change."
    ),
    "tool:apply_patch:success": Requirement(
        "seed 003, System Prompt Analysis", "A patch between two texts makes the second."
    ),
    "tool:apply_patch:success:adds": Requirement(
        "seed 003, System Prompt Analysis", "A new file is made with its folders."
    ),
    "tool:apply_patch:success:deletes": Requirement(
        "seed 003, System Prompt Analysis", "A file is deleted, and the row says so before."
    ),
    "tool:apply_patch:success:moves": Requirement(
        "seed 003, System Prompt Analysis", "A file is moved, changed or not."
    ),
    "tool:apply_patch:success:several": Requirement(
        "seed 003, System Prompt Analysis", "The result tells about every file of the patch."
    ),
    "tool:apply_patch:success:bytes": Requirement(
        "seed 003, System Prompt Analysis",
        "Line ends, the last newline, byte order mark and foreign bytes stay.",
    ),
    "tool:apply_patch:approval:paths": Requirement(
        "security K2, K3", "Every path of a patch is judged, targets of moves too."
    ),
    "tool:apply_patch:failure:outside": Requirement(
        "security P1", "What is found outside of the workspace is told only once it is allowed."
    ),
    "tool:apply_patch:failure:bad-format": Requirement(
        "D14", "What is no patch is refused with the line and what was expected."
    ),
    "tool:apply_patch:failure:miss": Requirement(
        "seed 003, System Prompt Analysis",
        "A chunk that does not fit is told with the nearest lines and why.",
    ),
    "tool:apply_patch:failure:collisions": Requirement(
        "seed 003, System Prompt Analysis",
        "If anything cannot be done, all of it is told and nothing is written.",
    ),
    "tool:apply_patch:failure:changed-meanwhile": Requirement(
        "security P3", "A file that changed after the approval keeps the patch from being written."
    ),
    "tool:apply_patch:failure:part-written": Requirement(
        "D14", "If writing fails half-way, the result says what was written and what was not."
    ),
    "tool:insert_content:schema": Requirement(
        "seed 003, System Prompt Analysis", "It is understood when called, and never offered."
    ),
    "tool:insert_content:native": Requirement(
        "seed 001, Native Tool Call Parser", "The line may be a number or text."
    ),
    "tool:insert_content:xml": Requirement(
        "seed 001, XML Protocol", "The content keeps its indentation and its tags."
    ),
    "tool:insert_content:approval": Requirement(
        "seed 004, UI Messages Need", "The row has the line and the change."
    ),
    "tool:insert_content:success": Requirement(
        "seed 003, System Prompt Analysis", "Lines go before a line, or with 0 to the end."
    ),
    "tool:insert_content:success:new-file": Requirement(
        "seed 003, System Prompt Analysis", "At line 0 or 1 a new file is made."
    ),
    "tool:insert_content:failure:outside": Requirement(
        "security P1", "What is found outside of the workspace is told only once it is allowed."
    ),
    "tool:search_files:success": Requirement(
        "seed 003, System Prompt Analysis",
        "Matches are grouped by file with numbered context; too many say so.",
    ),
    "tool:search_files:failure:bad-regex": Requirement(
        "seed 003, System Prompt Analysis", "An expression that is none is told as an error."
    ),
    "tool:list_files:success": Requirement(
        "seed 003, System Prompt Analysis",
        "Top level or recursive, ignoring what Git ignores, with a limit.",
    ),
    "tool:execute_command:success": Requirement(
        "seed 000, Turn 2", "The result has the exit code and the output."
    ),
    "tool:execute_command:success:true-exit": Requirement(
        "flaw B18", "Exit codes and signals are the process's own, also when killed."
    ),
    "tool:execute_command:success:whole-output": Requirement(
        "flaw B18", "A last line without a newline is in the result and in the file."
    ),
    "tool:execute_command:success:large-output": Requirement(
        "flaw B16", "Large output is kept in a file and shown by its head and tail."
    ),
    "tool:execute_command:success:binary-output": Requirement(
        "security P8", "Output that is no text spoils neither the run nor its history."
    ),
    "tool:execute_command:success:group": Requirement(
        "flaw B18", "Cancel and time-out end the whole process group."
    ),
    "tool:execute_command:success:environment": Requirement(
        "flaw B18, security K9",
        "The locale is left alone; keys are not passed on; stdin is closed.",
    ),
    "tool:ask_followup_question:success": Requirement(
        "seed 003, System Prompt Analysis",
        "The question and its suggestions reach the person, the answer the model.",
    ),
    "tool:switch_mode:success": Requirement(
        "seed 003, System Prompt Analysis",
        "The mode changes for this task; an unknown one is an error.",
    ),
    "tool:update_todo_list:success": Requirement(
        "seed 001, Attempt Completion Tool Execution", "A checklist becomes the task's todos."
    ),
    "tool:attempt_completion:success": Requirement(
        "seed 000, Turn 4", "The result is presented; without one the call is an error."
    ),
    # Editing by quoting
    "tool:edit:schema:offered": Requirement(
        "spec, edit", "Offered to models that know it best, or where the user chose it."
    ),
    "tool:edit:native": Requirement("spec, edit", "Understood in both protocols."),
    "tool:edit:native:older-forms": Requirement(
        "spec, search_and_replace",
        "Operations, and a search with flags and lines, are understood and carried out.",
    ),
    "tool:edit:failure:missing": Requirement("spec, edit", "A missing parameter is named."),
    "tool:edit:failure:identical": Requirement("spec, edit", "Identical texts are refused."),
    "tool:edit:approval": Requirement("spec, edit", "The row shows the change as a patch."),
    "tool:edit:success": Requirement(
        "spec, edit", "The text is replaced literally, once or everywhere."
    ),
    "tool:edit:failure:no-match": Requirement(
        "spec, edit", "A text that is not there is answered with what is, and why it differs."
    ),
    "tool:edit:failure:several-matches": Requirement(
        "spec, edit", "A text that is there several times is answered with the lines of each."
    ),
    "tool:edit:failure:no-file": Requirement(
        "spec, edit", "Only text files that exist are changed."
    ),
    "tool:search_replace:schema:offered": Requirement(
        "spec, search_replace", "Offered to models that know it best, or where the user chose it."
    ),
    "tool:search_replace:native": Requirement(
        "spec, search_replace", "Understood in both protocols."
    ),
    "tool:search_replace:failure:missing": Requirement(
        "spec, search_replace", "A missing parameter is named."
    ),
    "tool:search_replace:approval": Requirement(
        "spec, search_replace", "The row shows the change as a patch."
    ),
    "tool:search_replace:success": Requirement(
        "spec, search_replace", "The one place is replaced literally, by any path to the file."
    ),
    "tool:search_replace:failure:no-match": Requirement(
        "spec, search_replace", "A text that is not there is answered with what is."
    ),
    "tool:search_replace:failure:several-matches": Requirement(
        "spec, search_replace", "A text that is there several times is answered with their lines."
    ),
    "tool:search_replace:failure:no-file": Requirement(
        "spec, search_replace", "A file that is missing is told."
    ),
    "tool:edit_file:schema:offered": Requirement(
        "spec, edit_file", "Offered to models that know it best, or where the user chose it."
    ),
    "tool:edit_file:native": Requirement(
        "spec, edit_file", "Understood in both protocols; null stands for an empty text."
    ),
    "tool:edit_file:failure:missing": Requirement(
        "spec, edit_file", "A missing parameter is named."
    ),
    "tool:edit_file:approval": Requirement(
        "spec, edit_file", "The row shows the patch, and whether the file is new."
    ),
    "tool:edit_file:success:creates": Requirement(
        "spec, edit_file", "An empty old text makes a file, unless it exists."
    ),
    "tool:edit_file:success": Requirement(
        "spec, edit_file", "All places are replaced if there are as many as expected."
    ),
    "tool:edit_file:success:tolerance": Requirement(
        "spec, edit_file", "White space may differ, in two steps, and nothing around is eaten."
    ),
    "tool:edit_file:failure:no-match": Requirement(
        "spec, edit_file", "A text that is not there is answered with what is, and with advice."
    ),
    "tool:edit_file:failure:count": Requirement(
        "spec, edit_file", "Another number of places is told with their lines."
    ),
    "tool:edit_file:failure:no-file": Requirement(
        "spec, edit_file", "A file that is missing is told."
    ),
    "tool:edit_file:failure:identical": Requirement(
        "spec, edit_file", "Identical texts are refused."
    ),
    "tool:apply_diff:schema:offered": Requirement(
        "spec, apply_diff", "Offered unless the model or the user prefers another way to edit."
    ),
    "tool:apply_diff:native": Requirement(
        "spec, apply_diff", "One file or several, in both protocols."
    ),
    "tool:apply_diff:failure:missing": Requirement(
        "spec, apply_diff", "A missing parameter is named."
    ),
    "tool:apply_diff:approval": Requirement(
        "spec, apply_diff", "The row shows the blocks and the patch; a batch shows each file."
    ),
    "tool:apply_diff:success": Requirement(
        "spec, apply_diff", "The result says what was written, and what of it was not."
    ),
    "tool:apply_diff:failure:no-match": Requirement(
        "spec, apply_diff", "If nothing fits, the nearest text is shown with its likeness."
    ),
    "tool:apply_diff:failure:no-file": Requirement(
        "spec, apply_diff", "Only text files that exist are changed."
    ),
    "tool:write_to_file:schema:offered": Requirement(
        "spec, write_to_file", "Offered with its schema."
    ),
    "tool:write_to_file:native": Requirement(
        "spec, write_to_file", "Understood in both protocols, by older names too."
    ),
    "tool:write_to_file:failure:missing": Requirement(
        "spec, write_to_file", "A missing parameter is named."
    ),
    "tool:write_to_file:approval": Requirement(
        "spec, write_to_file", "The row shows the new file, or how the old one changes."
    ),
    "tool:write_to_file:success:problems": Requirement(
        "spec, write_to_file", "The result says what problems came with the change."
    ),
    "tool:write_to_file:failure:unwritable": Requirement(
        "spec, write_to_file", "Text that cannot be written as bytes is refused."
    ),
    "tool:write_to_file:failure:changed-by-others": Requirement(
        "spec, concurrent changes",
        "A file that changed since the model saw it is not overwritten.",
    ),
    "edits:bytes": Requirement(
        "spec, concurrent changes",
        "Line ends, encoding, mark and last newline survive every edit, and all bytes outside it.",
    ),
    "edits:changed-by-others": Requirement(
        "spec, concurrent changes",
        "An edit of a file that changed since the model saw it says so.",
    ),
    "edits:approved-bytes": Requirement(
        "spec, concurrent changes", "What is written is a change of the bytes that were approved."
    ),
    "prompts:environment:recently-modified": Requirement(
        "spec, environment details",
        "Files that somebody else changed since the model saw them are told once.",
    ),
    # Reading: all forms, documents, code, and files that mean no good
    "tool:read_file:native:shapes": Requirement(
        "seed 001, ToolUse Data Structure",
        "Every form that calls of read_file have had is understood, in both protocols.",
    ),
    "tool:read_file:success:block": Requirement(
        "seed 000, Tool Execution", "The block around a line is found by its indentation."
    ),
    "tool:read_file:success:line-limit": Requirement(
        "seed 000, Tool Execution",
        "`maxReadFileLine` shows all, some or no lines, and then what the code defines.",
    ),
    "tool:list_code_definition_names:success": Requirement(
        "seed 003, System Prompt Analysis",
        "Definitions of a file, or of the files in a folder, are listed with their lines.",
    ),
    "tool:list_code_definition_names:success:languages": Requirement(
        "seed 003, System Prompt Analysis",
        "Thirteen languages and the headings of Markdown are known.",
    ),
    "tool:list_code_definition_names:failure:file-by-file": Requirement(
        "security K2, P8", "What is missing, hidden, linked or hostile is refused, file by file."
    ),
    "tool:list_code_definition_names:native": Requirement(
        "seed 003, System Prompt Analysis", "It is understood natively and in XML."
    ),
    "tool:search_files:success:order": Requirement(
        "seed 003, System Prompt Analysis",
        "However many hits there are, the first ones by name are shown.",
    ),
    "tool:list_files:success:special": Requirement(
        "security P8", "Pipes, sockets and links that lead nowhere are named, not entered."
    ),
    "read:documents:text": Requirement(
        "seed 000, Tool Execution", "PDF, DOCX, XLSX and notebooks are read as text."
    ),
    "read:documents:numbered": Requirement(
        "seed 000, Tool Execution", "Their lines are numbered once, and can be asked for."
    ),
    "read:documents:locked": Requirement("security P8", "A document with a password says so."),
    "read:documents:damaged": Requirement("security P8", "A damaged document says so."),
    "read:documents:limits": Requirement("security P8", "Text without end is cut, with a note."),
    "read:event-loop": Requirement("security K11", "Reading large files keeps nobody waiting."),
    "read:hostile:apart": Requirement(
        "security P8",
        "A parser that crashes, loops or fills the memory costs one answer, not the engine.",
    ),
    "read:hostile:zip-bomb": Requirement("security K11", "What is unpacked is counted."),
    "read:hostile:xml-bomb": Requirement("security K11", "Entities are not expanded."),
    "read:hostile:pdf-bomb": Requirement("security K11", "A page that unfolds is left out."),
    "read:hostile:special-files": Requirement(
        "security K2", "Pipes, sockets, devices and loops of links are refused at once."
    ),
    "read:hostile:huge-file": Requirement("security K11", "A huge file takes little memory."),
    "read:hostile:long-line": Requirement(
        "security K11", "A line without end takes little memory, read or searched."
    ),
    "read:hostile:names": Requirement(
        "security K8", "Names with line breaks or bytes that are no text do no harm."
    ),
    "read:hostile:nul-bytes": Requirement("security K8", "NUL bytes do not reach the model."),
    "read:hostile:growing-file": Requirement(
        "security K11", "A file that changes while it is read has an end."
    ),
    # What the model is told
    "prompts:sections": Requirement(
        "seed 003, System Prompt Analysis",
        "The sections of the system prompt come in the seed's order.",
    ),
    "prompts:environment": Requirement(
        "seed 003, Content Parts", "Environment details have time, cost, mode and files."
    ),
    "prompts:first-message": Requirement(
        "seed 003, User Message Format", "The request is wrapped in the tags of its protocol."
    ),
    "prompts:envelopes": Requirement(
        "seed 001, Tool Execution",
        "Denials, errors and guidance are plain text, with the user's message in tags.",
    ),
    # Settings and the front
    "config:keys": Requirement(
        "seed 000, API Request Structure", "Keys and addresses come from the usual variables."
    ),
    "config:nothing-set": Requirement(
        "D12", "With no key and no local model, the message says the ways to go on."
    ),
    "config:local-model": Requirement(
        "D12", "The doctor finds a model server on loopback and says how to use it."
    ),
    "config:damaged": Requirement(
        "D12", "A file of settings that cannot be read is named, with the place and the remedy."
    ),
    "config:user-scope": Requirement(
        "security K4", "A workspace cannot set addresses, keys or permissions."
    ),
    "config:command": Requirement(
        "design, command line", "Every setting is described, shown with its origin, and changed."
    ),
    "config:profiles": Requirement(
        "design, command line", "Profiles are managed; keys are never on a command line or shown."
    ),
    "config:served-model": Requirement(
        "D89", "The only model of a server that is named without one is used; of several, told."
    ),
    "config:models-file": Requirement(
        "D88", "models.json corrects and extends the catalogue; mistakes are named."
    ),
    "config:models-refresh": Requirement(
        "D88", "A refresh is checked whole, stored apart, and says what changed."
    ),
    "config:first-run": Requirement(
        "D12", "Without a choice, a model server of this machine is offered with one key."
    ),
    "front:completion": Requirement(
        "design, command line", "bash, zsh and fish complete commands, flags and their values."
    ),
    "front:doctor": Requirement(
        "design, command line", "Each thing that is broken is found, with what to do about it."
    ),
    "front:print": Requirement("D12", "`-p` answers on stdout and reports progress on stderr."),
    "front:json": Requirement("D12", "The JSON formats are one document, or one event per line."),
    "front:exit-codes": Requirement("D12", "Every way to end has its exit code."),
    "front:signals": Requirement("D12", "An interrupt cancels the task, saves it and exits 130."),
    "front:continue": Requirement("D5", "`-c` and `-r` go on with an earlier task."),
    "front:tasks": Requirement("D5", "Tasks can be listed and shown."),
    "cli:tasks:filters": Requirement("D5", "Lists are narrowed by folder, status and time."),
    "cli:tasks:search": Requirement(
        "D5", "A search shows where the words were found: to people, pipes and programs."
    ),
    "cli:tasks:delete": Requirement(
        "D5", "Deleting asks, refuses where nobody can answer, and names subtasks."
    ),
    "cli:tasks:progress": Requirement("D5", "A person sees how far the index is being filled."),
    "front:approvals": Requirement(
        "D6", "Off a script, the person is asked and may answer with words."
    ),
    "front:screen": Requirement(
        "design, terminal screen", "A task is begun, seen, approved and left on a screen."
    ),
    "front:screen:type-ahead": Requirement(
        "D43", "Keys that were meant for words never answer a question that appears."
    ),
    "page:accidents": Requirement(
        "D43", "Presses and text meant for something else never answer a question on the page."
    ),
    "front:screen:mouse": Requirement(
        "D43", "The mouse never takes the keyboard from the composer or the question."
    ),
    "front:screen:rewind": Requirement(
        "design, terminal screen", "Going back shows what changes, and brings words and files back."
    ),
    "front:screen:resume": Requirement(
        "design, terminal screen", "Earlier tasks are found and gone on with."
    ),
    "front:screen:cancel": Requirement(
        "design, terminal screen", "Work is stopped with a key, and goes on with the next words."
    ),
    "front:screen:sizes": Requirement(
        "design, terminal screen", "The screen follows its window, down to the smallest."
    ),
    "front:screen:colours": Requirement(
        "design, terminal screen", "NO_COLOR is heeded, and the terminal's own colours are used."
    ),
    "front:screen:ends": Requirement(
        "design, terminal screen",
        "However it ends, the terminal is as it was and the task is whole.",
    ),
    "front:screen:key-checked": Requirement(
        "D89", "A key is checked with one free request before it is kept."
    ),
    "front:screen:key-replaced": Requirement(
        "D89", "A key that is refused can be replaced where that is told; the request is repeated."
    ),
    "front:screen:model-after-failure": Requirement(
        "D89", "After a failed request another model or provider can be chosen, and goes on."
    ),
    "front:screen:first-run": Requirement(
        "design, terminal screen",
        "Without a key, the screen leads to a model; the key is not shown.",
    ),
    "front:screen:plain": Requirement("design, terminal screen", "Who wants lines gets lines."),
    "front:safe-display": Requirement(
        "security K8", "Control sequences of the model do not reach the terminal."
    ),
    "front:trouble:key-and-model": Requirement(
        "D12, security K9", "A wrong key or model is told by its name, and never the key itself."
    ),
    "front:trouble:unreachable": Requirement(
        "D12", "An address where nobody answers is named, and the task is kept for another try."
    ),
    "front:trouble:workspace": Requirement(
        "D12", "A workspace that is no folder, or may not be read, is refused by its name."
    ),
    "front:trouble:unknown-task": Requirement(
        "D12", "A task that does not exist is refused by its name."
    ),
    "front:trouble:huge-prompt": Requirement(
        "D12", "A prompt beyond all reason is refused before the model is asked."
    ),
    "front:demo": Requirement(
        "seed 000, Scenario", "The demo plays the seed's conversation without key or network."
    ),
    # Doubles for tests
    "testing:server-anthropic": Requirement(
        "seed 000, Model Response", "The official client understands our scripted server."
    ),
    "testing:server-openai": Requirement(
        "seed 001, API Stream Chunks", "The other official client understands it too."
    ),
    "testing:script": Requirement(
        "seed 000, Scenario",
        "A script plays turns, pauses and failures, and says when it has run out.",
    ),
    # What people's files say to the agent
    "modes:fields": Requirement(
        "Roo Code, custom modes", "Every field of a custom mode is read, limits on edits included."
    ),
    "modes:precedence": Requirement(
        "Roo Code, custom modes",
        "A project's mode comes before the person's; either replaces a built-in one whole.",
    ),
    "modes:prompts": Requirement(
        "Roo Code, custom modes", "Settings may replace the words of built-in modes one by one."
    ),
    "modes:broken": Requirement(
        "D29", "One broken mode is dropped alone; a warning names the file, the mode and the field."
    ),
    "modes:cleaning": Requirement(
        "Roo Code, custom modes",
        "BOM, invisible and typographic characters do not spoil a file of modes.",
    ),
    "modes:file-regex": Requirement(
        "Roo Code, custom modes", "The pattern that limits edits means what it means in JavaScript."
    ),
    "modes:file-regex-bounded": Requirement(
        "D30, security P8", "No pattern of a workspace decides how long a match takes."
    ),
    "modes:lookup": Requirement(
        "Roo Code, custom modes",
        "Wherever a mode is named, it is looked up among those of the workspace.",
    ),
    "modes:deleted": Requirement(
        "Roo Code, custom modes", "A task whose mode is gone goes on in the usual one, and says so."
    ),
    "modes:profile": Requirement(
        "D31",
        "A mode may have a model of its own; the task remembers its own, and a flag beats both.",
    ),
    "modes:profile-missing": Requirement(
        "D31", "A mode whose profile cannot be used says so once and does without."
    ),
    "modes:commands": Requirement(
        "Roo Code, custom modes",
        "Slash commands are read from both scopes, with their front matter.",
    ),
    "modes:list": Requirement(
        "D12", "Modes can be listed, for people and programs, with what could not be used."
    ),
    "modes:show": Requirement("D12", "A mode can be shown with all that it is told."),
    "rules:order": Requirement(
        "Roo Code, rules",
        "Instructions and rules are told in one order: the person's, the project's, its parts'.",
    ),
    "rules:files": Requirement(
        "Roo Code, rules", "Rule files are found at any depth and told by name."
    ),
    "rules:fallbacks": Requirement(
        "Roo Code, rules",
        "`.roorules` and `.clinerules` count where no folder has rules.",
    ),
    "rules:agents": Requirement(
        "Roo Code, rules", "AGENTS.md and its local companion are rules too."
    ),
    "rules:size": Requirement("security P8", "Rules of any size leave room for the conversation."),
    "rules:links": Requirement(
        "Roo Code, rules", "Links inside the workspace are followed, loops are not."
    ),
    "rules:no-exfiltration": Requirement(
        "security K2", "A link of a project never brings a file from elsewhere into the prompt."
    ),
    "rules:safe-reading": Requirement(
        "security P8", "Pipes, devices and whatever cannot be read become warnings, not failures."
    ),
    "skills:index": Requirement(
        "Roo Code, skills", "The prompt lists the skills of a mode, and how to fetch them."
    ),
    "skills:priority": Requirement(
        "Roo Code, skills", "Of skills with one name the nearest counts: project, mode, `.roo`."
    ),
    "skills:modes": Requirement("Roo Code, skills", "Skills may be for some modes alone."),
    "skills:text": Requirement("Roo Code, skills", "A skill's text is read when it is fetched."),
    "prompt:roo-workspace": Requirement(
        "Roo Code, rules",
        "What a whole workspace of Roo Code tells the model is known to the letter.",
    ),
    "prompt:stable-bytes": Requirement(
        "D28", "Requests of a run begin with the same bytes, whatever happens to files meanwhile."
    ),
    "prompt:fresh-each-run": Requirement(
        "D28", "A change of modes, rules, skills or commands counts from the next run on."
    ),
    "prompt:override": Requirement(
        "Roo Code, rules", "`.roo/system-prompt-<mode>` takes the place of our sections."
    ),
    # Servers of the Model Context Protocol
    "mcp:names": Requirement("D2", "Both spellings of an MCP tool's name are understood."),
    "mcp:config:schema": Requirement(
        "spec, MCP hub", "Entries in Roo's schema are taken; a bad one is left out with its reason."
    ),
    "mcp:config:variables": Requirement(
        "spec, MCP hub", "`${env:NAME}` and `${workspaceFolder}` are filled in."
    ),
    "mcp:config:scopes": Requirement(
        "spec, MCP hub", "The project's server hides the person's of the same name."
    ),
    "mcp:config:broken-json": Requirement(
        "spec, MCP hub", "A file that stops being JSON changes nothing."
    ),
    "mcp:config:home-is-workspace": Requirement(
        "security K4", "The person's own file stays theirs wherever they work."
    ),
    "mcp:config:live": Requirement(
        "spec, MCP hub", "Servers follow their files while tasks are at work."
    ),
    "mcp:config:watch-paths": Requirement(
        "spec, MCP hub", "A server is started anew when what it watches changes."
    ),
    "mcp:idle": Requirement("house", "Where no server is named, the library is not loaded."),
    "mcp:shared": Requirement(
        "house", "Tasks of a workspace share their servers until the last is closed."
    ),
    "mcp:settle": Requirement(
        "spec, System prompt",
        "A request waits for servers that connect, for a while and only once.",
    ),
    "mcp:stdio:connect": Requirement("spec, MCP hub", "A program is started, greeted and listed."),
    "mcp:stdio:environment": Requirement(
        "security P6", "A server sees a listed environment and what its entry sets."
    ),
    "mcp:stdio:garbage": Requirement(
        "security P8", "What is no message on its output is passed over."
    ),
    "mcp:stdio:missing-command": Requirement(
        "spec, MCP hub", "A command that does not exist is named."
    ),
    "mcp:stdio:last-words": Requirement("spec, MCP hub", "What a server said at its end is told."),
    "mcp:stdio:no-orphans": Requirement(
        "security K10", "Servers end with their tasks, and with joey, whatever they ignore."
    ),
    "mcp:http:connect": Requirement(
        "spec, MCP hub", "A server behind an address is used, with its headers."
    ),
    "mcp:sse:connect": Requirement("spec, MCP hub", "The older transport works too."),
    "mcp:http:compression": Requirement(
        "security P8", "Answers that would unfold to any size are refused."
    ),
    "mcp:http:session-lost": Requirement(
        "spec, MCP hub", "A session that the server forgot is begun again."
    ),
    "mcp:modern": Requirement("house", "Servers that know only the newer handshake are met in it."),
    "mcp:reconnect": Requirement(
        "house", "A server that dies is started again, later each time; calls say when."
    ),
    "mcp:list-changed": Requirement("house", "Tools that change are noticed."),
    "mcp:call:timeout": Requirement(
        "spec, MCP hub", "A call ends after the server's time limit, and the server is told."
    ),
    "mcp:call:cancel": Requirement("house", "Cancelling a call is prompt and tells the server."),
    "mcp:call:progress": Requirement("house", "Progress of a call is told while it runs."),
    "mcp:call:is-error": Requirement(
        "spec, MCP tools", "A failed call is marked and its text prefixed."
    ),
    "mcp:call:server-error": Requirement(
        "house", "An error of a server is not taken for its death."
    ),
    "mcp:result:cut": Requirement(
        "security 5", "Results beyond 10 MiB are cut, in bounded memory, and say so."
    ),
    "mcp:flood": Requirement(
        "security K11", "Floods of news or questions exhaust nothing and nobody."
    ),
    "mcp:pins": Requirement(
        "security K7", "An allowed tool whose description changes is asked about again."
    ),
    "mcp:oauth:needed": Requirement(
        "security K7", "A server that wants a login says so; nobody is registered unasked."
    ),
    "mcp:oauth:login": Requirement(
        "security K9", "A login is kept in a private file and used by tasks."
    ),
    "mcp:oauth:refresh": Requirement("house", "A token that ran out is renewed without a person."),
    "mcp:oauth:expired": Requirement(
        "house", "A login that is worth nothing any more asks for another."
    ),
    "mcp:oauth:refused": Requirement("house", "A refused login is told with its reason."),
    "mcp:oauth:callback": Requirement(
        "security K6", "Strangers at the callback get nothing and change nothing."
    ),
    "mcp:reference:everything": Requirement(
        "spec, MCP hub", "MCP's reference server `everything` works in all its parts."
    ),
    "mcp:reference:filesystem": Requirement(
        "spec, MCP hub", "MCP's reference server for files works on the workspace."
    ),
    "front:mcp:add": Requirement("design, command line", "Servers are added, listed and removed."),
    "front:mcp:test": Requirement(
        "design, command line", "Trying a server shows its tools, or what is wrong."
    ),
    "front:mcp:problems": Requirement(
        "spec, MCP hub", "What of a file cannot be used is told beside what can."
    ),
    "front:mcp:shown": Requirement(
        "D6", "People see server, tool, arguments and answer; programs read them."
    ),
    "front:mcp:yes": Requirement("design, command line", "`-y` allows tools of servers too."),
    "front:mcp:refused": Requirement(
        "D12", "Without a person, a tool that no rule allows is not called."
    ),
    # Trust in a workspace
    "trust:default": Requirement(
        "security P4", "Nothing of a workspace is trusted before it is granted."
    ),
    "trust:no-start": Requirement(
        "security K4", "A project's server does not start before it is trusted."
    ),
    "trust:any-change": Requirement(
        "security K4", "Trust holds for the same bytes; any change is a new question."
    ),
    "trust:path": Requirement("security K4", "Trust belongs to the real path of the folder."),
    "trust:scripts": Requirement(
        "security K4", "Files of the workspace that a server runs are part of what is trusted."
    ),
    "trust:shown": Requirement(
        "security K4", "The question shows command, arguments, place and names of variables."
    ),
    "trust:headless": Requirement(
        "security K4", "Without a person nothing is trusted, and what is left alone is named."
    ),
    "trust:revoke": Requirement("security K4", "Trust can be taken back."),
    "trust:private": Requirement("security K9", "The file is private and holds no content."),
    "trust:broken": Requirement("security P2", "A file that cannot be understood is no trust."),
    "modes:trust": Requirement(
        "security K4", "A project's mode that may do more than a built-in one needs trust."
    ),
    "modes:trust:unasked": Requirement(
        "security K4", "Where nothing is asked, every mode of a project needs trust."
    ),
    "front:trust": Requirement(
        "security K4", "A project's server runs once the person has seen and trusted it."
    ),
    "front:trust:ask": Requirement("security K4", "A conversation asks once, before it begins."),
    # Work handed to subtasks
    "tool:new_task:native": Requirement(
        "spec, new_task", "A mode that exists and a message are needed; the row shows both."
    ),
    "tool:new_task:success:todos": Requirement(
        "spec, new_task", "A first todo list may come along, and must where the settings say so."
    ),
    "subtasks:row": Requirement(
        "spec, new_task",
        "The row of a `new_task` call names the mode, what is to be done and the todos.",
    ),
    "subtasks:events": Requirement(
        "D7", "The events of a delegation fire around every subtask, and name it."
    ),
    "subtasks:result": Requirement(
        "spec, delegation", "What the subtask presents is the result of the call that made it."
    ),
    "subtasks:finish": Requirement(
        "spec, attempt_completion", "A subtask asks, or is allowed, to hand over its result."
    ),
    "subtasks:side-by-side": Requirement(
        "D13", "Neighbouring delegations run at the same time; each call gets its own result."
    ),
    "subtasks:order": Requirement("D13", "A call after a delegation sees what it has done."),
    "subtasks:failure": Requirement(
        "spec, delegation", "A subtask that fails gives an error, and its parent goes on."
    ),
    "subtasks:stopped": Requirement(
        "spec, delegation", "So does one that a person stops while its parent waits."
    ),
    "subtasks:cancel": Requirement(
        "spec, delegation", "Cancelling a task stops its subtasks; resuming goes on with them."
    ),
    "subtasks:words": Requirement(
        "D11", "Words said to a task that was stopped reach the subtask that goes on."
    ),
    "subtasks:nested": Requirement("spec, delegation", "Subtasks have subtasks."),
    "subtasks:depth": Requirement("spec, delegation", "A tree has a greatest depth."),
    "subtasks:limits": Requirement(
        "D12", "Turns, calls, tokens, money and time of a run are those of the whole tree."
    ),
    "subtasks:crash": Requirement(
        "spec, delegation, flaw B7",
        "A death between any two steps loses no subtask, makes none twice, and gives each call"
        " one result.",
    ),
    "subtasks:once": Requirement(
        "spec, delegation", "A subtask that goes on after it returned does not return twice."
    ),
    "subtasks:seen": Requirement(
        "seed 002", "Clients of the server see a subtask as a task of its own."
    ),
    "subtasks:followed": Requirement(
        "D7", "A session follows the subtasks of its task, in the process and over the wire."
    ),
    "subtasks:conversation": Requirement(
        "D7", "On a terminal the person sees subtasks and answers their questions, one by one."
    ),
    "subtasks:unattended": Requirement(
        "D12", "Without a person subtasks run under the same rules, and progress tells of them."
    ),
    "subtasks:listed": Requirement(
        "D7", "Lists mark subtasks, a task is shown with its tree, `-c` means the whole."
    ),
    "budgets:tokens": Requirement("design 6", "Tokens that went to and fro are limited."),
    "budgets:calls": Requirement("design 6", "Calls are limited, and checked before they run."),
    "budgets:tree": Requirement(
        "design 6", "A budget of a tree is exceeded by no more than what is in flight."
    ),
    "budgets:crash": Requirement(
        "design 6", "After a crash a run goes on with what was left of its limits."
    ),
    "budgets:flags": Requirement("design 4", "Each limit has a flag and an exit code."),
    "budgets:wire": Requirement("seed 002", "A task may be started with limits."),
    "worktrees:base": Requirement(
        "D35", "A worktree has what is not committed, and nothing of the user's is touched."
    ),
    "worktrees:merge": Requirement("D35", "Its changes come back as changes of files alone."),
    "worktrees:conflict": Requirement("D35", "A conflict touches no file, and is told."),
    "worktrees:crash": Requirement("D33", "A death at any step is made good, once."),
    "worktrees:nested": Requirement("D35", "A worktree may have worktrees."),
    "worktrees:harmless": Requirement("security K4", "Nothing that a repository names is run."),
    "worktrees:subtasks": Requirement("D32", "Subtasks may change the same files at once."),
    "worktrees:approval": Requirement("D24", "The question says that it is a worktree."),
    "worktrees:offered": Requirement("spec, new_task", "Offered where there is a repository."),
    "worktrees:left": Requirement("D33", "One that failed leaves its worktree, and says where."),
    "worktrees:trust": Requirement("security K4", "Trust in the workspace counts, no other."),
    "worktrees:deleted": Requirement("D5", "Deleting a task removes its worktree and branch."),
    "websocket:current-task": Requirement(
        "D10, seed 002", "Commands without a task id act on the current task."
    ),
    "websocket:task-ids": Requirement(
        "D10", "An empty, malformed or unknown task id is an error, never the current task."
    ),
    "websocket:commands": Requirement(
        "seed 002", "All commands, events and error codes of the WebSocket API."
    ),
    "websocket:rows": Requirement(
        "seed 002, Streaming Message Flow",
        "The events of a task, folded by a client, are its rows in every history.",
    ),
    "websocket:log": Requirement(
        "seed 002, Implementation Notes",
        "Every command and refusal is logged with name, request id and outcome, not its contents.",
    ),
    "websocket:replay:growing-rows": Requirement(
        "seed 002, Streaming Message Flow",
        "Whoever subscribes while a row grows is shown it as it stands.",
    ),
    "websocket:replay:cuts": Requirement(
        "seed 002, Streaming Message Flow",
        "However often a client is cut, it ends with what the journal has.",
    ),
    "websocket:replay:identity": Requirement(
        "seed 002, Streaming Message Flow",
        "A client that was cut between any two events misses none and gets none twice.",
    ),
    "websocket:replay:restart": Requirement(
        "seed 002, Streaming Message Flow",
        "A client of a server that was killed ends with what the journal has.",
    ),
    "websocket:fuzz": Requirement(
        "seed 002, Implementation Notes",
        "Whatever is sent is answered as the schema says, and hurts nobody.",
    ),
    "websocket:heartbeat": Requirement(
        "seed 002, Implementation Notes", "A peer that answers no ping is dropped."
    ),
    "websocket:task:waiting-words": Requirement(
        "D11, seed 002", "A task tells which words still wait for the model."
    ),
    "websocket:task:failure": Requirement("seed 002", "A task that failed tells why."),
    "websocket:search": Requirement(
        "seed 002", "Tasks are found by words of their title, id and conversation."
    ),
    # Editors, by the Agent Client Protocol
    "acp:task": Requirement("D44", "A foreign editor drives a whole task, with diffs and plan."),
    "acp:schema": Requirement("D45", "Every frame of both sides fits the published schema."),
    "acp:frames": Requirement("D45", "Each bad line gets an error, and the next one is heard."),
    "acp:permission": Requirement("P1", "Nothing but the option that was offered allows a call."),
    "acp:question": Requirement("D12", "What no permission request can ask ends the turn."),
    "acp:cancel": Requirement("D44", "A cancel at any moment ends the turn and what is at work."),
    "acp:reload": Requirement("D44", "A loaded session tells the same as the live one."),
    "acp:files": Requirement("K2", "Text that is not saved is read and written behind the gate."),
    "acp:terminals": Requirement("D44", "Editors show commands that still run in the sandbox."),
    "acp:servers": Requirement("K4", "Servers of the editor are used in its session alone."),
    # Programs that steered the extension through its socket
    "ipc:frames": Requirement(
        "wire 3.3", "Frames end with a form feed and may be split anywhere on their way."
    ),
    "ipc:welcome": Requirement("wire 3.3", "The first frame names the client and the process."),
    "ipc:commands": Requirement("wire 3.3", "Every command is understood, old and new spellings."),
    "ipc:events": Requirement("wire 3.2", "Events are tuples that Roo's closed schemas accept."),
    "ipc:everybody": Requirement("wire 3.3", "Every client hears every task."),
    "ipc:answers": Requirement(
        "wire 3.3", "A question is answered to the client that asked, with nothing if need be."
    ),
    "ipc:dropped": Requirement(
        "wire 3.3", "What is not understood or cannot be done is logged, and the client stays."
    ),
    "ipc:mistake-limit": Requirement(
        "wire 3.1", "A task that a program started does not stop over mistakes."
    ),
    "ipc:focus": Requirement("wire 3.2", "Which task is the current one is told."),
    "ipc:owner": Requirement("security 5", "The socket is its owner's alone."),
    "ipc:bounds": Requirement(
        "security 5", "A client that sends without end, or does not read, is cut."
    ),
    "ipc:roos-packages": Requirement(
        "wire 3.3", "The packages that Roo's clients are made of go through a task."
    ),
    # Tasks of a server, used from Python
    "client:sessions": Requirement(
        "seed 002", "A task far away is used like one in the same process."
    ),
    "client:cuts": Requirement(
        "seed 002, Streaming Message Flow",
        "Over a line that breaks, each frame is told once and in order.",
    ),
    "client:bad-line": Requirement(
        "seed 002, Streaming Message Flow",
        "A history is read even over a line that never lasts for all of it.",
    ),
    "client:restart": Requirement(
        "seed 002, Streaming Message Flow", "A server that goes down and comes back is waited for."
    ),
    "client:given-up": Requirement("seed 002", "A server that does not come back is given up."),
    "client:refusals": Requirement("seed 002, Error Codes", "A refusal carries its code."),
    "client:slow-reader": Requirement(
        "seed 002, Streaming Message Flow", "A slow reader keeps all that lasts."
    ),
    "client:token": Requirement("security 5", "The token of this machine is sent to no other."),
    "client:attach": Requirement("seed 002", "A person follows and steers a task of a server."),
    "client:growing-rows": Requirement(
        "seed 002, Streaming Message Flow",
        "The Python client shows a growing row to whoever begins to listen.",
    ),
    "front:json-schema": Requirement(
        "design 4", "A result that must be JSON is checked, and refused with what is wrong."
    ),
    "front:json-schema:keywords": Requirement(
        "design 4", "A keyword of a schema that would not be checked is refused by its name."
    ),
    "front:json-schema:bounded": Requirement(
        "design 4", "A model that never gives such a result costs three attempts, and exit code 3."
    ),
    "front:stopped-anywhere": Requirement(
        "design 4",
        "Stopped at any moment, a run leaves no process, a valid history and the right exit code.",
    ),
    "front:pipes": Requirement(
        "design 4", "What is piped in follows the prompt; what is no text is refused."
    ),
    "front:input-stream:bad-lines": Requirement(
        "wire 5.3", "A line that is no command costs itself alone."
    ),
    "front:input-stream:end": Requirement(
        "wire 5.3", "When no more commands come, the task is seen through."
    ),
    "front:input-stream": Requirement("wire 5.3", "Commands on stdin start, steer and end a task."),
    "config:local-model-offered": _later(
        "D12",
        "A run without a key offers the model server that it finds on loopback.",
        "only the doctor looks for one yet",
    ),
    # What a message points at
    "mentions:found": Requirement(
        "spec, mentions", "`@` mentions are found where people write them, and nowhere else."
    ),
    "mentions:file": Requirement("spec, mentions", "A mentioned file comes along, numbered."),
    "mentions:folder": Requirement(
        "spec, mentions", "A mentioned folder comes along with the text files right in it."
    ),
    "mentions:outside": Requirement(
        "P1", "A mention shows nothing of a file outside of the workspace."
    ),
    "mentions:git": Requirement("spec, mentions", "Changes and commits can be mentioned."),
    "mentions:git-runs-nothing": Requirement(
        "K4", "Looking at a repository runs no program that its configuration names."
    ),
    "mentions:terminal": Requirement("spec, mentions", "The latest output can be mentioned."),
    "mentions:url": Requirement("spec, mentions", "A mentioned page comes along as text."),
    "commands:in-a-message": Requirement(
        "spec, slash commands", "`/name` brings the command's text and switches to its mode."
    ),
    "tool:skill:schema:offered": Requirement("spec, skill", "Offered where there are skills."),
    "tool:skill:success": Requirement(
        "spec, skill", "The instructions come as the result; an unknown skill lists the known."
    ),
    "tool:run_slash_command:schema:offered": Requirement(
        "spec, run_slash_command", "Offered where the user has slash commands."
    ),
    "tool:run_slash_command:success": Requirement(
        "spec, run_slash_command", "The text comes as the result, and the mode is switched to."
    ),
    # A browser
    "tool:browser_action:schema:offered": Requirement(
        "spec, browser_action", "Offered where a browser is found and the setting is on."
    ),
    "tool:browser_action:xml": Requirement("spec, browser_action", "Understood in XML too."),
    "tool:browser_action:approval": Requirement(
        "spec, browser_action", "Opening a page is asked; the steps on it are not."
    ),
    "tool:browser_action:success:steps": Requirement(
        "spec, browser_action", "Each step answers with a picture, the console and the cursor."
    ),
    "tool:browser_action:failure:unreachable": Requirement(
        "spec, browser_action", "What cannot be opened or done is told with its reason."
    ),
    # Images and instructions
    "tool:generate_image:success": Requirement(
        "spec, generate_image", "The picture is written, shown, and named after its format."
    ),
    "tool:generate_image:failure:refused": Requirement(
        "spec, generate_image", "Why there is no picture is told, and nothing is written."
    ),
    "tool:generate_image:approval": Requirement(
        "spec, generate_image", "The file to write and the picture to start from are both asked."
    ),
    "tool:generate_image:xml": Requirement("spec, generate_image", "Understood in XML too."),
    "tool:fetch_instructions:success": Requirement(
        "spec, fetch_instructions", "The instructions for each kind of work come as the result."
    ),
    "tool:fetch_instructions:failure:unknown": Requirement(
        "spec, fetch_instructions", "Unknown work is refused with what there is."
    ),
    # Tools that people bring along
    "tool:custom:success": Requirement(
        "spec, custom tools", "A Python file in `tools/` is offered and called as a tool."
    ),
    "tool:custom:schema:trust": Requirement(
        "K4", "A project's tools are not even looked into before the project is trusted."
    ),
    "tool:custom:schema:no-tool": Requirement(
        "spec, custom tools", "A file that is no tool is reported; the others work."
    ),
    "tool:custom:success:contained": Requirement(
        "P5", "A custom tool gets no keys, and its processes end with it."
    ),
    # Problems that checkers find
    "problems:reports": Requirement("spec, problems", "Reports of compilers are understood."),
    "problems:only-new-errors": Requirement(
        "spec, problems", "Only errors that were not there before the edit are told."
    ),
    "problems:after-an-edit": Requirement(
        "spec, write path", "The result of every edit tool tells the errors that it brought."
    ),
    "problems:by-language": Requirement(
        "spec, problems", "The parser of the language says what is wrong, and where."
    ),
    "problems:configured": Requirement(
        "spec, problems", "A checker that the user's settings name is asked too."
    ),
    # The code index
    "tool:codebase_search:success": Requirement(
        "spec, codebase_search",
        "Hits are told with path, score, lines and text, to the model and as a row; none, too.",
    ),
    "tool:codebase_search:approval": Requirement(
        "spec, codebase_search", "The row and the claim name the query and the folder."
    ),
    "tool:codebase_search:schema:offered": Requirement(
        "spec, codebase_search", "It is offered where there is an index, ready or not."
    ),
    "tool:codebase_search:success:in-a-task": Requirement(
        "spec, codebase_search", "A task searches the index, in both protocols."
    ),
    "index:passages": Requirement(
        "spec, codebase_search", "Files are cut where definitions begin, with what belongs to them."
    ),
    "index:words": Requirement(
        "spec, codebase_search", "Code is found by words, by names and by parts of names."
    ),
    "index:ranking": Requirement(
        "spec, codebase_search",
        "Definitions and paths count more; neighbours are one hit; no file fills the list.",
    ),
    "index:ignored": Requirement(
        "spec, .rooignore",
        "What is ignored or hidden is never found or sent, also when it was indexed before.",
    ),
    "index:edits": Requirement(
        "spec, codebase_search",
        "What changed is taken in before the answer; when it is much, the answer says so.",
    ),
    "index:progress": Requirement(
        "spec, codebase_search", "It is filled in the background, and says how far it is."
    ),
    "index:shared": Requirement(
        "spec, codebase_search", "Tasks of a workspace share one index until the last is closed."
    ),
    "index:private": Requirement("security P6", "Only the owner may read the index."),
    "index:ephemeral": Requirement("cli, --ephemeral", "Such a run leaves no index behind."),
    "index:hostile-ignore-files": Requirement(
        "security P8", "Ignore files that are devices or pipes cost neither memory nor time."
    ),
    "index:rebuilt": Requirement(
        "spec, codebase_search", "A damaged or outdated index is made anew."
    ),
    "index:processes": Requirement(
        "spec, codebase_search", "Several processes use one index; one of them changes it."
    ),
    "index:meaning": Requirement(
        "spec, codebase_search", "With an embedding model, code is found by what it means."
    ),
    "index:meaning-edits": Requirement(
        "spec, codebase_search", "Only what is new gets new vectors; another model, everything."
    ),
    "index:meaning-fallback": Requirement(
        "spec, codebase_search", "Without its model the words are searched, and it is said."
    ),
    "index:embeddings": Requirement(
        "spec, codebase_search", "Vectors come from OpenAI's `/embeddings`, in batches."
    ),
    "index:embeddings-retry": Requirement(
        "spec, codebase_search", "Passing trouble is waited out, other trouble told at once."
    ),
    # The files of a workspace at earlier moments
    "checkpoints:exact": Requirement(
        "spec, engine 5", "What is restored has the bytes, modes and links that were saved."
    ),
    "checkpoints:untouched": Requirement(
        "security K5", "The user's repository is not changed, and nothing that it names runs."
    ),
    "checkpoints:coverage": Requirement(
        "flaw B20", "Every file is kept that git does not ignore, with or without a repository."
    ),
    "checkpoints:left-out": Requirement(
        "spec, engine 5", "What is too large to be kept is neither deleted nor changed."
    ),
    "checkpoints:nested": Requirement(
        "flaw B20", "Repositories inside the workspace, and workspaces inside one, have them too."
    ),
    "checkpoints:inside": Requirement(
        "security K2", "Restoring writes nothing through a link, and nothing outside."
    ),
    "checkpoints:refused": Requirement(
        "flaw B20", "Where files cannot be kept, the reason is told."
    ),
    "checkpoints:private": Requirement("security K9", "Nobody else can read what was kept."),
    "checkpoints:killed": Requirement(
        "spec, engine 5", "A process killed at any moment leaves checkpoints that can be used."
    ),
    "checkpoints:damaged": Requirement(
        "spec, engine 5", "Damage costs what was damaged, and the next checkpoint can be made."
    ),
    "checkpoints:limits": Requirement(
        "spec, engine 5", "Checkpoints that are too old or too many go, the oldest first."
    ),
    "checkpoints:forget": Requirement(
        "spec, engine 5", "With a task goes what only its checkpoints held."
    ),
    "sandbox:write-outside": Requirement(
        "security K2, 4", "A confined command changes nothing outside of its workspace."
    ),
    "sandbox:secrets": Requirement(
        "security P6, 4", "It reads neither keys of the home nor what joey knows."
    ),
    "sandbox:network": Requirement("security 4", "It reaches nobody, by no kind of socket."),
    "sandbox:hosts": Requirement(
        "security 4, K8", "Where hosts are listed it reaches these, by joey's proxy, and no others."
    ),
    "sandbox:system-calls": Requirement(
        "security 4", "Calls that steer other processes or the system are refused."
    ),
    "sandbox:joey-lives": Requirement("security K10", "It cannot end joey or look into it."),
    "sandbox:protected": Requirement(
        "security K3", "Protected names are afterwards as they were, absent ones too."
    ),
    "sandbox:containment": Requirement(
        "security K10", "No process outlives its task, or joey, however it has detached itself."
    ),
    "sandbox:limits": Requirement(
        "security K10, 5", "Processes, memory, time and files of commands are limited."
    ),
    "sandbox:one-network": Requirement(
        "models 5", "Commands of a task reach its servers at level full, and nothing else does."
    ),
    "sandbox:ordinary": Requirement("security 4", "Ordinary work goes through it."),
    "sandbox:failure": Requirement(
        "security 4", "A sandbox that fails is told from a command that fails."
    ),
    "sandbox:none": Requirement(
        "security P2, 4", "Where none works, each command is asked, and -y needs --no-sandbox."
    ),
    "rewind:any-row": Requirement(
        "seed 004, engine 3.9", "Every row can be the last one again; both histories are valid."
    ),
    "rewind:stops": Requirement("engine 3.9", "A task at work is stopped before it goes back."),
    "rewind:snapshots": Requirement("seed 004", "The files on disk show the rewound state."),
    "rewind:edit": Requirement("engine 3.9", "The person's words are said anew in their place."),
    "rewind:files": Requirement(
        "engine 3.9, 5", "Files come back as they were, and others' work is not overwritten."
    ),
    "rewind:crash": Requirement("design 1", "A kill at any step leaves a rewind done or not done."),
    "rewind:clients": Requirement("design 5", "Local and remote sessions go back alike."),
    "rewind:page": Requirement("design 5", "Rows vanish from the page and come back."),
    "fork:any-row": Requirement("design 4, 5", "A new task begins from any row of any task."),
    "front:rewind": Requirement("design 4", "Going back and forking at the command line."),
}
