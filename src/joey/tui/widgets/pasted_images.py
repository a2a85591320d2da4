"""Images pasted into the composer: from the clipboard, or as paths of dropped files.

The clipboard is read with the tool that the desktop has for it (wl-paste, xclip, pngpaste,
PowerShell). Terminals paste the path of a file that is dropped on them.
"""

from __future__ import annotations

import base64
import binascii
import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote, urlsplit

from joey.client.images import MAX_IMAGE_BYTES, MAX_IMAGES, ImageError, encode_image_data_uri
from joey.system.files import keep_absolute_directories
from joey.system.subprocess import run

_CLIPBOARD_TIMEOUT_S = 5.0
_POWERSHELL_SCRIPT = (
    "Add-Type -AssemblyName System.Windows.Forms,System.Drawing;"
    "$i=[Windows.Forms.Clipboard]::GetImage();if($i){$m=New-Object IO.MemoryStream;"
    "$i.Save($m,[Drawing.Imaging.ImageFormat]::Png);[Convert]::ToBase64String($m.ToArray())}"
)
_CLIPBOARD_COMMANDS: tuple[tuple[str | None, str, tuple[str, ...]], ...] = (
    ("WAYLAND_DISPLAY", "wl-paste", ("--no-newline", "--type", "image/png")),
    ("DISPLAY", "xclip", ("-selection", "clipboard", "-target", "image/png", "-out")),
    (None, "pngpaste", ("-",)),
    ("WSL_DISTRO_NAME", "powershell.exe", ("-NoProfile", "-STA", "-Command", _POWERSHELL_SCRIPT)),
)
"""The variable that has to be set, the program and its arguments."""
_MISSING_TOOLS = {
    "WAYLAND_DISPLAY": "without wl-paste (the package wl-clipboard)",
    "DISPLAY": "without xclip",
}
_MISSING_PNGPASTE = "without pngpaste (brew install pngpaste)"
_PASTE_ADVICE = "paste the path of an image file, or drop the file here"


async def read_clipboard_image(env: Mapping[str, str] = os.environ) -> str:
    """Read the image as a data URI. Raises ImageError if there is none, or no tool to read it."""
    commands = (
        [tool, *arguments]
        for variable, program, arguments in _CLIPBOARD_COMMANDS
        if (variable is None or env.get(variable)) and (tool := _find_program(program, env))
    )
    command = next(commands, None)
    if command is None:
        is_mac = sys.platform == "darwin"
        default = _MISSING_PNGPASTE if is_mac else "in a terminal without a desktop"
        why = next((text for name, text in _MISSING_TOOLS.items() if env.get(name)), default)
        raise ImageError(f"the clipboard cannot be asked for pictures {why}; {_PASTE_ADVICE}")
    data = await _run_clipboard_command(command)
    if command[0].endswith("powershell.exe"):
        with suppress(binascii.Error):
            data = base64.b64decode(data, validate=False)
    if not data:
        raise ImageError(f"there is no picture in the clipboard; {_PASTE_ADVICE}")
    return encode_image_data_uri(data, "in the clipboard")


def _find_program(name: str, env: Mapping[str, str]) -> str | None:
    path = keep_absolute_directories(env.get("PATH", ""), outside=(Path.cwd(),))
    return shutil.which(name, path=path)


async def _run_clipboard_command(command: list[str]) -> bytes:
    """Return the tool's output; empty if it fails, as it does without an image."""
    limit = 2 * MAX_IMAGE_BYTES
    try:
        done = await run(command, timeout_s=_CLIPBOARD_TIMEOUT_S, max_printed_bytes=limit)
    except TimeoutError:
        raise ImageError(f"{command[0]} did not answer; {_PASTE_ADVICE}") from None
    except OSError as error:
        raise ImageError(f"{command[0]} cannot be run: {error.strerror}") from error
    return done.stdout if done.returncode == 0 or done.is_flood else b""


_IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
_MAX_DROPPED_PATHS_CHARS = 4_096 * 4


def parse_dropped_image_paths(pasted: str) -> list[Path]:
    """Parse the files if the text consists only of absolute paths of images; otherwise empty."""
    text = pasted.strip()
    if (
        not text
        or len(text) > _MAX_DROPPED_PATHS_CHARS
        or not text.rstrip("'\"").lower().endswith(_IMAGE_SUFFIXES)
    ):
        return []
    for candidates in _iter_path_splits(text):
        paths = [_parse_absolute_path(word) for word in candidates]
        if len(paths) <= MAX_IMAGES and all(map(_is_image_file, paths)):
            return [path for path in paths if path is not None]
    return []


def _iter_path_splits(text: str) -> Iterator[list[str]]:
    yield [text]
    yield text.splitlines()
    try:
        yield shlex.split(text)
    except ValueError:  # a quote that is not closed
        return


def _parse_absolute_path(word: str) -> Path | None:
    """Parse an absolute path; None for anything else."""
    word = word.strip()
    if len(word) > 1 and word[0] == word[-1] and word[0] in "'\"":
        word = word[1:-1]
    if word.startswith("file://"):
        return Path(unquote(urlsplit(word).path))
    if word.startswith("~/"):
        return Path.home() / word[2:]
    return Path(word) if word.startswith("/") else None


def _is_image_file(path: Path | None) -> bool:
    if path is None or path.suffix.lower() not in _IMAGE_SUFFIXES:
        return False
    try:
        return path.is_file()
    except (OSError, ValueError):  # too long, or not a name
        return False
