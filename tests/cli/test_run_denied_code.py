"""`joey -p -y --deny rm`: code that the line computes does not get around the deny rule."""

from __future__ import annotations

import pytest

from joey.testing.script import Turn, call
from joey.testing.server import ModelServer
from tests.harness.cli.binary import Joey, reach

DONE = Turn(call("attempt_completion", {"result": "Done."}))
EVALUATING = {
    "prompt expansion": r"""x='\140\162\155 -f z\140'; echo "${x@P}" """,
    "arithmetic": r"""x=$'a[\x24(\x72m -f z)]'; echo $((x))""",
    "a subscript": r"""x=$'a[\x24(\x72m -f z)]'; unset a; a[x]=1""",
    "a builtin": r"""x=$'a[\x24(\x72m -f z)]'; printf -v "$x" y""",
    "a computed program": r"""x=$'\x72m'; A="b c" $x -f z""",
}


def running(command: str) -> Turn:
    return Turn(call("execute_command", {"command": command}))


@pytest.mark.contract("permissions:deny", "permissions:unattended")
@pytest.mark.parametrize("line", EVALUATING.values(), ids=EVALUATING.keys())
async def test_code_that_a_line_computes_is_refused_beside_a_deny_rule(
    joey: Joey, line: str
) -> None:
    (joey.workspace / "z").write_text("alive", encoding="utf-8")
    async with ModelServer([running(line), DONE]) as server:
        done = await joey.run("-p", "-y", "--deny", "rm", *reach(server.url), "do it")

    assert (joey.workspace / "z").exists()
    assert done.code == 3
    assert "-y does not allow this" in done.err


@pytest.mark.contract("permissions:deny")
async def test_the_reason_names_what_evaluates(joey: Joey) -> None:
    line = EVALUATING["prompt expansion"]
    done = await joey.run(
        "permissions", "explain", "-y", "--deny", "rm", "--no-sandbox", "--", line
    )

    assert "`${x@P}` evaluates a value; deny rules cannot see what that runs" in done.out


@pytest.mark.contract("permissions:deny")
async def test_everyday_shell_code_runs_beside_a_deny_rule(joey: Joey) -> None:
    line = 'n=0; for f in a b; do n=$((n + 1)); [ -n "$f" ] && echo "${f%.py} $n" >> out; done'
    async with ModelServer([running(line), DONE]) as server:
        done = await joey.run("-p", "-y", "--deny", "rm", *reach(server.url), "do it")

    assert done.code == 0
    assert (joey.workspace / "out").read_text(encoding="utf-8") == "a 1\nb 2\n"


@pytest.mark.contract("permissions:deny")
async def test_a_rule_for_ls_remote_does_not_cover_a_remote_helper(joey: Joey) -> None:
    line = "git ls-remote 'ext::touch ran'"
    settings = joey.home.parent / ".gitconfig"
    settings.write_text('[protocol "ext"]\nallow = always\n', encoding="utf-8")
    flags = ("-p", "--allow", "git ls-remote", "--no-sandbox")
    async with ModelServer([running(line), DONE]) as server:
        done = await joey.run(*flags, *reach(server.url), "do it")

    assert not (joey.workspace / "ran").exists()
    assert done.code == 3
