"""With `-y`, file tools reach as far as sandboxed commands do, and no further."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from joey.testing.script import Turn, call
from joey.testing.server import ModelServer
from tests.harness.cli.binary import Finished, Joey, reach
from tests.harness.tools.image_server import URI, ImageServer, image_server, make_image_answer

__all__ = ["image_server"]

DONE = Turn(call("attempt_completion", {"result": "done"}))
SECRET = "the-words-of-a-private-key"


class Ran(Finished, frozen=True):
    tool_results: str
    """All tool results that the model was sent."""


async def run(joey: Joey, turns: list[Turn], *flags: str, env: dict[str, str] | None = None) -> Ran:
    async with ModelServer([*turns, DONE]) as server:
        done = await joey.run(
            "-p", "-y", *flags, *reach(server.url), "go", env={**joey.env, **(env or {})}
        )
        messages = server.requests[-1].body["messages"]
    blocks = (block for message in messages for block in message["content"])
    tool_results = [json.dumps(each) for each in blocks if each["type"] == "tool_result"]
    return Ran(done.code, done.out, done.err, "\n".join(tool_results))


def tool(name: str, **arguments: Any) -> Turn:
    return Turn(call(name, arguments))


def writing(path: object, content: str = "evil\n") -> Turn:
    return tool("write_to_file", path=str(path), content=content)


@pytest.fixture
def home(joey: Joey) -> Path:
    home = joey.home.parent
    (home / ".bashrc").write_text("mine\n", encoding="utf-8")
    (home / ".ssh").mkdir()
    (home / ".ssh/id_rsa").write_text(SECRET, encoding="utf-8")
    return home


def names_in(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


def patch(*lines: str) -> Turn:
    return tool("apply_patch", patch="\n".join(["*** Begin Patch", *lines, "*** End Patch"]))


def diff(path: object, old: str, new: str) -> Turn:
    block = f"<<<<<<< SEARCH\n{old}\n=======\n{new}\n>>>>>>> REPLACE"
    return tool("apply_diff", path=str(path), diff=block)


# Writing ----------------------------------------------------------------------------------------

CHANGES = {
    "write_to_file": lambda to: [writing(to)],
    "apply_diff": lambda to: [diff(to, "mine", "evil")],
    "insert_content": lambda to: [tool("insert_content", path=str(to), line=0, content="evil")],
    "edit": lambda to: [tool("edit", file_path=str(to), old_string="mine", new_string="evil")],
    "search_replace": lambda to: [
        tool("search_replace", file_path=str(to), old_string="mine", new_string="evil")
    ],
    "edit_file": lambda to: [
        tool("edit_file", file_path=str(to), old_string="mine", new_string="evil")
    ],
    "patch that updates": lambda to: [patch(f"*** Update File: {to}", "@@", "-mine", "+evil")],
    "patch that deletes": lambda to: [patch(f"*** Delete File: {to}")],
    "patch that moves away": lambda to: [
        patch(f"*** Update File: {to}", "*** Move to: taken.txt", "@@", "-mine", "+evil")
    ],
    "patch that moves there": lambda to: [
        writing("mine.txt", "mine\n"),
        patch("*** Update File: mine.txt", f"*** Move to: {to}.new", "@@", "-mine", "+evil"),
    ],
}


@pytest.mark.contract("permissions:yes")
@pytest.mark.parametrize("name", CHANGES)
async def test_no_edit_leaves_the_workspace(joey: Joey, home: Path, name: str) -> None:
    before = names_in(home)
    ran = await run(joey, CHANGES[name](home / ".bashrc"))
    assert (home / ".bashrc").read_text(encoding="utf-8") == "mine\n"
    assert names_in(home) - before == {"joey-home"}
    assert ran.code == 3
    assert "--add-dir" in ran.tool_results
    assert "alwaysAllowWriteOutsideWorkspace" in ran.tool_results


@pytest.mark.parametrize("sandbox", [(), ("--no-sandbox",)])
async def test_a_link_that_a_command_planted_leads_nowhere(
    joey: Joey, home: Path, sandbox: tuple[str, ...]
) -> None:
    command = f"ln -s {home} out && ln -s {home}/.bashrc notes.txt"
    turns = [
        tool("execute_command", command=command),
        writing("notes.txt"),
        writing("out/.bashrc"),
        writing("out/new/deep.txt"),
        diff("notes.txt", "mine", "evil"),
    ]
    ran = await run(joey, turns, *sandbox)
    assert (joey.workspace / "out").is_symlink()
    assert (home / ".bashrc").read_text(encoding="utf-8") == "mine\n"
    assert not (home / "new").exists()
    assert ran.code == 3


async def test_protected_files_need_their_own_setting(joey: Joey) -> None:
    rules = joey.workspace / ".roo/rules/x.md"
    ran = await run(joey, [writing(".roo/rules/x.md")])
    assert not rules.exists()
    assert ran.code == 3
    assert "alwaysAllowWriteProtected" in ran.tool_results
    assert "alwaysAllowWriteProtected" in ran.err
    joey.settings(alwaysAllowWriteProtected=True)
    ran = await run(joey, [writing(".roo/rules/x.md")])
    assert (ran.code, rules.exists()) == (0, True)


async def test_what_the_user_allowed_everywhere_is_allowed_with_yes_too(
    joey: Joey, home: Path
) -> None:
    joey.settings(alwaysAllowWriteOutsideWorkspace=True, alwaysAllowReadOnlyOutsideWorkspace=True)
    turns = [writing(home / "new.txt"), tool("read_file", path=str(home / ".ssh/id_rsa"))]
    ran = await run(joey, turns)
    assert ran.code == 0
    assert (home / "new.txt").exists()
    assert SECRET in ran.tool_results


async def test_the_temporary_directory_can_be_written_where_it_is_set(
    joey: Joey, home: Path
) -> None:
    temp = home / "temporary"
    temp.mkdir()
    (temp / "old.txt").write_text("mine\n", encoding="utf-8")
    turns = [writing(temp / "a/new.txt"), diff(temp / "old.txt", "mine", "evil")]
    assert (await run(joey, turns)).code == 3
    assert not (temp / "a").exists()
    ran = await run(joey, turns, env={"TMPDIR": str(temp)})
    assert ran.code == 0
    assert (temp / "a/new.txt").exists()
    assert (temp / "old.txt").read_text(encoding="utf-8") == "evil\n"


@pytest.mark.parametrize("temp", ["/", "..", "../.."])
async def test_a_temporary_directory_around_the_home_opens_nothing(
    joey: Joey, home: Path, temp: str
) -> None:
    wide = (joey.workspace / temp).resolve()
    ran = await run(joey, [writing(home / "new.txt")], env={"TMPDIR": str(wide)})
    assert ran.code == 3
    assert not (home / "new.txt").exists()


async def test_images_stay_in_the_workspace(
    joey: Joey, home: Path, image_server: tuple[type[ImageServer], str]
) -> None:
    kind, url = image_server
    kind.answer = make_image_answer(URI)
    art = {"provider": "openrouter", "model": "paint", "baseUrl": url, "apiKey": "k"}
    joey.settings(imageProfile="art")
    profiles = json.dumps({"profiles": {"art": art}})
    (joey.home / "profiles.json").write_text(profiles, encoding="utf-8")
    (home / "seen.png").write_bytes(b"\x89PNG\r\n\x1a\n" + SECRET.encode())
    turns = [
        tool("generate_image", prompt="x", path=str(home / "new.png")),
        tool("generate_image", prompt="x", path="here.png", image=str(home / "seen.png")),
        tool("generate_image", prompt="x", path="mine.png"),
    ]
    ran = await run(joey, turns)
    assert ran.code == 3
    assert [path.name for path in joey.workspace.iterdir()] == ["mine.png"]
    assert not (home / "new.png").exists()
    assert len(kind.request_bodies) == 1


# Reading ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "turn",
    [
        lambda home: tool("read_file", path=str(home / ".ssh/id_rsa")),
        lambda home: tool("read_file", path="key"),
        lambda home: tool("search_files", path=str(home), regex="private", file_pattern=None),
        lambda home: tool("search_files", path="folder", regex="private", file_pattern=None),
        lambda home: tool("list_files", path=str(home / ".ssh"), recursive=False),
        lambda home: tool("list_files", path="folder", recursive=True),
        lambda home: tool("list_code_definition_names", path=str(home / ".ssh")),
        lambda home: tool("execute_command", command=f"cat {home}/.ssh/id_rsa key; ls folder/"),
    ],
)
async def test_nothing_is_read_that_sandboxed_commands_do_not_see(
    joey: Joey, home: Path, turn: Any
) -> None:
    (joey.workspace / "key").symlink_to(home / ".ssh/id_rsa")
    (joey.workspace / "folder").symlink_to(home / ".ssh")
    ran = await run(joey, [turn(home)])
    assert SECRET not in ran.tool_results
    assert '"id_rsa' not in ran.tool_results.replace("cat ", "")
    if "execute_command" not in ran.err and "$ cat" not in ran.err:
        assert ran.code == 3
        assert "--add-dir" in ran.tool_results
        assert "alwaysAllowReadOnlyOutsideWorkspace" in ran.tool_results


async def test_what_sandboxed_commands_see_can_be_read(joey: Joey) -> None:
    turns = [
        tool("read_file", path="/etc/passwd"),
        tool("list_files", path="/usr/share", recursive=False),
        tool("search_files", path="/etc/passwd", regex="^root", file_pattern=None),
    ]
    ran = await run(joey, turns)
    assert ran.code == 0
    assert ran.tool_results.count("root:x:0:0") == 2


async def test_searches_pass_over_what_is_hidden_below(joey: Joey, home: Path) -> None:
    (home / "notes.txt").write_text("a private note", encoding="utf-8")
    turns = [
        tool("search_files", path=".", regex="private", file_pattern=None),
        tool("list_files", path=".", recursive=False),
        tool("read_file", path=".ssh/id_rsa"),
        tool("read_file", path="notes.txt"),
        diff(".ssh/id_rsa", "not there", "evil"),
    ]
    ran = await run(joey, turns, "-w", str(home))
    assert SECRET not in ran.tool_results
    assert "a private note" in ran.tool_results
    assert "joey-home" not in ran.tool_results
    assert ran.code == 3


async def test_mentions_bring_nothing_along_that_is_hidden(joey: Joey, home: Path) -> None:
    (home / "notes.txt").write_text("a note of mine", encoding="utf-8")
    subtask = tool("new_task", mode="code", message="look at @/.ssh/id_rsa", todos=None)
    async with ModelServer([subtask, DONE, DONE]) as server:
        prompt = "look at @/notes.txt and @/.ssh/id_rsa"
        await joey.run("-p", "-y", "-w", str(home), *reach(server.url), prompt)
        sent = json.dumps([request.body for request in server.requests])
    assert "a note of mine" in sent
    assert SECRET not in sent


# --add-dir --------------------------------------------------------------------------------------


@pytest.fixture
def library(home: Path) -> Path:
    library = home / "library"
    library.mkdir()
    (library / "code.py").write_text("old = 1\n", encoding="utf-8")
    return library


@pytest.mark.contract("permissions:yes")
async def test_an_added_directory_is_open_to_tools_and_commands(joey: Joey, library: Path) -> None:
    turns = [
        tool("read_file", path=str(library / "code.py")),
        tool("search_files", path=str(library), regex="old", file_pattern=None),
        diff(library / "code.py", "old = 1", "new = 2"),
        writing(library / "more/x.py", "x = 3\n"),
        tool("execute_command", command=f"cat {library}/code.py && touch {library}/made"),
    ]
    ran = await run(joey, turns, "--add-dir", "../library")
    assert ran.code == 0
    assert (library / "code.py").read_text(encoding="utf-8") == "new = 2\n"
    assert (library / "more/x.py").exists()
    assert (library / "made").exists()
    assert "new = 2" in ran.tool_results


async def test_several_directories_can_be_added_and_others_stay_closed(
    joey: Joey, library: Path, home: Path
) -> None:
    (home / "other").mkdir()
    turns = [writing(library / "a"), writing(home / "other/b"), writing(home / "c")]
    flags = ("--add-dir", str(library), "--add-dir", str(home / "other"))
    ran = await run(joey, turns, *flags)
    assert ran.code == 3
    assert (library / "a").exists()
    assert (home / "other/b").exists()
    assert not (home / "c").exists()


async def test_protected_names_in_an_added_directory_are_protected(
    joey: Joey, library: Path, home: Path
) -> None:
    hooks = library / ".git/hooks/pre-commit"
    (library / "settings").mkdir()
    (library / ".roo").symlink_to("settings")
    turns = [writing(hooks), writing(library / "settings/rules.md"), writing(home / ".config/x/y")]
    (home / ".config/x").mkdir(parents=True)
    ran = await run(joey, turns, "--add-dir", str(library), "--add-dir", str(home / ".config/x"))
    assert ran.code == 3
    assert not hooks.exists()
    assert not (library / "settings/rules.md").exists()
    assert (home / ".config/x/y").exists()


async def test_without_yes_an_added_directory_counts_as_workspace(
    joey: Joey, library: Path
) -> None:
    turns = [
        tool("read_file", path=str(library / "code.py")),
        writing(library / "x.py"),
        tool("execute_command", command=f"touch {library}/made"),
        DONE,
    ]
    allowed = ("--allow-writes", "--allow", f"touch {library}/made")
    async with ModelServer(turns) as server:
        done = await joey.run("-p", *allowed, "--add-dir", str(library), *reach(server.url), "go")
    assert done.code == 0
    assert (library / "x.py").exists()
    assert (library / "made").exists()


async def test_subtasks_have_the_added_directories_too(joey: Joey, library: Path) -> None:
    turns = [
        tool("new_task", mode="code", message="part", todos=None),
        writing(library / "x.py"),
        DONE,
    ]
    ran = await run(joey, turns, "--add-dir", str(library))
    assert ran.code == 0
    assert (library / "x.py").exists()


async def test_a_continued_task_has_the_directories_of_its_run(joey: Joey, library: Path) -> None:
    assert (await run(joey, [writing(library / "a")], "--add-dir", str(library))).code == 0
    assert (await run(joey, [writing(library / "b")], "-c")).code == 3
    assert not (library / "b").exists()
    assert (await run(joey, [writing(library / "b")], "-c", "--add-dir", str(library))).code == 0
    assert (library / "b").exists()


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("missing", "there is no such directory"),
        ("a.txt", "it is not a directory"),
        ("/", "it contains your home directory"),
        ("..", "it is your home directory"),
        ("../..", "it contains your home directory"),
        ("../joey-home", "joey keeps its own files there"),
        ("../temporary", "joey keeps temporary files of its tasks there"),
    ],
)
async def test_a_directory_that_cannot_be_added_is_refused_at_the_start(
    joey: Joey, given: str, reason: str
) -> None:
    (joey.workspace / "a.txt").write_text("", encoding="utf-8")
    joey.settings()
    temp = joey.home.parent / "temporary"
    temp.mkdir()
    env = {**joey.env, "TMPDIR": str(temp)}
    done = await joey.run("-p", "--add-dir", given, *reach("http://127.0.0.1:9"), "go", env=env)
    assert done.code == 2
    assert f"--add-dir {given}: {reason}" in done.err


async def test_what_would_happen_is_explained_with_the_same_boundary(
    joey: Joey, library: Path, home: Path
) -> None:
    async def decision(*asked: str) -> str:
        done = await joey.run("permissions", "explain", "--json", *asked)
        return str(done.json["decision"])

    key = str(home / ".ssh/id_rsa")
    assert await decision("-y", "--read", key) == "ask"
    assert await decision("-y", "--read", "/etc/passwd") == "allow"
    assert await decision("--read", "/etc/passwd") == "ask"
    assert await decision("-y", "--write", str(library / "x")) == "ask"
    assert await decision("-y", "--add-dir", str(library), "--write", str(library / "x")) == "allow"
    assert await decision("-y", "--write", ".roo/rules/x.md") == "ask"


# Merging and restoring --------------------------------------------------------------------------


def git(directory: Path, *arguments: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    subprocess.run(["git", *who, *arguments], cwd=directory, check=True, capture_output=True)


async def test_a_worktree_brings_no_protected_file_along(joey: Joey) -> None:
    git(joey.workspace, "init", "-q")
    (joey.workspace / "a.txt").write_text("a\n", encoding="utf-8")
    git(joey.workspace, "add", "-A")
    git(joey.workspace, "commit", "-q", "-m", "first")
    command = "mkdir -p .roo/rules && echo evil > .roo/rules/x.md && echo b > b.txt"
    turns = [
        tool("new_task", mode="code", message="part", todos=None, worktree=True),
        tool("execute_command", command=command),
        writing("c.txt", "c\n"),
        DONE,
    ]
    ran = await run(joey, turns, "--no-sandbox")
    assert not (joey.workspace / ".roo").exists()
    assert ".roo/rules/x.md" in ran.tool_results
    assert "alwaysAllowWriteProtected" in ran.tool_results
    joey.settings(alwaysAllowWriteProtected=True)
    assert (await run(joey, turns, "--no-sandbox")).code == 0
    assert (joey.workspace / ".roo/rules/x.md").exists()
    assert (joey.workspace / "b.txt").exists()
    assert (joey.workspace / "c.txt").exists()


async def rows_of(joey: Joey) -> list[dict[str, Any]]:
    shown = await joey.run("tasks", "show", joey.tasks[0].name, "--rows", "--json")
    rows: list[dict[str, Any]] = shown.json
    return rows


@pytest.mark.parametrize("changed", ["linked/a.txt", ".roo/rules/a.md"])
async def test_files_are_restored_in_the_workspace_and_not_over_protected_ones(
    joey: Joey, home: Path, changed: str
) -> None:
    path = joey.workspace / changed
    path.parent.mkdir(parents=True)
    path.write_text("before\n", encoding="utf-8")
    joey.settings(alwaysAllowWriteProtected=True)
    assert (await run(joey, [writing(changed, "after\n")])).code == 0
    joey.settings()
    if changed.startswith("linked"):
        (path.parent).rename(home / "moved")
        path.parent.symlink_to(home / "moved")
    first = str((await rows_of(joey))[0]["ts"])
    flags = ("tasks", "rewind", joey.tasks[0].name, first, "--with-files", "--force", "-y")
    done = await joey.run(*flags)
    place = home / "moved/a.txt" if changed.startswith("linked") else path
    assert place.read_text(encoding="utf-8") == "after\n", done
    if changed.startswith(".roo"):
        assert done.code == 1
        assert "alwaysAllowWriteProtected" in done.err
        joey.settings(alwaysAllowWriteProtected=True)
        assert (await joey.run(*flags)).code == 0
        assert path.read_text(encoding="utf-8") == "before\n"


async def test_a_refusal_by_rule_lets_the_other_calls_of_the_reply_run(
    joey: Joey, home: Path
) -> None:
    turn = Turn(
        call("write_to_file", {"path": str(home / ".bashrc"), "content": "evil\n"}),
        call("write_to_file", {"path": "mine.txt", "content": "good\n"}),
        call("execute_command", {"command": "cat mine.txt"}),
        call("attempt_completion", {"result": "too early"}),
    )
    ran = await run(joey, [turn], "--no-sandbox")
    assert "Created mine.txt" in ran.tool_results and "good" in ran.tool_results
    assert "rejected an earlier call" not in ran.tool_results
    assert "read the results of the other calls" in ran.tool_results
    assert (home / ".bashrc").read_text(encoding="utf-8") == "mine\n"
    assert "· skipped: attempt_completion" in ran.err
