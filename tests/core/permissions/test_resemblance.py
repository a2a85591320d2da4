"""A deny rule holds however the command is spelled."""

from __future__ import annotations

import pytest

from joey.core.permissions.commands import judge_command
from joey.core.permissions.policy import Allow, Ask, Deny

DENIED = [
    *(("rm -rf", line) for line in ("rm -fr x", "rm -r -f x", "rm -vrf x", "rm x -Rf")),
    *(("rm -rf", line) for line in ("sudo rm -fr x", "find . -exec rm -r -f x +")),
    *(("git push --force", line) for line in ("git push origin --force", "git push --forc")),
    *(("docker compose down", line) for line in ("docker-compose down", "docker compose down -v")),
    *(("pip install", line) for line in ("pip3 install x", "pip3.11 -q install x")),
    *(("git push", line) for line in ("git-push origin", "/usr/lib/git-core/git-push")),
    ("python", "python3 x.py"),
    *(
        ("npm install", line)
        for line in ("npm add x", "npm i x", "npm isntall x", "sudo npm add x")
    ),
    *(("npm add", line) for line in ("npm install x", "npm in x")),
    *(("npm run", line) for line in ("npm run-script x", "npm rum x")),
    *(("git push --force", line) for line in ("git push origin +main", "git push -q o +a:b")),
]
ASKED = [
    *(("rm -rf", line) for line in ("rm --recursive --force x", "rm -r --force x")),
    *(("git push --force", line) for line in ("git push -f", "git push -uf origin main")),
    ("git push --force", "git push --force-with-lease"),
    *(("npm publish", line) for line in ("npm pub", "npm p")),
    ("rm -rf", "env " + "rm " * 3_000),
    *(("rm", line) for line in ("rmdir x", "RMDIR x", "ls && rmdir x", "rmdir x > y")),
    *(("git push", line) for line in ("git pushx", "git push-all origin")),
]
ALLOWED = [
    *(("rm -rf", line) for line in ("rm x", "rm -f x", "rm -r x", "rmdir x")),
    *(("git push --force", line) for line in ("git push", "git push -u origin main")),
    *(("npm install", line) for line in ("npm test", "npm ls add", "npm run install-all")),
    *(("pip install", line) for line in ("pip3 list", "pipx list")),
]


@pytest.mark.parametrize(("rule", "line"), DENIED)
def test_another_spelling_of_a_denied_command_is_denied(rule: str, line: str) -> None:
    assert isinstance(judge_command(line, ("*",), (rule,)), Deny)


def test_a_longer_rule_allows_what_begins_like_a_denied_command() -> None:
    assert isinstance(judge_command("rmdir x", ("*", "rmdir"), ("rm",)), Allow)


@pytest.mark.parametrize(("rule", "line"), ASKED)
def test_what_may_be_another_spelling_is_asked(rule: str, line: str) -> None:
    assert isinstance(judge_command(line, ("*",), (rule,)), Ask)


@pytest.mark.parametrize(("rule", "line"), ALLOWED)
def test_what_is_something_else_is_allowed(rule: str, line: str) -> None:
    assert isinstance(judge_command(line, ("*",), (rule,)), Allow)
