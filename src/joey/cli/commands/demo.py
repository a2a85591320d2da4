"""`joey demo`: one small task with a scripted model on loopback; everything else is real."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import sys
import tempfile
from argparse import Namespace
from pathlib import Path

from msgspec import Struct

from joey.app import make_options, open_engine
from joey.cli.exit_codes import ExitCode, UsageError, outcome_to_exit_code
from joey.cli.line_renderer import LineWriter, TaskRenderer
from joey.cli.notices import format_usage
from joey.cli.signals import handle_signals
from joey.cli.task_lookup import shorten_task_id
from joey.core.events import AskOpened
from joey.core.models import ToolProtocol
from joey.core.task_types import Answer, AnsweredBy, Response
from joey.testing.script import Turn, call, say, usage
from joey.testing.server import ModelServer

INTRODUCTION_TEXT = """\
This is a demonstration: a scripted model answers on this machine, so nothing leaves it and
nothing costs anything. The client, the tools, the files and the histories are the real ones.
Where you would be asked, the demonstration answers, and says so."""
_INHERITED_VARIABLES = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TZ")


class DemoPolicy:
    """Allows everything that the script does, which is known beforehand."""

    name: str = AnsweredBy.DEMO

    def answer(self, ask: AskOpened) -> Answer | None:
        return Answer(Response.YES)


class DemoDirectories(Struct, frozen=True):
    """The directories where the demonstration leaves its files."""

    root: Path

    @property
    def workspace(self) -> Path:
        return self.root / "project"

    @property
    def joey_home(self) -> Path:
        return self.root / "joey-home"


def run_demo(arguments: Namespace) -> ExitCode:
    return asyncio.run(_run_demo_task(arguments, _create_directories(arguments.keep)))


def _create_directories(keep: str | None) -> DemoDirectories:
    """Create the directories of the demo: a package.json and an empty `src`, as the script
    expects."""
    try:
        root = Path(keep).absolute() if keep else Path(tempfile.mkdtemp(prefix="joey-demo-"))
        directories = DemoDirectories(root)
        root.mkdir(parents=True, exist_ok=True)
        if any(root.iterdir()):
            raise UsageError(f"{root} is not empty; --keep needs a new or an empty folder")
        (directories.workspace / "src").mkdir(parents=True)
        (directories.workspace / "package.json").write_text(PACKAGE_JSON, encoding="utf-8")
    except OSError as error:
        where = error.filename or keep
        raise UsageError(f"{where} cannot be used: {error.strerror}") from error
    return directories


async def _run_demo_task(arguments: Namespace, directories: DemoDirectories) -> ExitCode:
    writer = LineWriter(sys.stdout)
    renderer = TaskRenderer(writer, echo=True)
    writer.print_note(INTRODUCTION_TEXT)
    is_xml = arguments.protocol == ToolProtocol.XML
    env = {name: os.environ[name] for name in _INHERITED_VARIABLES if name in os.environ}
    model = ModelServer(build_turns(xml=is_xml, fast=arguments.fast))
    with handle_signals() as interruption:
        async with model, open_engine(home=directories.joey_home, env=env) as engine:
            options = make_options(
                workspace=directories.workspace,
                home=directories.joey_home,
                env=env,
                provider=arguments.wire,
                base_url=model.url if arguments.wire == "anthropic" else f"{model.url}/v1",
                model=DEMO_MODEL_ID,
                protocol=ToolProtocol(arguments.protocol),
                policy=DemoPolicy(),
            )
            task = await engine.start(DEMO_PROMPT, options=options)
            try:
                async for event in task.events():
                    renderer.render(event)
            except asyncio.CancelledError:
                await task.cancel()
            code = interruption.exit_code or outcome_to_exit_code(await task.wait())
            directory = task.recorder.task_log.directory
    writer.print_note(f"\n{format_usage(task.usage)} (by the list price; nothing was spent)")
    writer.print_note(
        f"The workspace:         {directories.workspace}\n"
        f"What you saw:          {directory / 'ui_messages.json'}\n"
        f"What the model saw:    {directory / 'api_conversation_history.json'}\n"
        f"To show it again:   JOEY_HOME={shlex.quote(str(directories.joey_home))}"
        f" {format_own_command()} tasks show {shorten_task_id(task.id, ())}"
    )
    return code


def format_own_command() -> str:
    """Format the command line that starts this joey."""
    started = Path(sys.argv[0])
    if started.stem != "joey" or not started.exists():
        return f"{shlex.quote(sys.executable)} -m joey"
    found = shutil.which("joey")
    is_found = found is not None and Path(found).samefile(started)
    return "joey" if is_found else shlex.quote(str(started))


DEMO_PROMPT = "Create a simple Express.js server with a /hello endpoint that returns 'Hello World'"
DEMO_MODEL_ID = "claude-sonnet-4-5-20250929"

PACKAGE_JSON = """\
{
  "name": "my-project",
  "version": "1.0.0",
  "description": "",
  "main": "index.js",
  "scripts": {
    "test": "echo \\"Error: no test specified\\" && exit 1"
  },
  "dependencies": {}
}"""

SIMULATED_NPM_INSTALL_COMMAND = """\
# stands in for `npm install express`: needs neither npm nor a network
sed -i.bak 's/"dependencies": {}/"dependencies": { "express": "^5.1.0" }/' package.json &&
rm package.json.bak &&
printf '%s\\n' 'added 64 packages, and audited 65 packages in 3s' '' \\
  '8 packages are looking for funding' '  run `npm fund` for details' '' \\
  'found 0 vulnerabilities'"""

SERVER_JS = """\
const express = require('express');
const app = express();
const PORT = 3000;

app.get('/hello', (req, res) => {
  res.send('Hello World');
});

app.listen(PORT, () => {
  console.log(`Server is running on http://localhost:${PORT}`);
});"""

RESULT_TEXT = """\
Successfully created an Express.js server with the following:

1. Installed Express.js as a dependency
2. Created `src/server.js` with:
   - Express server setup
   - `/hello` endpoint that returns 'Hello World'
   - Server configured to run on port 3000

To start the server, run:
```bash
node src/server.js
```

Then visit http://localhost:3000/hello to see the response."""


class ScriptedReply(Struct, frozen=True):
    """One reply of the scripted model: text and a call."""

    text: str
    tool: str
    tool_input: dict[str, str]
    call_id: str
    token_counts: tuple[int, int, int, int]
    """Input that was not cached, output, written to the cache, read from it."""


SCRIPTED_REPLIES = (
    ScriptedReply(
        "I'll help you create an Express.js server with a /hello endpoint. First, let me check"
        " the current package.json to see if Express is already a dependency.",
        "read_file",
        {"path": "package.json"},
        "toolu_01A7BcD3eFgH4iJkL5mNo6pQ",
        (3104, 412, 8432, 0),
    ),
    ScriptedReply(
        "I can see that Express is not installed yet. I'll need to install it first using npm.",
        "execute_command",
        {"command": SIMULATED_NPM_INSTALL_COMMAND},
        "toolu_02R7sT8uVwX9yZa0bCd1eF",
        (3110, 398, 0, 22016),
    ),
    ScriptedReply(
        "Express has been installed successfully. Now I'll create the server file with the"
        " /hello endpoint.",
        "write_to_file",
        {"path": "src/server.js", "file_text": SERVER_JS},
        "toolu_03G2hI3jKlM4nOp5qRs6tU",
        (3118, 586, 0, 22433),
    ),
    ScriptedReply(
        "I've successfully created the Express.js server with a /hello endpoint. The server is"
        " configured to run on port 3000. You can start it by running `node src/server.js` and"
        ' then visit http://localhost:3000/hello to see the "Hello World" message.',
        "attempt_completion",
        {"result": RESULT_TEXT},
        "toolu_04V7wX8yZa9bCd0eF1gH2i",
        (3121, 480, 0, 22849),
    ),
)

_CHUNK_CHARS = 4
_CHUNKS_PER_SECOND = 80.0
_XML_PARAMETER_NAMES = {"file_text": "content"}


def build_turns(*, xml: bool, fast: bool) -> list[Turn]:
    """Build the script for a model server: native calls, or calls written into the text."""
    return [_build_turn(reply, xml=xml, fast=fast) for reply in SCRIPTED_REPLIES]


def _build_turn(reply: ScriptedReply, *, xml: bool, fast: bool) -> Turn:
    uncached, output, writes, reads = reply.token_counts
    tokens = usage(input=uncached, output=output, cache_writes=writes, cache_reads=reads)
    pace = None if fast else _CHUNKS_PER_SECOND
    if xml:
        text = f"{reply.text}\n\n{_format_xml_call(reply)}"
        return Turn(say(text, chunk=_CHUNK_CHARS), tokens, pace=pace)
    called = call(reply.tool, dict(reply.tool_input), id=reply.call_id, chunk=2 * _CHUNK_CHARS)
    return Turn(say(reply.text, chunk=_CHUNK_CHARS), called, tokens, pace=pace)


def _format_xml_call(reply: ScriptedReply) -> str:
    tags = {_XML_PARAMETER_NAMES.get(key, key): value for key, value in reply.tool_input.items()}
    inner = "\n".join(f"<{tag}>{value}</{tag}>" for tag, value in tags.items())
    return f"<{reply.tool}>\n{inner}\n</{reply.tool}>"
