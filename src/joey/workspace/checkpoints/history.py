"""The checkpoints of a workspace: commits without parents, kept alive by refs of their tasks.

A ref is called after the moment it was made, so that the last one of a task is found by its name,
and the age of any. The message of a commit names the files that were left out: nothing is known
about what they held, so nobody may delete or replace them on the word of that commit.
"""

from __future__ import annotations

import re
import time
from urllib.parse import quote_from_bytes, unquote_to_bytes

from msgspec import Struct

from joey.errors import CheckpointError
from joey.workspace.checkpoints.folder import write_private
from joey.workspace.checkpoints.look import Sight
from joey.workspace.checkpoints.objects import write_object
from joey.workspace.checkpoints.shadow import GitRefusal, Shadow

_REFS = "refs/joey/"
_ID = re.compile(r"[0-9a-f]{40}")
_PLAIN = re.compile(r"[A-Za-z0-9_-]{1,100}")
_NANOSECONDS = 1_000_000_000
_WRITER = "joey <joey@localhost>"


class Moment(Struct, frozen=True):
    """A checkpoint."""

    id: str
    sight: Sight


class Ref(Struct, frozen=True):
    name: str

    @property
    def seconds(self) -> float:
        """Since 1970, when it was made."""
        stamp = self.name.rpartition("/")[2]
        return int(stamp) / _NANOSECONDS if stamp.isdecimal() else 0.0


def keep(git: Shadow, task_id: str, sight: Sight) -> str:
    """Make a checkpoint; its id. Raises OSError."""
    now = time.time_ns()
    lines = [
        f"tree {sight.tree}",
        *(f"{who} {_WRITER} {now // _NANOSECONDS} +0000" for who in ("author", "committer")),
        *("", f"Files of {_task_folder(task_id)}", ""),
        *(quote_from_bytes(path) for path in sorted(sight.left_out)),
    ]
    made = write_object(git.path, b"commit", "\n".join([*lines, ""]).encode())
    ref = git.path / refs_of(task_id) / f"{now:020}"
    for folder in (ref.parent.parent, ref.parent):
        folder.mkdir(mode=0o700, exist_ok=True)
    # As git does it: there either is a ref, or what the next one who has the lock removes.
    new = ref.with_name(f"{ref.name}.lock")
    write_private(new, f"{made}\n".encode())
    new.rename(ref)
    return made


async def last_of(git: Shadow, task_id: str) -> Moment | None:
    if not any((git.path / name).exists() for name in (refs_of(task_id), "packed-refs")):
        return None
    wanted = ("--sort=-refname", "--count=1", "--format=%(objectname)", refs_of(task_id))
    found = (await git.run("for-each-ref", *wanted)).decode().strip()
    return await moment(git, found) if found else None


async def moment(git: Shadow, checkpoint: str) -> Moment:
    """Raises CheckpointError: there is none of this id."""
    if not _ID.fullmatch(checkpoint):
        raise CheckpointError(f"{checkpoint!r} is not the id of a checkpoint.")
    try:
        text = (await git.run("cat-file", "commit", checkpoint)).decode()
    except GitRefusal as refusal:
        raise CheckpointError(
            f"there is no checkpoint {checkpoint[:12]} any more: it was too old, its task was"
            " deleted, or it was damaged."
        ) from refusal
    head, _, message = text.partition("\n\n")
    tree = head.partition("\n")[0].removeprefix("tree ")
    left_out = frozenset(map(unquote_to_bytes, filter(None, message.split("\n")[1:])))
    return Moment(checkpoint, Sight(tree, left_out))


async def refs(git: Shadow, task_id: str | None = None) -> list[Ref]:
    """Of a task or of all, the oldest first."""
    below = _REFS if task_id is None else refs_of(task_id)
    names = (await git.run("for-each-ref", "--format=%(refname)", below)).decode().split()
    return sorted(map(Ref, names), key=lambda ref: ref.seconds)


async def drop(git: Shadow, gone: list[Ref]) -> None:
    if gone:
        lines = "".join(f"delete {ref.name}\n" for ref in gone)
        await git.run("update-ref", "--stdin", given=lines.encode())


def refs_of(task_id: str) -> str:
    """The folder of a task's refs, in the repository."""
    return f"{_REFS}{_task_folder(task_id)}/"


def _task_folder(task_id: str) -> str:
    """A name that git takes: its own, if it is an ordinary one."""
    if _PLAIN.fullmatch(task_id) and not task_id.startswith("-"):
        return task_id
    return "x" + task_id.encode(errors="surrogateescape").hex()[:200]
