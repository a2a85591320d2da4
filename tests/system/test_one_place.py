"""Programs are started in one place, and files are locked and replaced in one: `joey.system`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.harness.paths import SOURCE

EXCEPTIONS = {
    "system/subprocess.py": "the one place",
    "execution/sandbox/bubblewrap.py": "asks bwrap for its options, in a thread without a loop",
    "execution/sandbox/forkserver.py": "the fork server forks supervisors; imports nothing of joey",
    "execution/sandbox/forkserver_client.py": "the fork server outlives what it starts",
    "execution/sandbox/kernel.py": "forks to enter the network namespace of a command",
    "execution/sandbox/launcher.py": "becomes the shell, once it is confined",
    "execution/sandbox/probe.py": "runs the fork server without a loop",
    "execution/sandbox/sandbox.py": "asks whether the owner of a temporary directory runs",
    "execution/sandbox/supervisor.py": "the supervisor forks the command, and signals all inside",
}
MODULES = {"subprocess", "multiprocessing", "pty"}
STARTERS = {"create_subprocess_exec", "create_subprocess_shell", "subprocess_exec"}
STARTERS |= {"subprocess_shell", "ProcessPoolExecutor", "Popen", "posix_spawn", "posix_spawnp"}
OF_OS = {"fork", "forkpty", "system", "popen", "kill", "killpg", "waitpid", "pidfd_send_signal"}
OF_OS_PREFIXES = ("exec", "spawn")


def find_starts(tree: ast.AST) -> Iterator[str]:
    """What starts, signals or reaps a process."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (each.name for each in names if each.name in MODULES)
            case ast.ImportFrom(module=str(module), names=names):
                if module in {*MODULES, "asyncio.subprocess"} or module.startswith("multiproc"):
                    yield module
                found = {each.name for each in names}
                yield from sorted(found & STARTERS if module != "os" else found & OF_OS)
            case ast.Attribute(value=ast.Name(id="os"), attr=name):
                if name in OF_OS or name.startswith(OF_OS_PREFIXES):
                    yield f"os.{name}"
            case ast.Attribute(attr=name) if name in STARTERS:
                yield name


def test_programs_are_started_in_one_place() -> None:
    found = {
        str(path.relative_to(SOURCE)): sorted(set(starts))
        for path in SOURCE.rglob("*.py")
        if (starts := list(find_starts(ast.parse(path.read_text(encoding="utf-8")))))
    }
    assert found.keys() - EXCEPTIONS.keys() == set(), found
    assert EXCEPTIONS.keys() - found.keys() == set()


FILE_EXCEPTIONS = {
    "cli/commands/tasks.py": "exports to where the user says, also through a link",
    "storage/journal.py": "opens its own file for appending, which must be new or the one there",
    "storage/task_directory.py": "looks at a lock file without making one",
}
"""Besides the sandbox, which works with directory handles of its own."""
FILE_PRIMITIVES = {"flock", "lockf", "mkstemp", "O_NOFOLLOW", "O_NONBLOCK", "O_EXCL"}


def test_files_are_locked_and_replaced_in_one_place() -> None:
    found = set()
    for path in SOURCE.rglob("*.py"):
        name = str(path.relative_to(SOURCE))
        nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if not name.startswith(("system/", "execution/sandbox/")) and any(
            isinstance(node, ast.Attribute)
            and (node.attr in FILE_PRIMITIVES or ast.unparse(node) == "os.replace")
            for node in nodes
        ):
            found.add(name)
    assert found == set(FILE_EXCEPTIONS)
