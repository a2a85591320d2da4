"""The words we read are the words that bash would run."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from joey.core.permissions.shell import parse_plain_commands, split_possible_commands
from tests.harness.counts import shortened_examples

RECORDER = """\
#!/bin/sh
printf '%s\\0' "$#" "$@" >> "$RECORD"
"""
FRAGMENTS = [
    *["p", " ", " ", " ", "a", "b", "-x", "é", "'", "'", '"', '"', ";", "&&", "|", "\n"],
    *["\\", "$", "`", ">", "<", "(", ")", "{", "}", "*", "?", "[", "]", "!", "#", "~", "=", "&"],
    *[",", "^", "%", "@", "+", ":", "/", "..", "\t", "p a", "'q r'", '"s t"', "$(p)", "\r"],
    *(
        " 2>&1",
        " >&2",
        " >/dev/null",
        " 2> /dev/null",
        "2>&1",
        " >",
        " 2>",
        "&1",
        "/dev/null",
        ">x",
    ),
]


@pytest.mark.parametrize(
    ("line", "commands"),
    [
        ("p", (("p",),)),
        ("p a  b\tc", (("p", "a", "b", "c"),)),
        ("p 'a b'\"c d\"e", (("p", "a bc de"),)),
        ("p ''", (("p", ""),)),
        ('p "\\\\ \\" \\n"', (("p", '\\ " \\n'),)),
        ("p a;p b", (("p", "a"), ("p", "b"))),
        ("p\n\np", (("p",), ("p",))),
        ("p|p||p&&p", (("p",),) * 4),
        ("p |\n p", (("p",), ("p",))),
        ("", ()),
        ("\n \n", ()),
        ("p;", (("p",),)),
        ("p a~1", (("p", "a~1"),)),
        ("p &", None),
        ("p ;; p", None),
        ("p &&", None),
        ("| p", None),
        ("a=b p", None),
        ("'' p", None),
        ("then p", None),
    ],
)
def test_lines_are_read_as_commands_or_not_at_all(
    line: str, commands: tuple[tuple[str, ...], ...] | None
) -> None:
    assert parse_plain_commands(line) == commands


@pytest.mark.parametrize(
    ("line", "commands"),
    [
        ("a $(b c) `d`", [("a", "$"), ("b", "c"), ("d",)]),
        ("x\\y 'z w'", [("xy", "z", "w")]),
        ("a >b 2>&1", [("a", "b"), ("1",)]),
        ("{ a; }", [("{", "a"), ("}",)]),
    ],
)
def test_any_line_is_cut_where_a_command_might_begin(
    line: str, commands: list[tuple[str, ...]]
) -> None:
    assert list(split_possible_commands(line)) == commands


@pytest.fixture(scope="module")
def recorder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose only program, `p`, writes down the words it was called with."""
    directory = tmp_path_factory.mktemp("programs")
    program = directory / "p"
    program.write_text(RECORDER, encoding="utf-8")
    program.chmod(0o755)
    return directory


def recorded(line: str, programs: Path, workspace: Path) -> list[tuple[str, ...]]:
    """The words of each call of `p` that bash makes when it runs the line."""
    record = programs / "record"
    record.write_bytes(b"")
    subprocess.run(
        ["/bin/bash", "--noprofile", "--norc", "-c", line],
        cwd=workspace,
        env={"PATH": str(programs), "RECORD": str(record), "LC_ALL": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=20,
        check=False,
    )
    fields = iter(record.read_bytes().decode().split("\0")[:-1])
    return [("p", *(next(fields) for _ in range(int(count)))) for count in fields]


@shortened_examples(60, 200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(fragments=st.lists(st.sampled_from(FRAGMENTS), max_size=10))
def test_bash_runs_exactly_the_arguments_of_a_plain_line(
    fragments: list[str], recorder: Path, tmp_path: Path
) -> None:
    line = "p " + "".join(fragments)
    commands = parse_plain_commands(line)
    if commands is None or "||" in line or any(arguments[0] != "p" for arguments in commands):
        return

    assert sorted(recorded(line, recorder, tmp_path)) == sorted(commands)
    assert list(tmp_path.iterdir()) == []
