"""The composer on a real terminal: bytes in, messages out, and an editor in between."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import struct
import sys
import termios
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.harness.cli.terminal import CTRL_D, Screen
from tests.harness.paths import ROOT

PROGRAM = """
import json, sys
from pathlib import Path
from tests.harness.tui.composer_harness import ComposerApp, FixedCompletions
from joey.tui.widgets.prompt_history import PromptHistory

class ExitingComposerApp(ComposerApp):
    def on_mount(self):
        super().on_mount()
        self.composer.placeholder = "say something"

    def on_composer_exit_requested(self, event):
        self.exit()

app = ExitingComposerApp(FixedCompletions(), PromptHistory(None, Path("/work")))
app.run()
texts = [one.text for one in app.received_messages if hasattr(one, 'text')]
Path(sys.argv[1]).write_text(json.dumps(texts))
"""
ENTER, CTRL_J = "\r", "\n"


@asynccontextmanager
async def composer_terminal(messages_file: Path, **env: str) -> AsyncIterator[Screen]:
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PROGRAM, str(messages_file)),
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env={**os.environ, "TERM": "xterm-256color", **env},
        cwd=ROOT,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    screen = Screen(master, os.ttyname(slave), process, 80)
    os.close(slave)
    try:
        await screen.until("say something")
        yield screen
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        os.close(master)


async def type_and_read_messages(keys: str, messages_file: Path) -> list[str]:
    """What is sent when a terminal brings all this in one piece, as it does on a slow line."""
    async with composer_terminal(messages_file) as screen:
        screen.press(f"{keys}{CTRL_D}")
        assert await screen.ended() == 0
    return read_messages(messages_file)


def read_messages(messages_file: Path) -> list[str]:
    messages: list[str] = json.loads(messages_file.read_text(encoding="utf-8"))
    return messages


async def test_keys_that_come_at_once_are_done_in_their_order(tmp_path: Path) -> None:
    left, backspace, ctrl_a, ctrl_w = "\x1b[D", "\x7f", "\x01", "\x17"
    keys = f"ac{left}b{ctrl_a}x y{ctrl_w}{backspace}{ENTER}"
    assert await type_and_read_messages(keys, tmp_path / "said") == ["xabc"]


async def test_every_spelling_of_a_new_line(tmp_path: Path) -> None:
    alt_enter, shift_enter, shift_enter_of_xterm = "\x1b\r", "\x1b[13;2u", "\x1b[27;2;13~"
    keys = f"a{CTRL_J}b{alt_enter}c{shift_enter}d{shift_enter_of_xterm}e\\{ENTER}f{ENTER}"
    assert await type_and_read_messages(keys, tmp_path / "said") == ["a\nb\nc\nd\ne\nf"]


async def test_a_paste_with_enter_right_behind_it_is_sent_whole(tmp_path: Path) -> None:
    text = "".join(f"line {number}\n" for number in range(200))
    keys = f"see \x1b[200~{text}\x1b[201~{ENTER}"
    assert await type_and_read_messages(keys, tmp_path / "said") == [f"see {text}"]


async def test_the_draft_is_edited_in_the_editor_of_the_user(tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i "s/wrong/right/" "$2"\n', encoding="utf-8")
    editor.chmod(0o755)
    messages_file = tmp_path / "said"
    async with composer_terminal(messages_file, VISUAL=f"{editor} -w") as screen:
        screen.press("this is wrong\x18\x05")
        await screen.until("right")
        screen.press(f"!{ENTER}{CTRL_D}")
        assert await screen.ended() == 0
    assert read_messages(messages_file) == ["this is right!"]


async def test_an_editor_that_cannot_start_is_reported_and_the_draft_stays(tmp_path: Path) -> None:
    messages_file = tmp_path / "said"
    async with composer_terminal(messages_file, VISUAL="/no/such/editor") as screen:
        screen.press("my draft\x07")
        await screen.until("cannot be used")
        screen.press(f"{ENTER}{CTRL_D}")
        assert await screen.ended() == 0
    assert read_messages(messages_file) == ["my draft"]
