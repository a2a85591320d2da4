"""Images: files that are dropped on the terminal, and the clipboard."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest

from joey.client.images import MAX_IMAGE_BYTES
from joey.tui.widgets import pasted_images
from tests.harness.tui.composer_harness import open_composer

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJg"
)
URI = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"


@pytest.fixture
def shot(tmp_path: Path) -> Path:
    path = tmp_path / "my shot.png"
    path.write_bytes(PNG)
    return path


@pytest.mark.parametrize(
    "spelled",
    [
        str,
        lambda path: f"'{path}' ",
        lambda path: f'"{path}"',
        lambda path: str(path).replace(" ", "\\ "),
        lambda path: f"file://{quote(str(path))}",
        lambda path: f"{path}\n",
    ],
)
async def test_the_pasted_path_of_an_image_becomes_the_image(
    shot: Path, spelled: Callable[[Path], str]
) -> None:
    async with open_composer() as user:
        await user.write("look: ")
        await user.paste(spelled(shot))
        assert user.text == "look: [image #1]"
        await user.press("enter")
        assert user.sent == ["look: [image #1]"]
        assert user.images == [(URI,)]


async def test_several_files_that_are_dropped_at_once(tmp_path: Path) -> None:
    for name in ("a.png", "b c.PNG"):
        (tmp_path / name).write_bytes(PNG + name.encode())
    async with open_composer() as user:
        await user.paste(f"{tmp_path}/a.png {tmp_path}/b\\ c.PNG ")
        assert user.text == "[image #1] [image #2]"
        await user.press("home", "delete", "delete", "enter")
        assert user.sent == ["[image #1]"]
        assert [base64.b64decode(uri[22:])[-7:] for uri in user.images[0]] == [b"b c.PNG"]


@pytest.mark.parametrize("template", ["see {}", "{} is wrong", "{}.txt", "shot.png", "/none/x.png"])
async def test_a_name_within_other_text_stays_text(shot: Path, template: str) -> None:
    pasted = template.format(shot)
    async with open_composer() as user:
        await user.paste(pasted)
        assert user.text == pasted


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"no picture", "is not a PNG"), (PNG + bytes(MAX_IMAGE_BYTES), "larger than 5 MB")],
)
async def test_a_file_that_cannot_be_sent_stays_a_word_with_the_reason(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    path = tmp_path / "x.png"
    path.write_bytes(content)
    async with open_composer() as user:
        await user.paste(str(path))
        assert user.text == str(path)
        assert reason in user.hint


async def test_more_images_than_can_be_sent_are_refused(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.png" for number in range(21)]
    for path in paths:
        path.write_bytes(PNG + path.name.encode())
    async with open_composer() as user:
        await user.paste("\n".join(map(str, paths[:20])))
        await user.paste(str(paths[20]))
        assert "at most 20" in user.hint
        await user.press("enter")
        assert len(user.images[0]) == 20


async def test_a_pipe_with_the_name_of_an_image_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.png")
    async with open_composer() as user:
        await user.paste(str(tmp_path / "x.png"))
        assert user.text == str(tmp_path / "x.png")


def install(directory: Path, name: str, script: str) -> None:
    tool = directory / name
    tool.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    tool.chmod(0o755)


async def test_ctrl_v_takes_the_image_of_the_clipboard(
    shot: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "wl-paste", f'test "$*" = "--no-newline --type image/png" && cat "{shot}"')
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("WAYLAND_DISPLAY", "wayland-0")
    async with open_composer() as user:
        await user.press("ctrl+v")
        assert user.text == "[image #1]"
        await user.press("enter")
        assert user.images == [(URI,)]


async def test_powershell_brings_the_image_of_windows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "powershell.exe", f"echo {base64.b64encode(PNG).decode()}")
    for name in ("WAYLAND_DISPLAY", "DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path}")
    monkeypatch.setenv("WSL_DISTRO_NAME", "Ubuntu")
    async with open_composer() as user:
        await user.press("ctrl+v", "enter")
        await user.press("enter")
        assert user.images == [(URI,)]


async def test_a_tool_that_never_answers_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "pngpaste", "sleep 1000 & sleep 1000")
    monkeypatch.setattr(pasted_images, "_CLIPBOARD_TIMEOUT_S", 0.2)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    async with open_composer() as user:
        await user.press("ctrl+v")
        assert "did not answer" in user.hint


async def test_a_clipboard_without_an_image_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "xclip", "echo 'target image/png not available' >&2; exit 1")
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("DISPLAY", ":0")
    async with open_composer() as user:
        await user.press("a", "ctrl+v")
        assert user.text == "a"
        assert "no picture in the clipboard" in user.hint


@pytest.mark.parametrize(
    ("variable", "advice"), [("WAYLAND_DISPLAY", "wl-clipboard"), ("DISPLAY", "xclip")]
)
async def test_what_is_missing_to_read_the_clipboard_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, advice: str
) -> None:
    for name in ("WAYLAND_DISPLAY", "DISPLAY", "WSL_DISTRO_NAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, "0")
    monkeypatch.setenv("PATH", str(tmp_path))
    async with open_composer() as user:
        await user.press("ctrl+v")
        assert advice in user.hint
