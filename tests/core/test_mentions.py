from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joey.core.mentions import (
    Mention,
    MentionKind,
    fill_arguments,
    find_command_mentions,
    find_mentions,
    format_mention,
    replace_spans,
)
from tests.harness.bounded import run_bounded


def found(text: str) -> list[tuple[MentionKind, str]]:
    mentions = find_mentions(text)
    return [(each.kind, each.subject) for each in mentions if not each.is_bare_name]


@pytest.mark.contract("messages:mentions")
@pytest.mark.parametrize(
    ("text", "mentions"),
    [
        ("look at @/src/app.py please", [(MentionKind.FILE, "src/app.py")]),
        ("@/src/", [(MentionKind.DIRECTORY, "src")]),
        (r"@/my\ file.txt", [(MentionKind.FILE, "my file.txt")]),
        (
            "see @/a.py, @/b.py; and @/c.py!",
            [(MentionKind.FILE, p) for p in ("a.py", "b.py", "c.py")],
        ),
        ("what is in @/a.py?", [(MentionKind.FILE, "a.py")]),
        ("@https://example.org/x?y=1.", [(MentionKind.URL, "https://example.org/x?y=1")]),
        ("fix @problems", [(MentionKind.PROBLEMS, "")]),
        ("review @git-changes.", [(MentionKind.GIT_CHANGES, "")]),
        ("see @terminal", [(MentionKind.TERMINAL, "")]),
        ("since @a1b2c3d it fails", [(MentionKind.COMMIT, "a1b2c3d")]),
        ("two\n@/a\n@/b", [(MentionKind.FILE, "a"), (MentionKind.FILE, "b")]),
        ("mail me@example.org", []),
        (r"not \@/a.py", []),
        ("@problematic and @terminals", []),
        ("@abc123", []),
        ("@a1b2c3dz", []),
        ("an @ alone, and @someone", []),
        ("the alias @/ and @/. and @//", []),
    ],
)
def test_mentions_are_found_where_people_write_them(
    text: str, mentions: list[tuple[MentionKind, str]]
) -> None:
    assert found(text) == mentions


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("see @README.md, now", ["README.md"]),
        ("@pkg/stats.py", ["pkg/stats.py"]),
        (r"@my\ file.txt", ["my file.txt"]),
        ("mail me@example.org, (@README.md), @/a.py and @ alone", []),
        ("@problems @a1b2c3d @https://example.org", []),
        (r"\@README.md", []),
    ],
)
def test_names_of_files_are_found_as_other_agents_write_them(text: str, paths: list[str]) -> None:
    assert [each.subject for each in find_mentions(text) if each.is_bare_name] == paths


@pytest.mark.parametrize(
    ("content", "arguments", "filled"),
    [
        ("Explain $1 to $2.", "median beginners", "Explain median to beginners."),
        ("Explain $1.", '"the median" now', "Explain the median."),
        ("Fix $ARGUMENTS", "issue 7, soon", "Fix issue 7, soon"),
        ("Fix $ARGUMENTS", "", "Fix "),
        ("Fix $2", "one", "Fix "),
        ("awk '{print $1}'", "", "awk '{print $1}'"),
        ("$ARGUMENTSX costs $10", "a", "$ARGUMENTSX costs $10"),
        ("no place", "for it", "no place"),
        ("$1", "$2 b", "$2"),
    ],
)
def test_arguments_of_a_command_take_the_places_that_its_text_has_for_them(
    content: str, arguments: str, filled: str
) -> None:
    assert fill_arguments(content, arguments) == filled


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("/init", ["init"]),
        ("please /review this", ["review"]),
        ("/a.b-c_d now", ["a.b-c_d"]),
        ("/usr/bin is a path", []),
        ("either/or", []),
        ("/one /two", ["one", "two"]),
    ],
)
def test_slash_commands_are_found_where_people_write_them(text: str, names: list[str]) -> None:
    assert [mention.name for mention in find_command_mentions(text)] == names


@given(st.text(alphabet="@/ab\\ .!?\n1:"))
def test_every_mention_lies_inside_of_the_text_and_after_the_one_before(text: str) -> None:
    position = 0
    for mention in find_mentions(text):
        assert position <= mention.start < mention.end <= len(text)
        assert text[mention.start] == "@"
        position = mention.end
    shown = replace_spans(text, [(m.start, m.end, "") for m in find_mentions(text)])
    assert len(shown) == len(text) - sum(m.end - m.start for m in find_mentions(text))


def test_replacing_nothing_changes_nothing() -> None:
    assert replace_spans("as it is", []) == "as it is"


def test_a_mention_is_shown_by_its_name() -> None:
    assert format_mention(Mention(MentionKind.FILE, "src/a.py", 0, 1)) == "'src/a.py' (see below)"
    assert (
        format_mention(Mention(MentionKind.COMMIT, "a1b2c3d", 0, 1))
        == "Git commit 'a1b2c3d' (see below)"
    )


@pytest.mark.parametrize("message", ["@/a" + "." * 1_000_000, "@http://" + "!" * 1_000_000])
def test_no_message_takes_long_to_look_through(message: str) -> None:
    run_bounded(
        "import sys; from joey.core.mentions import find_mentions\n"
        "assert len(find_mentions(sys.stdin.read())) == 1",
        given=message,
    )
