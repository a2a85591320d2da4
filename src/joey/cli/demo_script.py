"""What is said in `joey demo`: a small task from its first word to its accepted result."""

from __future__ import annotations

from msgspec import Struct

from joey.testing.script import Turn, call, say, usage

PROMPT = "Create a simple Express.js server with a /hello endpoint that returns 'Hello World'"
MODEL = "claude-sonnet-4-5-20250929"

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

INSTALL = """\
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

RESULT = """\
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


class Reply(Struct, frozen=True):
    """One reply of the model: words, and a call."""

    text: str
    tool: str
    input: dict[str, str]
    call_id: str
    tokens: tuple[int, int, int, int]
    """Input that was not cached, output, written to the cache, read from it."""


REPLIES = (
    Reply(
        "I'll help you create an Express.js server with a /hello endpoint. First, let me check"
        " the current package.json to see if Express is already a dependency.",
        "read_file",
        {"path": "package.json"},
        "toolu_01A7BcD3eFgH4iJkL5mNo6pQ",
        (3104, 412, 8432, 0),
    ),
    Reply(
        "I can see that Express is not installed yet. I'll need to install it first using npm.",
        "execute_command",
        {"command": INSTALL},
        "toolu_02R7sT8uVwX9yZa0bCd1eF",
        (3110, 398, 0, 22016),
    ),
    Reply(
        "Express has been installed successfully. Now I'll create the server file with the"
        " /hello endpoint.",
        "write_to_file",
        {"path": "src/server.js", "file_text": SERVER_JS},
        "toolu_03G2hI3jKlM4nOp5qRs6tU",
        (3118, 586, 0, 22433),
    ),
    Reply(
        "I've successfully created the Express.js server with a /hello endpoint. The server is"
        " configured to run on port 3000. You can start it by running `node src/server.js` and"
        ' then visit http://localhost:3000/hello to see the "Hello World" message.',
        "attempt_completion",
        {"result": RESULT},
        "toolu_04V7wX8yZa9bCd0eF1gH2i",
        (3121, 480, 0, 22849),
    ),
)

_PIECE = 4
_PACE = 80.0
_XML_NAMES = {"file_text": "content"}


def turns(*, xml: bool, fast: bool) -> list[Turn]:
    """The script for a model server: calls as such, or written into the text."""
    return [_turn(reply, xml=xml, fast=fast) for reply in REPLIES]


def _turn(reply: Reply, *, xml: bool, fast: bool) -> Turn:
    fresh, output, writes, reads = reply.tokens
    tokens = usage(input=fresh, output=output, cache_writes=writes, cache_reads=reads)
    pace = None if fast else _PACE
    if xml:
        return Turn(say(f"{reply.text}\n\n{_as_xml(reply)}", chunk=_PIECE), tokens, pace=pace)
    return Turn(
        say(reply.text, chunk=_PIECE),
        call(reply.tool, dict(reply.input), id=reply.call_id, chunk=2 * _PIECE),
        tokens,
        pace=pace,
    )


def _as_xml(reply: Reply) -> str:
    inner = "\n".join(
        f"<{_XML_NAMES.get(name, name)}>{value}</{_XML_NAMES.get(name, name)}>"
        for name, value in reply.input.items()
    )
    return f"<{reply.tool}>\n{inner}\n</{reply.tool}>"
