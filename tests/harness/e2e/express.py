"""The conversation of seed 000 as a script: a small Express server in four turns.

Its second command stands in for `npm install express`: it prints what npm would print, and needs
neither npm nor a network.
"""

from __future__ import annotations

from joey.testing.script import Turn, call, say, usage

REQUEST = "Create a simple Express.js server with a /hello endpoint that returns 'Hello World'"
PACKAGE = """{
  "name": "my-project",
  "version": "1.0.0",
  "description": "",
  "main": "index.js",
  "scripts": {
    "test": "echo \\"Error: no test specified\\" && exit 1"
  },
  "dependencies": {}
}"""
INSTALL = "printf 'added 64 packages, and audited 65 packages in 3s\\n' | tee install.log"
SERVER = (
    "const express = require('express');\nconst app = express();\nconst PORT = 3000;\n\n"
    "app.get('/hello', (req, res) => {\n  res.send('Hello World');\n});\n\n"
    "app.listen(PORT, () => {\n"
    "  console.log(`Server is running on http://localhost:${PORT}`);\n});"
)
RESULT = "Successfully created an Express.js server."
SAID = (
    "I'll help you create an Express.js server with a /hello endpoint.",
    "I can see that Express is not installed yet.",
    "Express has been installed successfully.",
    "I've successfully created the Express.js server with a /hello endpoint.",
)
IDS = (
    "toolu_01A7BcD3eFgH4iJkL5mNo6pQ",
    "toolu_02R7sT8uVwX9yZa0bCd1eF",
    "toolu_03G2hI3jKlM4nOp5qRs6tU",
    "toolu_04V7wX8yZa9bCd0eF1gH2i",
)
TOKENS = (
    usage(input=12, output=40, cache_writes=8000),
    usage(input=20, output=50, cache_writes=400, cache_reads=8000),
    usage(input=20, output=300, cache_writes=300, cache_reads=8400),
    usage(input=20, output=200, cache_writes=500, cache_reads=8700),
)
CALLS = (
    ("read_file", {"path": "package.json"}),
    ("execute_command", {"command": INSTALL}),
    ("write_to_file", {"path": "src/server.js", "file_text": SERVER}),
    ("attempt_completion", {"result": RESULT}),
)


def native_turns() -> list[Turn]:
    return [
        Turn(say(said, chunk=7), call(name, arguments, id=call_id, chunk=11), tokens)
        for said, (name, arguments), call_id, tokens in zip(SAID, CALLS, IDS, TOKENS, strict=True)
    ]


def xml_turns() -> list[Turn]:
    return [
        Turn(say(f"{said}\n\n{_xml(name, arguments)}", chunk=13), tokens)
        for said, (name, arguments), tokens in zip(SAID, CALLS, TOKENS, strict=True)
    ]


def _xml(name: str, arguments: dict[str, str]) -> str:
    if name == "read_file":
        path = arguments["path"]
        body = f"<args>\n  <file>\n    <path>{path}</path>\n  </file>\n</args>"
    else:
        body = "\n".join(f"<{key}>{value}</{key}>" for key, value in arguments.items())
    return f"<{name}>\n{body}\n</{name}>"
