from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joey.core.edits.patch_parser import (
    AddFile,
    DeleteFile,
    FileOperation,
    InvalidPatch,
    LineSign,
    PatchChunk,
    PatchLine,
    UpdateFile,
    iter_named_paths,
    parse_patch,
)


def patch(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch"])


def parsed(text: str) -> tuple[FileOperation, ...]:
    hunks = parse_patch(text)
    assert not isinstance(hunks, InvalidPatch), hunks.message
    return hunks


def problem(text: str) -> str:
    hunks = parse_patch(text)
    assert isinstance(hunks, InvalidPatch)
    return hunks.message


def chunks(*lines: str) -> tuple[PatchChunk, ...]:
    (hunk,) = parsed(patch("*** Update File: a.py", *lines))
    assert isinstance(hunk, UpdateFile)
    return hunk.chunks


def body(*lines: str) -> tuple[PatchLine, ...]:
    return tuple(PatchLine(LineSign(line[0]), line[1:]) for line in lines)


# What is understood


def test_an_empty_patch_has_no_hunks() -> None:
    assert parsed(patch()) == ()
    assert parsed(patch("", "   ")) == ()


def test_every_kind_of_hunk_is_read_in_order() -> None:
    assert parsed(
        patch(
            "*** Add File: new.md",
            "+# Title",
            "+",
            "+text",
            "*** Delete File: old.py",
            "*** Update File: a.py",
            "*** Move to: b.py",
            "@@ def f():",
            "     one",
            "-    two",
            "+    three",
            "*** Add File: empty",
        )
    ) == (
        AddFile("new.md", "# Title\n\ntext\n"),
        DeleteFile("old.py"),
        UpdateFile(
            "a.py",
            (PatchChunk(9, body("     one", "-    two", "+    three"), ("def f():",)),),
            move_to="b.py",
        ),
        AddFile("empty", ""),
    )


@pytest.mark.parametrize(
    ("first", "last"),
    [
        ("<<EOF", "EOF"),
        ("<<'EOF'", "EOF"),
        ('<<"EOF"', "EOF"),
        ("apply_patch <<'EOF'", "EOF"),
        ("```diff", "```"),
        ("```", "```"),
    ],
)
def test_a_here_document_or_a_fence_around_it_is_taken_off(first: str, last: str) -> None:
    text = f"{first}\n{patch('*** Delete File: a')}\n{last}"
    assert parsed(text) == (DeleteFile("a"),)
    assert parsed(f"\n{text}\n") == (DeleteFile("a"),)


def test_white_space_around_markers_does_not_count() -> None:
    text = "\n  *** Begin Patch  \n*** Delete File:   a b.py \n\n *** End Patch\n\n"
    assert parsed(text) == (DeleteFile("a b.py"),)


def test_line_ends_of_the_patch_are_not_part_of_its_lines() -> None:
    text = patch("*** Add File: a", "+x", "*** Update File: b", " y", "-z").replace("\n", "\r\n")
    assert parsed(text) == (
        AddFile("a", "x\n"),
        UpdateFile("b", (PatchChunk(5, body(" y", "-z")),)),
    )


@pytest.mark.parametrize("head", [(), ("@@",), ("@@ ",), ("@@ -1,4 +1,5 @@ def f():",)])
def test_the_first_chunk_needs_no_context(head: tuple[str, ...]) -> None:
    (chunk,) = chunks(*head, " a", "+b")
    assert (chunk.anchor_lines, chunk.lines) == ((), body(" a", "+b"))


def test_several_contexts_narrow_a_place_down() -> None:
    (chunk,) = chunks("@@ class A:", "@@     def f(self):", "-x")
    assert chunk.anchor_lines == ("class A:", "    def f(self):")


def test_several_chunks_follow_each_other_with_blank_lines_or_without() -> None:
    first, second, third = chunks("-a", "@@ f", "-b", "*** End of File", "", "@@", "+c")
    assert [chunk.patch_line_number for chunk in (first, second, third)] == [3, 4, 8]
    assert (first.is_at_end, second.is_at_end, third.is_at_end) == (False, True, False)
    assert second.anchor_lines == ("f",)


def test_an_empty_line_in_a_chunk_is_an_empty_line_of_the_file() -> None:
    (chunk,) = chunks(" a", "", "   ", "+b")
    assert chunk.lines == body(" a", " ", "   ", "+b")
    assert chunk.old_lines == ["a", "", "  "]
    assert chunk.new_lines == ["a", "", "  ", "b"]


def test_blank_lines_of_a_new_file_may_lack_their_sign_but_end_with_it() -> None:
    text = patch("*** Add File: a", "+x", "", "+y", "", "*** Delete File: b")
    assert parsed(text) == (AddFile("a", "x\n\ny\n"), DeleteFile("b"))


@pytest.mark.parametrize(
    ("lines", "newline"),
    [
        (("-a", "\\ No newline at end of file", "+b"), True),
        (("-a", "+b", "\\ No newline at end of file"), False),
        (("-a", "\\ No newline at end of file", "+b", "\\ No newline at end of file"), False),
        (("-a", "+b"), None),
    ],
)
def test_a_patch_may_say_whether_the_file_ends_with_a_newline(
    lines: tuple[str, ...], newline: bool | None
) -> None:
    (chunk,) = chunks(*lines)
    assert chunk.has_final_newline is newline
    assert chunk.is_at_end is (newline is not None)
    assert chunk.lines == body("-a", "+b")


def test_a_move_needs_no_chunk() -> None:
    assert parsed(patch("*** Update File: a", "*** Move to: b")) == (UpdateFile("a", (), "b"),)


# What is not


@pytest.mark.contract("tool:apply_patch:failure:bad-format")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "Line 1: a patch must begin with the line `*** Begin Patch`."),
        ("*** Update File: a\n-b\n*** End Patch", "Line 1: a patch must begin"),
        ("\n\nHere it is:\n*** Begin Patch\n*** End Patch", "Line 3: a patch must begin"),
        ("*** Begin Patch", "Line 1: a patch must end with the line `*** End Patch`."),
        ("*** Begin Patch\n*** Delete File: a\n", "Line 2: a patch must end"),
        ("<<EOF\n*** Begin Patch\n*** Delete File: a\nEOF", "Line 3: a patch must end"),
        (patch("*** Rename File: a"), "Line 2: `*** Rename File: a` is not a valid hunk header."),
        (patch("*** Delete File: a", "-b"), "Line 3: `-b` is not a valid hunk header."),
        (patch("*** Add File: a", "+b", " c"), "Line 4: ` c` is not a valid hunk header."),
        (patch("*** Add File: "), "Line 2: `*** Add File:` names no file."),
        (patch("*** Update File: a", "*** Move to:"), "Line 3: `*** Move to:` names no file."),
        (patch("*** Update File: a"), "Line 2: the update of a is empty"),
        (patch("*** Update File: a", "", "*** Delete File: b"), "Line 2: the update of a is empty"),
        (patch("*** Update File: a", "@@ f"), "Line 4: the patch ends where a chunk should"),
        (patch("*** Update File: a", "@@", "*** Delete File: b"), "Line 4: `*** Delete File: b`"),
        (patch("*** Update File: a", "@@", "*** End of File"), "Line 4: `*** End of File` is no"),
        (patch("*** Update File: a", "x = 1"), "Line 3: `x = 1` is no line of a chunk"),
        (patch("*** Update File: a", "-x", "y"), "Line 4: a chunk must begin with `@@`"),
    ],
)
def test_what_is_no_patch_is_named_by_its_line(text: str, expected: str) -> None:
    assert problem(text).startswith(expected)


def test_an_invalid_header_is_answered_with_the_valid_ones() -> None:
    message = problem(patch("*** Rename File: a"))
    for header in ("*** Add File:", "*** Delete File:", "*** Update File:"):
        assert header in message


def test_a_long_line_is_not_repeated_whole() -> None:
    assert len(problem(patch("x" * 100_000))) < 500


@given(
    st.lists(
        st.sampled_from(
            [
                "*** Begin Patch",
                "*** End Patch",
                "*** Add File: a",
                "*** Delete File: b",
                "*** Update File: c",
                "*** Move to: d",
                "*** End of File",
                "\\ No newline at end of file",
                "@@",
                "@@ x",
                " x",
                "-x",
                "+x",
                "",
                "<<EOF",
                "EOF",
                "```",
                "x",
            ]
        ),
        max_size=12,
    )
)
def test_any_text_is_read_or_refused_by_a_line_of_its_own(lines: list[str]) -> None:
    for text in ("\n".join(lines), patch(*lines)):
        hunks = parse_patch(text)
        if isinstance(hunks, InvalidPatch):
            number, colon, _ = hunks.message.removeprefix("Line ").partition(": ")
            assert colon
            assert 1 <= int(number) <= text.count("\n") + 1


# The paths


def test_every_path_that_a_header_names_is_found_even_in_a_broken_patch() -> None:
    text = "*** Add File: a \n+*** Add File: no\n *** Delete File: no\n*** Update File: b\r\n"
    assert list(iter_named_paths(f"{text}*** Move to: c\n*** Delete File: d")) == [
        "a",
        "b",
        "c",
        "d",
    ]
