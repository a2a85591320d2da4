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
from joey.workspace.checkpoints.folder import signature
from joey.workspace.checkpoints.look import Sight
from joey.workspace.checkpoints.shadow import GitRefusal, Shadow

_REFS = "refs/joey/"
_ID = re.compile(r"[0-9a-f]{40}")
_PLAIN = re.compile(r"[A-Za-z0-9_-]{1,100}")
_NANOSECONDS = 1_000_000_000


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


async def keep(git: Shadow, task_id: str, sight: Sight) -> str:
    """Make a checkpoint; its id."""
    lines = [f"Files of {_task_folder(task_id)}", ""]
    lines += (quote_from_bytes(path) for path in sorted(sight.left_out))
    message = "\n".join([*lines, ""]).encode()
    made = (await git.run("commit-tree", sight.tree, "-F", "-", given=message)).decode().strip()
    # Zeros: such a ref must not be there yet.
    await git.run("update-ref", f"{_refs_of(task_id)}{time.time_ns():020}", made, "0" * 40)
    return made


async def last_of(git: Shadow, task_id: str) -> Moment | None:
    wanted = ("--sort=-refname", "--count=1", "--format=%(objectname)", _refs_of(task_id))
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


def signature_of(git: Shadow, task_id: str) -> tuple[tuple[int, ...], ...]:
    """Other whenever checkpoints of the task were made, dropped or packed, or the repository is
    not what it was."""
    names = (_refs_of(task_id), "packed-refs", "HEAD", "config", "objects")
    return tuple(signature(git.path / name) for name in names)


async def refs(git: Shadow, task_id: str | None = None) -> list[Ref]:
    """Of a task or of all, the oldest first."""
    below = _REFS if task_id is None else _refs_of(task_id)
    names = (await git.run("for-each-ref", "--format=%(refname)", below)).decode().split()
    return sorted(map(Ref, names), key=lambda ref: ref.seconds)


async def drop(git: Shadow, gone: list[Ref]) -> None:
    if gone:
        lines = "".join(f"delete {ref.name}\n" for ref in gone)
        await git.run("update-ref", "--stdin", given=lines.encode())


def _refs_of(task_id: str) -> str:
    return f"{_REFS}{_task_folder(task_id)}/"


def _task_folder(task_id: str) -> str:
    """A name that git takes: its own, if it is an ordinary one."""
    if _PLAIN.fullmatch(task_id) and not task_id.startswith("-"):
        return task_id
    return "x" + task_id.encode(errors="surrogateescape").hex()[:200]
