"""What became of the changes that a subtask made in a worktree of its own."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

_MOST_NAMED = 50
_MOST_WARNED = 5


class ChangedFile(Struct, frozen=True):
    path: str
    """As seen from the workspace."""
    added: int | None
    """Lines; None for what has none."""
    removed: int | None


class Merge(Struct, frozen=True, kw_only=True):
    files: tuple[ChangedFile, ...]
    """What the subtask changed."""
    folder: str
    branch: str
    conflicts: tuple[str, ...] = ()
    """Files that were changed on both sides in ways that do not fit together."""
    problem: str = ""
    """Why it was not brought over, where that is not a conflict."""
    is_partly_done: bool = False
    """Some files were written before it turned out that not all can be."""

    @property
    def is_clean(self) -> bool:
        return not self.conflicts and not self.problem


def merge_report(merge: Merge) -> str:
    """For the model and for people."""
    return "\n".join(_lines(merge))


def merge_warning(merge: Merge) -> str:
    """One line for people: where the changes are, and why they are not in the workspace."""
    where = f"Changes of a subtask are left on the branch {merge.branch}, in {merge.folder}:"
    if not merge.conflicts:
        return f"{where} {merge.problem}."
    names = list(merge.conflicts[:_MOST_WARNED])
    more = len(merge.conflicts) - len(names)
    listed = ", ".join([*names, f"{more} more"] if more > 0 else names)
    return f"{where} they do not fit in {listed}."


def _lines(merge: Merge) -> Iterator[str]:
    if not merge.files and merge.is_clean:
        yield "Worktree: no file was changed."
        return
    yield "Worktree: these files were changed:" if merge.files else "Worktree:"
    yield from _listed([_file(file) for file in merge.files])
    if merge.is_clean:
        yield "All of it is in your workspace now, as changes that are not committed."
        return
    if merge.conflicts:
        yield "It does not fit to what is in your workspace now, in:"
        yield from _listed([f"- {path}" for path in merge.conflicts])
    if merge.problem:
        yield f"It could not be brought into your workspace: {merge.problem}."
    yield (
        "Some of your files may have the changes already."
        if merge.is_partly_done
        else "Your files are as they were."
    )
    yield (
        "The changes are committed on the branch"
        f" {merge.branch}, checked out in {merge.folder}; look at them there, or with"
        f" `git show {merge.branch}:PATH`, and bring over what is needed."
    )


def _file(file: ChangedFile) -> str:
    if file.added is None or file.removed is None:
        return f"- {file.path} (binary)"
    return f"- {file.path} (+{file.added} -{file.removed})"


def _listed(lines: list[str]) -> list[str]:
    more = len(lines) - _MOST_NAMED
    return [*lines[:_MOST_NAMED], f"- and {more} more"] if more > 0 else lines
