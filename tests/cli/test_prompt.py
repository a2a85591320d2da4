from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import pytest

from joey.cli import prompt
from joey.cli.exit_codes import UsageError
from joey.cli.prompt import MAX_PROMPT_BYTES, gather_prompt, load_images
from joey.client.images import MAX_IMAGE_BYTES
from tests.harness.images import PNG


@contextmanager
def piped(data: bytes, tmp_path: Path) -> Iterator[TextIO]:
    file = tmp_path / "stdin"
    file.write_bytes(data)
    with file.open(encoding="utf-8") as opened:
        yield opened


@contextmanager
def nothing() -> Iterator[TextIO]:
    with Path(os.devnull).open(encoding="utf-8") as opened:
        yield opened


def test_arguments_are_joined() -> None:
    with nothing() as stdin:
        assert gather_prompt(["fix", "the test"], None, stdin) == "fix the test"


def test_without_anything_there_is_no_prompt() -> None:
    with nothing() as stdin:
        assert gather_prompt([], None, stdin) == ""


def test_what_is_piped_in_is_the_prompt_or_follows_it(tmp_path: Path) -> None:
    with piped(b"a diff", tmp_path) as stdin:
        assert gather_prompt([], None, stdin) == "a diff"
    with piped(b"a diff", tmp_path) as stdin:
        assert gather_prompt(["-"], None, stdin) == "a diff"
    with piped(b"a diff", tmp_path) as stdin:
        assert gather_prompt(["review"], None, stdin) == "review\n\na diff"


def test_a_prompt_file_is_read_without_its_byte_order_mark(tmp_path: Path) -> None:
    file = tmp_path / "prompt.txt"
    file.write_text("\ufefffix it\n", encoding="utf-8")
    with nothing() as stdin:
        assert gather_prompt([], str(file), stdin) == "fix it\n"


def test_bytes_that_are_no_text_do_not_stop_anything(tmp_path: Path) -> None:
    with piped(b"\xff\xfe ok", tmp_path) as stdin:
        assert gather_prompt([], None, stdin) == "\ufffd\ufffd ok"
    with nothing() as stdin:
        assert gather_prompt(["lone \udcff byte"], None, stdin) == "lone \ufffd byte"


def test_a_prompt_is_given_once(tmp_path: Path) -> None:
    with nothing() as stdin, pytest.raises(UsageError, match="not both"):
        gather_prompt(["words"], str(tmp_path / "file"), stdin)


def test_a_missing_prompt_file_is_named(tmp_path: Path) -> None:
    with nothing() as stdin, pytest.raises(UsageError, match=r"missing\.txt"):
        gather_prompt([], str(tmp_path / "missing.txt"), stdin)


def test_a_prompt_that_no_model_takes_in_is_refused_with_advice(tmp_path: Path) -> None:
    long = b"x" * (MAX_PROMPT_BYTES + 1)
    with piped(long, tmp_path) as stdin, pytest.raises(UsageError, match=r"8 MB.*file"):
        gather_prompt([], None, stdin)
    (tmp_path / "long.txt").write_bytes(long)
    with nothing() as stdin, pytest.raises(UsageError, match=r"8 MB.*file"):
        gather_prompt([], str(tmp_path / "long.txt"), stdin)


def test_the_longest_prompt_is_taken(tmp_path: Path) -> None:
    with piped(b"x" * MAX_PROMPT_BYTES, tmp_path) as stdin:
        assert len(gather_prompt([], None, stdin)) == MAX_PROMPT_BYTES


def test_a_pipe_that_says_nothing_does_not_hold_up_a_prompt(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(prompt, "FIRST_BYTE_TIMEOUT_S", 0.01)
    reading, writing = os.pipe()
    try:
        with open(reading, encoding="utf-8") as stdin:  # noqa: PTH123 (a descriptor)
            assert gather_prompt(["alone"], None, stdin) == "alone"
    finally:
        os.close(writing)
    assert "standard input" in capsys.readouterr().err


def test_an_image_becomes_a_data_uri_of_its_own_type(tmp_path: Path) -> None:
    image = tmp_path / "picture.dat"
    image.write_bytes(PNG)
    (uri,) = load_images([str(image)])
    assert uri.startswith("data:image/png;base64,")
    assert base64.b64decode(uri.partition(",")[2]) == PNG


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"\xff\xd8\xff\xe0", "jpeg"),
        (b"GIF89a", "gif"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "webp"),
    ],
)
def test_images_are_known_by_their_first_bytes(tmp_path: Path, data: bytes, kind: str) -> None:
    (tmp_path / "image").write_bytes(data)
    assert load_images([str(tmp_path / "image")])[0].startswith(f"data:image/{kind};")


def test_what_is_no_image_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.png").write_text("not a picture", encoding="utf-8")
    (tmp_path / "large.png").write_bytes(PNG + bytes(MAX_IMAGE_BYTES))
    for path, named in [("text.png", "not a PNG"), ("large.png", "5 MB"), ("none.png", "No such")]:
        with pytest.raises(UsageError, match=named):
            load_images([str(tmp_path / path)])
    with pytest.raises(UsageError, match="too many"):
        load_images(["x.png"] * 21)
