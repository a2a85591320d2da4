"""Whole tasks as a strong model works through them: it ends them, joey does not."""

from __future__ import annotations

import json

from joey.testing.script import Call, call
from joey.testing.server import ModelServer, TurnSelector
from tests.harness.cli.binary import Joey, reach
from tests.harness.cli.playing import (
    DONE,
    GIT,
    Played,
    commit_all,
    diff,
    list_results,
    play,
    reach_openai,
    read,
    reply,
    run,
    with_artifact,
    write_files,
)

WAITING = "until [ -e go ]; do sleep 0.05; done; echo built"
SANDBOXED = ("-y",)


def content(joey: Joey, path: str) -> str:
    return (joey.workspace / path).read_bytes().decode()


def output_of(played: Played, number: int) -> str:
    """What the only command of a reply printed, with its exit code."""
    (result,) = played.results(number)
    return result


BAR = """\
class Bar:
    def __init__(self, length, width=20):
        self.length, self.width = length, width
        self.position = 0

    def update(self, steps):
        self.position = min(self.position + steps, self.length)

    def render(self):
        filled = self.position * (self.width - 6) // self.length
        return "#" * filled
"""
BAR_TEST = """\
import unittest
from bar import Bar


class BarTest(unittest.TestCase):
    def test_starts_empty(self):
        self.assertEqual(Bar(20).render(), "")
"""


async def test_a_bug_is_fixed_with_a_test_and_a_changelog_entry(joey: Joey) -> None:
    write_files(joey, {"bar.py": BAR, "test_bar.py": BAR_TEST, "CHANGES.md": "# Changes\n"})
    last = '        self.assertEqual(Bar(20).render(), "")'
    test = (
        "    def test_is_filled(self):\n        bar = Bar(20)\n        bar.update(20)\n"
        "        self.assertEqual(len(bar.render()), 20)"
    )
    line = "        filled = self.position * (self.width - 6) // self.length"
    played = await play(
        joey,
        reply(call("list_code_definition_names", {"path": "bar.py"}), read("bar.py")),
        reply(
            diff("bar.py", (line, line.replace("(self.width - 6)", "self.width"))),
            diff("test_bar.py", (last, f"{last}\n\n{test}")),
            diff("CHANGES.md", ("# Changes", "# Changes\n\n- A full bar is drawn in full.")),
        ),
        reply(run("python3 -B -m unittest -q")),
        DONE,
    )
    assert "1--11 | class Bar:" in played.results(1)[0]
    assert [result.partition("\n")[0] for result in played.results(2)] == [
        "Changed bar.py: line 10.",
        "Changed test_bar.py: lines 8-12.",
        "Changed CHANGES.md: lines 2-3.",
    ]
    assert "Exit code: 0" in output_of(played, 3)
    assert "Ran 2 tests" in output_of(played, 3)
    assert content(joey, "CHANGES.md") == "# Changes\n\n- A full bar is drawn in full.\n"


VALIDATORS = {
    "src/validators.py": "def instance_of(kind):\n    return kind\n",
    "src/__init__.py": "from src.validators import instance_of\n",
    "src/validators.pyi": "def instance_of(kind: type) -> object: ...\n",
    "docs/api.md": "# Validators\n\n- instance_of\n",
    "tests/test_all.py": "from src import instance_of\n\nassert instance_of(int)\n",
    "src/version.py": "VERSION = (1, 0)\n",
    "AGENTS.md": "Every validator is exported, typed, documented and tested.\n",
}


async def test_an_addition_to_five_files_follows_the_rules_of_the_project(joey: Joey) -> None:
    write_files(joey, VALIDATORS)
    added = {
        "src/validators.py": ("    return kind", "\n\n\ndef min_len(size):\n    return size"),
        "src/__init__.py": ("from src.validators import instance_of", ", min_len"),
        "src/validators.pyi": (
            "def instance_of(kind: type) -> object: ...",
            "\ndef min_len(size: int) -> object: ...",
        ),
        "docs/api.md": ("- instance_of", "\n- min_len"),
        "tests/test_all.py": ("assert instance_of(int)", "\nassert min_len(1)"),
    }
    played = await play(
        joey,
        reply(call("codebase_search", {"query": "instance_of validators"}), read(*added)),
        reply(*(diff(path, (line, line + more)) for path, (line, more) in added.items())),
        reply(diff("tests/test_all.py", ("import instance_of", "import *"))),
        reply(diff("tests/test_all.py", ("from src import instance_of", "from src import *"))),
        reply(run("python3 -B -m tests.test_all")),
        reply(call("update_todo_list", {"todos": "[x] min_len"}), *DONE.calls),
    )
    assert VALIDATORS["AGENTS.md"].strip() in json.dumps(played.requests[0].body["system"])
    found, files = played.results(1)
    assert "VERSION" not in found
    assert all(f"File: {path}\n" in files for path in added)
    assert all(result.startswith("Changed ") for result in played.results(2))
    assert "Best Match Found:\n1 | from src import instance_of\n" in played.results(3)[0]
    assert "Exit code: 0" in output_of(played, 5)
    assert all("min_len" in content(joey, path) for path in list(added)[:4])


NAMES = [f"app/{name}.py" for name in ("core", "shell", "types", "terms", "tests", "docs")]


async def test_a_rename_in_six_files_is_one_patch_and_a_commit(joey: Joey) -> None:
    write_files(joey, {path: f"# {path}\n\nuse = make_pass_decorator\n" for path in NAMES})
    commit_all(joey.workspace)

    def patch(old: str) -> Call:
        updates = "".join(
            f"*** Update File: {path}\n@@\n-{old}\n+use = pass_decorator\n" for path in NAMES
        )
        return call("apply_patch", {"patch": f"*** Begin Patch\n{updates}*** End Patch"})

    find = call("search_files", {"path": ".", "regex": "make_pass_decorator"})
    played = await play(
        joey,
        reply(find),
        reply(patch("use: make_pass_decorator")),
        reply(patch("use = make_pass_decorator")),
        reply(find, run(f"git add -A && {GIT} commit -qm Rename && git log --format=%s")),
        DONE,
        model=lambda url: (*reach_openai(url), "--model", "gpt-5.1"),
    )
    assert "apply_patch" in played.tools
    assert not {"apply_diff", "write_to_file", "edit"} & set(played.tools)
    assert played.results(1)[0].startswith("Found 6 matching lines.")
    assert "nothing was written" in played.results(2)[0]
    assert all(f"{path}: line 3" in played.results(3)[0] for path in NAMES)
    left, log = played.results(4)
    assert left.startswith("Found 0 matching lines.")
    assert "Rename\nfirst\n" in log
    assert {content(joey, path) for path in NAMES} == {
        f"# {path}\n\nuse = pass_decorator\n" for path in NAMES
    }


async def test_an_explanation_in_ask_mode_changes_nothing(joey: Joey) -> None:
    write_files(joey, {"bar.py": BAR, "test_bar.py": BAR_TEST})
    played = await play(
        joey,
        reply(
            call("codebase_search", {"query": "how is the bar filled"}),
            call("list_code_definition_names", {"path": "."}),
        ),
        reply(
            call("read_file", {"files": [{"path": "bar.py", "anchor_line": 10, "max_levels": 1}]})
        ),
        reply(call("attempt_completion", {"result": "It counts positions (`bar.py:10`)."})),
        flags=("--mode", "ask"),
    )
    assert not {"apply_diff", "write_to_file", "execute_command"} & set(played.tools)
    assert "class Bar:" in played.results(1)[1]
    assert "Lines 9-11:" in played.results(2)[0]
    assert played.done.json["content"] == "It counts positions (`bar.py:10`)."


SHOP = {f"shop/part{n}.py": f"def total():\n    return {n} - 1\n" for n in range(8)}
SHOP_TESTS = "import unittest, importlib\n\n\nclass All(unittest.TestCase):\n" + "".join(
    f"    def test_{n}(self):\n"
    f"        self.assertEqual(importlib.import_module('shop.part{n}').total(), {n} + 1)\n"
    for n in range(8)
)
FETCH = "import sys, urllib.request as r; print(r.urlopen(sys.argv[1], timeout=9).read().decode())"


async def test_failing_tests_a_server_a_large_log_and_a_subtask(sandboxed: Joey) -> None:
    joey = sandboxed
    log = "".join(
        f"{n:06} GET /item/{n} 200 in 12 ms, nothing unusual here\n" for n in range(16_000)
    )
    log = log.replace("007777 GET /item/7777 200", "007777 GET /item/7777 500")
    write_files(
        joey, {**SHOP, "test_shop.py": SHOP_TESTS, "access.log": log, "fetch.py": FETCH, "ok": "up"}
    )
    played = await play(
        joey,
        reply(run("python3 -B -m unittest -q 2>&1"), read(*SHOP)),
        reply(
            *(
                diff(path, (f"    return {n} - 1", f"    return {n} + 1"))
                for n, path in enumerate(SHOP)
            )
        ),
        reply(
            run("python3 -B -m unittest -q 2>&1"),
            read("access.log"),
            call("search_files", {"path": "access.log", "regex": " 500 in "}),
        ),
        reply(run("python3 -m http.server 5055 --bind 127.0.0.1", timeout=0.5)),
        reply(
            run(
                "until python3 fetch.py http://127.0.0.1:5055/ok; do sleep 0.1; done 2>&1 | tail -1"
            )
        ),
        with_artifact(
            lambda name: call("read_command_output", {"artifact_id": name, "stop": True})
        ),
        reply(run("python3 fetch.py http://127.0.0.1:5055/ok 2>&1 | tail -1")),
        reply(call("new_task", {"mode": "ask", "message": "Which request of access.log failed?"})),
        reply(call("search_files", {"path": "access.log", "regex": " 500 "})),
        reply(call("attempt_completion", {"result": "Request 7777."})),
        DONE,
        flags=SANDBOXED,
    )
    failed, files = played.results(1)
    assert "FAILED (failures=8)" in failed
    assert files.count("File: shop/part") == 8
    passed, shown, found = played.results(3)
    assert "Exit code: 0" in passed
    assert len(shown) < 100_000
    assert "line_ranges" in shown
    assert found.startswith("Found 1 matching line.")
    assert "still running" in output_of(played, 4)
    assert "Output:\nup\n" in output_of(played, 5)
    assert "were stopped" in output_of(played, 6)
    assert "refused" in output_of(played, 7)
    assert "Request 7777." in output_of(played, 10)
    assert "Still running" not in played.done.json["content"]


async def test_an_option_is_added_where_packages_cannot_be_installed(sandboxed: Joey) -> None:
    joey = sandboxed
    paths = ("index.js", "cli.js", "readme.md", "test.js")
    write_files(joey, {path: f"// {path}\nseparator\n" for path in paths})
    write_files(joey, {"bundle.min.js": "x" * 300_000})
    install = (
        "python3 -c 'import socket; socket.getaddrinfo(\"registry.npmjs.org\", 443)' 2>&1 | tail -1"
    )
    played = await play(
        joey,
        reply(call("list_files", {"path": ".", "glob": "*.js"}), read("bundle.min.js")),
        reply(run(f"echo $npm_config_fetch_retries $PIP_RETRIES; {install}")),
        reply(*(diff(path, ("separator", "separator, lowercase")) for path in paths)),
        DONE,
        flags=SANDBOXED,
    )
    assert played.results(1)[0] == "bundle.min.js\ncli.js\nindex.js\ntest.js"
    assert len(played.results(1)[1]) < 3_000
    assert "Exit code: 0\nOutput:\n0 0\n" in output_of(played, 2)
    assert "name resolution" in output_of(played, 2)
    assert "sandbox" in output_of(played, 2)
    assert all("lowercase" in content(joey, path) for path in paths)


async def test_waiting_for_a_long_command_is_no_repetition(joey: Joey) -> None:
    def wait(seconds: float) -> TurnSelector:
        return with_artifact(
            lambda name: call("read_command_output", {"artifact_id": name, "wait": seconds})
        )

    played = await play(
        joey,
        reply(run(WAITING, timeout=0.1)),
        *[reply(run("sleep 0.05"))] * 5,
        *[wait(0.05)] * 5,
        reply(run("touch go")),
        wait(30),
        DONE,
    )
    assert "`wait` (seconds)" in output_of(played, 1)
    assert all("Exit code: 0" in output_of(played, number) for number in range(2, 7))
    assert all("still running" in output_of(played, number) for number in range(7, 12))
    assert "built" in output_of(played, 13)


async def test_three_misses_of_an_edit_are_answered_with_the_nearest_lines(joey: Joey) -> None:
    write_files(joey, {"bar.py": BAR})
    misses = ["        filled = self.position", "    def draw(self):", "        return '#' * full"]
    played = await play(
        joey,
        *(reply(diff("bar.py", (miss, "pass"))) for miss in misses),
        DONE,
    )
    for number in (1, 2, 3):
        assert "similar" in output_of(played, number)
        assert "Best Match Found:" in output_of(played, number)
    assert content(joey, "bar.py") == BAR


async def test_three_outlines_in_one_reply(joey: Joey) -> None:
    write_files(joey, {"a.py": BAR, "b.py": TWICE, "c.bin": "\0\1\2"})
    outline = [
        call("list_code_definition_names", {"path": path}) for path in ("a.py", "b.py", "c.bin")
    ]
    played = await play(joey, reply(*outline), DONE)
    first, second, _ = played.results(1)
    assert "class Bar:" in first
    assert "7--12 | def second(" in second


async def test_three_look_ups_of_missing_directories_in_one_reply(joey: Joey) -> None:
    played = await play(
        joey,
        reply(
            call("search_files", {"path": "src", "regex": "x"}),
            call("search_files", {"path": "lib", "regex": "x"}),
            call("list_files", {"path": "tests", "recursive": True}),
        ),
        DONE,
    )
    assert [("does not exist" in result) for result in played.results(1)] == [True] * 3


TWICE = """\
def first(value):
    if value is None:
        return None
    return value


def second(
    value,
):
    if value is None:
        return None
    return [value]


def third():
    return 3
"""


async def test_edit_tools_say_what_they_changed_and_what_they_did_not(joey: Joey) -> None:
    write_files(joey, {"m.py": TWICE, "dos.txt": "one\r\ntwo\r\n"})
    none = "    if value is None:\n        return None"
    played = await play(
        joey,
        reply(diff("m.py", (none, "    pass"))),
        reply(
            diff(
                "m.py",
                ("    return value", "    return 1"),
                ("no such line", "x"),
                ("    return 3", "    return 4"),
            ),
            diff("dos.txt", ("two", "three")),
        ),
        reply(call("read_file", {"files": [{"path": "m.py", "anchor_line": 12, "max_levels": 1}]})),
        reply(call("write_to_file", {"path": "n.py", "content": "def f(:\n"})),
        reply(diff("n.py", ("def f(:", "def f(): ..."))),
        DONE,
    )
    assert "in the file twice, at lines 2, 10" in output_of(played, 1)
    partly, dos = played.results(2)
    assert partly.startswith("Changed m.py: lines 4, 16.")
    assert "1 of 3 blocks could not be applied" in partly
    assert "no need to read" not in partly
    assert dos.startswith("Changed dos.txt: line 2.")
    assert "Lines 7-12:" in output_of(played, 3)
    assert output_of(played, 4).startswith("Created n.py: line 1.\n\nNew problems")
    assert content(joey, "dos.txt") == "one\r\nthree\r\n"
    assert content(joey, "m.py") == TWICE.replace("return value", "return 1").replace("3", "4")


async def test_a_program_that_the_sandbox_hides_is_named_with_the_flag_that_shows_it(
    sandboxed: Joey,
) -> None:
    tools = sandboxed.home.parent / "tools"
    tools.mkdir()
    (tools / "check").symlink_to("/bin/echo")
    command = f"{tools}/check all is well"
    played = await play(sandboxed, reply(run(command)), DONE, flags=SANDBOXED)
    result = output_of(played, 1)
    assert "Exit code: 127" in result
    assert f"not visible, although they exist: {tools}/check." in result
    assert "--add-dir DIRECTORY" in result
    flags = (*SANDBOXED, "--add-dir", str(tools))
    played = await play(sandboxed, reply(run(command)), DONE, flags=flags)
    assert "Output:\nall is well" in output_of(played, 1)
    missing = await play(sandboxed, reply(run(f"{tools}/none")), DONE, flags=SANDBOXED)
    assert "although they exist" not in output_of(missing, 1)


async def test_what_failed_in_a_call_and_what_still_runs_is_said_on_stderr(joey: Joey) -> None:
    write_files(joey, {"a.py": "one\ntwo\n"})
    turns = [
        reply(diff("a.py", ("one", "1"), ("none of it", "3"))),
        reply(read("a.py", "missing.py")),
        reply(run("sleep 600", timeout=0.1)),
        DONE,
    ]
    async with ModelServer(turns) as server:
        done = await joey.run("-p", "-y", "--no-sandbox", *reach(server.url), "do it")
    assert (done.code, done.out) == (0, "Done.\n")
    lines = done.err.splitlines()
    edited = lines.index("· Edit a.py")
    assert lines[edited + 1].startswith("! apply_diff: 1 of 2 blocks could not be applied to a.py")
    assert any(line.startswith("! read_file: File not found:") for line in lines)
    assert "joey: ended with the run: `sleep 600`" in lines
    assert " tokens in all requests" in lines[-1]


async def test_a_refusal_without_a_user_is_one_the_model_can_follow(joey: Joey) -> None:
    async with ModelServer(
        [reply(call("list_files", {"path": "/etc/ssl/private"})), DONE]
    ) as server:
        done = await joey.run("-p", "-y", "--no-sandbox", *reach(server.url), "do it")
    assert (done.code, done.out) == (3, "Done.\n")
    assert "joey: done, but 1 call refused · " in done.err
    (result,) = list_results(server.requests[1])
    assert result.startswith("This call was not carried out: it needs approval, and in this run")
    assert "user did not" not in result


async def test_a_refusal_names_the_protected_file_to_model_and_user(joey: Joey) -> None:
    patch = "".join(f"*** Add File: {name}\n+x\n" for name in ("a", "b", "c", "AGENTS.md"))
    patch = f"*** Begin Patch\n{patch}*** End Patch"
    async with ModelServer([reply(call("apply_patch", {"patch": patch})), DONE]) as server:
        done = await joey.run("-p", "-y", "--no-sandbox", *reach(server.url), "do it")
    (result,) = list_results(server.requests[1])
    assert " Protected: AGENTS.md. " in result
    assert "another way" not in result
    assert "1 more (protected: AGENTS.md)" in done.err


async def test_the_sandbox_is_explained_once_in_a_task(sandboxed: Joey) -> None:
    fail = "echo 'curl: (6) Could not resolve host: a.org'; exit 6"
    played = await play(
        sandboxed,
        reply(run(fail), run(fail)),
        reply(run("cat nowhere.txt")),
        DONE,
        flags=SANDBOXED,
    )
    first, second = played.results(1)
    assert "The command ran in a sandbox" in first
    assert "The command ran in a sandbox" not in second
    assert "The sandbox has no such network access: curl: (6) Could not resolve" in second
    assert "sandbox" not in output_of(played, 2)
