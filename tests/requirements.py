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
    "protocol:from-model": Requirement(
        "D8, seed 001, Protocol Resolution",
        "Without a history, a model that cannot call tools gets XML, any other native.",
    ),
    # The two histories
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
        "D13", "A rejection skips the calls after it, each with a result of its own."
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
    "engine:completion:open-todos": Requirement(
        "seed 001, Attempt Completion Tool Execution",
        "With the setting on, open todos refuse a completion.",
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
    "permissions:paths:outside": Requirement(
        "security K2", "Paths outside the workspace ask, also through links and `..`."
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
    "tools:read_file:lines": Requirement(
        "seed 000, Tool Execution", "Lines are numbered; ranges and several files work."
    ),
    "tools:read_file:trouble": Requirement(
        "seed 000, Tool Execution",
        "A missing file, a folder, an empty or a binary file says what it is.",
    ),
    "tools:read_file:images": Requirement(
        "seed 000, Tool Execution", "An image is shown to models that can see it."
    ),
    "tools:write_to_file:writes": Requirement(
        "seed 000, Turn 3",
        "A file is written with its parents; the result says created or modified.",
    ),
    "tools:write_to_file:alias": Requirement(
        "D1", "`file_text` means `content`, in both protocols."
    ),
    "tools:write_to_file:cleaning": Requirement(
        "seed 001, Example Comparison",
        "Fences around the content and line numbers in it are removed.",
    ),
    "tools:apply_diff:blocks": Requirement(
        "seed 003, System Prompt Analysis", "Several blocks apply, with or without line hints."
    ),
    "tools:apply_diff:tolerance": Requirement(
        "seed 003, System Prompt Analysis",
        "Whitespace, quotes and indentation may differ; the file's own are kept.",
    ),
    "tools:apply_diff:format": Requirement(
        "D14", "A malformed diff is refused with the line and what was expected."
    ),
    "tools:apply_diff:failure": Requirement(
        "seed 003, System Prompt Analysis",
        "What does not match is told with the nearest text; the rest applies.",
    ),
    "tools:apply_diff:line-ends": Requirement(
        "seed 003, System Prompt Analysis", "CRLF files stay CRLF."
    ),
    "tools:search_files:results": Requirement(
        "seed 003, System Prompt Analysis",
        "Matches are grouped by file with numbered context; too many say so.",
    ),
    "tools:search_files:bad-regex": Requirement(
        "seed 003, System Prompt Analysis", "An expression that is none is told as an error."
    ),
    "tools:list_files:listing": Requirement(
        "seed 003, System Prompt Analysis",
        "Top level or recursive, ignoring what Git ignores, with a limit.",
    ),
    "tools:execute_command:result": Requirement(
        "seed 000, Turn 2", "The result has the exit code and the output."
    ),
    "tools:execute_command:true-exit": Requirement(
        "flaw B18", "Exit codes and signals are the process's own, also when killed."
    ),
    "tools:execute_command:whole-output": Requirement(
        "flaw B18", "A last line without a newline is in the result and in the file."
    ),
    "tools:execute_command:large-output": Requirement(
        "flaw B16", "Large output is kept in a file and shown by its head and tail."
    ),
    "tools:execute_command:binary-output": Requirement(
        "security P8", "Output that is no text spoils neither the run nor its history."
    ),
    "tools:execute_command:group": Requirement(
        "flaw B18", "Cancel and time-out end the whole process group."
    ),
    "tools:execute_command:environment": Requirement(
        "flaw B18, security K9",
        "The locale is left alone; keys are not passed on; stdin is closed.",
    ),
    "tools:ask_followup_question:asks": Requirement(
        "seed 003, System Prompt Analysis",
        "The question and its suggestions reach the person, the answer the model.",
    ),
    "tools:switch_mode:switches": Requirement(
        "seed 003, System Prompt Analysis",
        "The mode changes for this task; an unknown one is an error.",
    ),
    "tools:update_todo_list:lists": Requirement(
        "seed 001, Attempt Completion Tool Execution", "A checklist becomes the task's todos."
    ),
    "tools:attempt_completion:result": Requirement(
        "seed 000, Turn 4", "The result is presented; without one the call is an error."
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
        "Denials, errors and guidance have their JSON in native and prose in XML.",
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
    "front:print": Requirement("D12", "`-p` answers on stdout and reports progress on stderr."),
    "front:json": Requirement("D12", "The JSON formats are one document, or one event per line."),
    "front:exit-codes": Requirement("D12", "Every way to end has its exit code."),
    "front:signals": Requirement("D12", "An interrupt cancels the task, saves it and exits 130."),
    "front:continue": Requirement("D5", "`-c` and `-r` go on with an earlier task."),
    "front:tasks": Requirement("D5", "Tasks can be listed and shown."),
    "front:approvals": Requirement(
        "D6", "Off a script, the person is asked and may answer with words."
    ),
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
    # Asked for, and not built yet
    "context:truncation": _later(
        "flaw B12", "Truncation counts what the model really sees.", "nothing is truncated yet"
    ),
    "context:overflow": _later(
        "flaw B13",
        "A conversation that is too long is shortened before it is sent again.",
        "nothing is condensed yet; the overflow is told",
    ),
    "checkpoints": _later(
        "flaw B20", "Checkpoints cover all files and say when they cannot.", "no checkpoints yet"
    ),
    "mcp-names": _later("D2", "Both spellings of an MCP tool's name are understood.", "no MCP yet"),
    "subtasks": _later("D7", "Events around a subtask really fire.", "no subtasks yet"),
    "websocket:current-task": Requirement(
        "D10, seed 002", "Commands without a task id act on the current task."
    ),
    "websocket:commands": Requirement(
        "seed 002", "All commands, events and error codes of the WebSocket API."
    ),
    "rewind": _later(
        "seed 004, MessageManager",
        "Rewinding cuts both histories at the same place.",
        "tasks only go forward yet",
    ),
    "front:input-stream": _later(
        "D12",
        "Commands on stdin start, steer and end a task.",
        "stdin only holds a prompt yet; `--input-format` does not exist",
    ),
    "config:local-model-offered": _later(
        "D12",
        "A run without a key offers the model server that it finds on loopback.",
        "only the doctor looks for one yet",
    ),
}
