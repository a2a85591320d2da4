"""What the scripted model does in tests of the screen."""

from __future__ import annotations

from joey.testing.script import Turn, call, say


def done(result: str = "All done.") -> Turn:
    return Turn(say("Nearly."), call("attempt_completion", {"result": result}))


def writing(path: str, content: str) -> Turn:
    return Turn(say("I write."), call("write_to_file", {"path": path, "content": content}))


def running(command: str) -> Turn:
    return Turn(say("I run."), call("execute_command", {"command": command}))
