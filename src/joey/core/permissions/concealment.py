"""Ways in which a line may run what it does not name, so that no deny rule would see it.

What a project's own programs do is theirs (`npm test`, `./build`). But code, settings, files and
names that the line itself brings along are a way around the rules, and nobody can tell by reading
what comes of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from joey.core.permissions.programs import carries_out_input, program_name
from joey.core.permissions.runners import RUNNERS, STARTERS, VERSION, bare_name, started_at
from joey.core.permissions.scripts import is_harmless_awk, is_harmless_sed, script_words
from joey.core.permissions.shell import Words, word_set
from joey.core.regex import regex

_CODE = regex(r"[^\w\-./:,+@%=^~]")
_SYNTAX = regex(r"[^\w\-./:,+@%=^]")
_SEDS = word_set("sed gsed")
_AWKS = word_set("awk gawk mawk nawk original-awk goawk")
_FOREIGN_SHELLS = word_set("cmd powershell pwsh")
"""Their quoting is another than bash's, and they take code in disguise."""
_SED_RUNS = regex(r"(?<![A-Za-z0-9])[gpiImM0-9]*e[gpiImM0-9]*(?:\s|$|[;}])")
_AWK_RUNS = regex(r"system|[|@]")
_WRITTEN = regex(r">\|?\s*([^\s;&|()<>]+)")
_FED = regex(r"(?<!<)<\s*[^\s;&|()<>]")
_COMPUTED = regex(r"[$]\(|`")
_MAKERS = word_set("base64 cp curl dd hash install ln mv openssl rsync tee wget xxd")
_GIT_SETTINGS = regex(
    r"(user|color|advice)\.|(core\.(quotepath|autocrlf)|commit\.gpgsign|init\.defaultbranch)=",
    re.IGNORECASE,
)
_GIT_COMMANDS = word_set(
    "add am annotate apply archive bisect blame branch bundle cat-file check-attr check-ignore"
    " checkout cherry cherry-pick clean clone commit commit-tree config count-objects describe diff"
    " diff-files diff-index diff-tree difftool fetch filter-branch for-each-ref format-patch fsck"
    " gc grep hash-object help init log ls-files ls-remote ls-tree maintenance merge merge-base"
    " merge-file merge-tree mergetool mv name-rev notes prune pull push range-diff read-tree rebase"
    " reflog remote repack replace rerere reset restore rev-list rev-parse revert rm shortlog show"
    " show-branch show-ref sparse-checkout stash status submodule switch symbolic-ref tag"
    " update-index update-ref var verify-commit verify-tag version whatchanged worktree write-tree"
)
"""Nothing in anybody's settings takes their place."""


def inner_lines(words: Words) -> list[str]:
    """Arguments that another shell may read as a line of its own."""
    starters = STARTERS.get(program_name(words[0]), frozenset())
    started = {program_name(words[at + 1]) for at in range(len(words) - 1) if words[at] in starters}
    if not RUNNERS.intersection((program_name(words[0]), *started)):
        return []
    return [text for text in words[1:] if _SYNTAX.search(text)]


def code_doubt(words: Words) -> str | None:
    """About code that the command has among its arguments."""
    name = program_name(words[0])
    if name in _SEDS | _AWKS:
        runs, is_harmless = (
            (_SED_RUNS, is_harmless_sed) if name in _SEDS else (_AWK_RUNS, is_harmless_awk)
        )
        scripts = [words[at] for at in script_words(words) if at < len(words)]
        hidden = any(runs.search(text) and not is_harmless(text) for text in scripts)
    elif name in _FOREIGN_SHELLS:
        hidden = len(words) > 1 and words[1] not in ("--version", "-version")
    else:
        at = started_at(name, words)
        is_language = at is not None and (name.rstrip(VERSION) or name) == bare_name(name)
        hidden = (
            at is not None and is_language and any(_CODE.search(word) for word in words[1 : at + 1])
        )
    return f"what the code for {name} does is known only when it runs" if hidden else None


def git_doubt(words: Words) -> str | None:
    """About a git command of which settings say what it does: an alias, or one given with it."""
    if program_name(words[0]) != "git":
        return None
    at = 1
    while at < len(words) and words[at].startswith("-"):
        option, _, value = words[at].partition("=")
        if option == "-c":
            value = words[at + 1] if at + 1 < len(words) else ""
        if option in ("--config-env", "--exec-path") and value:
            return f"`{words[at]}` decides what git does"
        if option.startswith("-c") and not _GIT_SETTINGS.match(value or option[2:]):
            return f"the setting `{value or option[2:]}` decides what git does"
        at += 2 if words[at] in ("-c", "-C", "--git-dir", "--work-tree", "--namespace") else 1
    if at < len(words) and words[at] not in _GIT_COMMANDS:
        return f"`git {words[at]}` may be an alias for something else"
    return None


def made_and_run(line: str, commands: Sequence[Words]) -> str | None:
    """What the line seems to make, or is fed from a file, and runs; `commands` are without what
    goes to files or comes from them."""
    made = {_base(target) for target in _WRITTEN.findall(line)}
    makers = [words for words in commands if program_name(words[0]) in _MAKERS]
    made.update(_base(word) for words in makers for word in words[1:])
    if makers and _COMPUTED.search(line):
        # The words behind what is computed stand alone.
        made.update(words[0] for words in commands if len(words) == 1)
    for words in commands:
        name = program_name(words[0])
        carries_out = name in RUNNERS or carries_out_input(words)
        ran = words if carries_out else words[:1]
        if carries_out and len(words) == _options(words) + 1 and _FED.search(line):
            return name
        found = next((word for word in ran if _base(word) in made), None)
        if found is not None and (carries_out or found != _base(found) or len(words) > 1):
            return found
    return None


def _options(words: Words) -> int:
    return sum(word.startswith("-") for word in words[1:])


def _base(word: str) -> str:
    return word.rpartition("/")[2]
