"""Lines made of what attackers use, judged by everyday rules: those that pass change nothing."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from joey.core.permissions.commands import judge_command
from joey.core.permissions.policy import Allow
from tests.harness.counts import shortened_examples

ALLOWED = ("cat", "cd", "echo", "find", "grep", "ls", "printf", "sed", "sort", "uniq", "wc", "tree")
PROGRAMS = [*ALLOWED, "rm", "touch", "tee", "sh -c", "xargs", "eval"]
PIECES = [
    *["canary", "other", "new", ".", "sub", "-", "--", "-n", "-r", "-c", "-u", "-e", "1p"],
    *["> canary", ">canary", ">> canary", "2> canary", "&> canary", ">| canary", "<> new"],
    *["2>&1", ">/dev/null", "2> /dev/null", ">&2", ">&canary", "2>&1canary", "2>&1>canary", ">"],
    *["-o canary", "-ocanary", "--output=canary", "--outp=canary", "-i", "-i.bak", "--in-place"],
    *["-delete", "-exec rm canary ;", "-exec rm canary \\;", "-fprint canary", "-fls canary"],
    *["$(rm canary)", "`rm canary`", '"$(rm canary)"', "<(rm canary)", "${x:=$(rm canary)}"],
    *["'w canary'", "'1e rm canary'", "-v 'a[$(rm canary)]' x", "'rm canary'", '"touch new"'],
    *["*", "?", "{canary,new}", "x=1", "'", '"', "\\", "#"],
]
JOINTS = [" ", " ", " ", "; ", " && ", " || ", " | ", "\n", " & ", " |& "]


def seen(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes() if path.is_file() else b""
        for path in directory.rglob("*")
    }


lines = st.lists(
    st.tuples(
        st.sampled_from(PROGRAMS),
        st.lists(st.sampled_from(PIECES), max_size=3).map(" ".join),
        st.sampled_from(JOINTS),
    ),
    min_size=1,
    max_size=3,
).map(lambda chosen: "".join(f"{program} {rest}{joint}" for program, rest, joint in chosen))


@pytest.mark.contract("permissions:words")
@shortened_examples(60, 200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(line=lines)
def test_no_line_that_runs_unasked_changes_a_file(line: str, tmp_path: Path) -> None:
    if not isinstance(judge_command(line, ALLOWED, ()), Allow):
        return
    (tmp_path / "sub").mkdir(exist_ok=True)
    (tmp_path / "canary").write_bytes(b"alive\nand well\n")
    (tmp_path / "other").write_bytes(b"2\n1\n")
    before = seen(tmp_path)

    subprocess.run(
        ["/bin/bash", "--noprofile", "--norc", "-c", line],
        cwd=tmp_path,
        env={"PATH": os.defpath, "HOME": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=20,
        check=False,
    )

    assert seen(tmp_path) == before
