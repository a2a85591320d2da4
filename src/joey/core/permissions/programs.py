"""Arguments that turn an allowed program into something else.

A rule names a program and perhaps its first arguments; whatever follows was chosen by the model.
Programs that run other programs, and those that write files or run code when told to by an
option, are approved only with arguments known to be harmless. A path that leaves the workspace
always needs a look.
"""

from __future__ import annotations

import re

from msgspec import Struct

from joey.core.permissions.shell import Words, word_set

RUNNERS = word_set(
    ". ash bash builtin busybox chroot chrt command csh dash doas entr env eval exec fish flock"
    " ionice ksh ltrace nice nohup nsenter parallel proot runuser script setpriv setsid sh source"
    " ssh stdbuf strace su sudo systemd-run taskset tcsh time timeout trap unshare watch xargs"
    " zsh"
)
"""Run what their arguments say."""
_SHELL_STATE = word_set(
    "alias bind compgen complete declare enable export hash let local mapfile readarray readonly"
    " set shopt typeset unalias unset"
)
"""Builtins that change what later commands of the line mean."""
_MOVERS = frozenset({"cd", "pushd"})


class _Guard(Struct, frozen=True):
    options: frozenset[str]
    """Known to be harmless; any other is not."""
    first: frozenset[str] | None = None
    """What the first argument may be (a subcommand); None: anything."""
    operands: int | None = None
    """How many arguments are read; a further one would be written to."""


_SEARCH = word_set(
    "-A -B -C -E -F -G -H -I -L -P -R -S -U -a -c -e -h -i -l -m -n -o -q -r -s -u -v -w -x"
    " -g -t -T --after-context --before-context --color --colour --context --count --exclude"
    " --exclude-dir --extended-regexp --files --files-with-matches --files-without-match"
    " --fixed-strings --glob --heading --hidden --ignore-case --include --invert-match"
    " --line-number --max-count --no-filename --no-heading --no-ignore --no-messages"
    " --only-matching --perl-regexp --quiet --recursive --regexp --smart-case --sort --type"
    " --type-not --with-filename --word-regexp"
)
_GUARDS = {
    "awk": _Guard(frozenset(), first=frozenset()),
    "fd": _Guard(
        word_set(
            "-H -I -L -a -d -e -g -i -p -s -t --absolute-path --color --extension --full-path"
            " --glob --hidden --ignore-case --max-depth --no-ignore --type"
        )
    ),
    "file": _Guard(word_set("-L -b -i --brief --mime --mime-encoding --mime-type")),
    "find": _Guard(
        word_set(
            "-H -L -P -a -amin -and -anewer -atime -cmin -cnewer -ctime -daystart -depth -empty"
            " -executable -false -follow -group -iname -inum -ipath -iregex -links -lname -ls"
            " -maxdepth -mindepth -mmin -mount -mtime -name -newer -not -o -or -path -perm -print"
            " -print0 -printf -prune -quit -readable -regex -regextype -samefile -size -true"
            " -type -user -wholename -writable -xdev"
        )
    ),
    "gawk": _Guard(frozenset(), first=frozenset()),
    "git": _Guard(
        word_set(
            "-1 -A -B -M -P -S -U -a -b -d -i -l -m -n -p -q -r -s -u -v -w -z --abbrev"
            " --abbrev-commit --abbrev-ref --after --all --amend --author --before --branch"
            " --branches --cached --color --compact-summary --contains --count --date --decorate"
            " --diff-filter --dry-run --first-parent --follow --format --full-name --graph --grep"
            " --heads --ignore-all-space --ignore-space-change --long --max-count --merged"
            " --merges --message --minimal --name-only --name-status --no-color --no-commit-id"
            " --no-edit --no-ext-diff --no-merges --no-pager --no-renames --no-textconv"
            " --not --numstat --oneline --others --exclude-standard --patch --porcelain --pretty"
            " --quiet --raw --relative --reverse --short --shortstat --show-current --show-toplevel"
            " --since --sort --stat --staged --summary --tags --unified --until --untracked-files"
            " --verbose --verify --version --word-diff"
        ),
        first=word_set(
            "add blame branch cat-file check-ignore checkout cherry-pick commit describe diff"
            " fetch for-each-ref grep log ls-files ls-tree merge merge-base mv name-rev pull push"
            " reflog remote reset restore rev-list rev-parse rm shortlog show show-ref"
            " stash status switch tag version"
        ),
    ),
    "grep": _Guard(_SEARCH),
    "mawk": _Guard(frozenset(), first=frozenset()),
    "nawk": _Guard(frozenset(), first=frozenset()),
    "rg": _Guard(_SEARCH),
    "shuf": _Guard(word_set("-e -i -n -r -z")),
    "sort": _Guard(
        word_set(
            "-M -V -b -c -d -f -g -h -i -k -n -r -s -t -u -z --field-separator --ignore-case"
            " --key --numeric-sort --reverse --stable --unique --version-sort"
        )
    ),
    "tar": _Guard(word_set("-J -a -c -f -j -k -p -r -t -u -v -x -z --exclude --list --verbose")),
    "tree": _Guard(word_set("-C -D -F -I -L -P -a -d -f -h -i -n -p -s --dirsfirst --gitignore")),
    "uniq": _Guard(word_set("-c -d -f -i -s -u -w -z --count --repeated --unique"), operands=1),
    "xxd": _Guard(word_set("-c -g -l -p -s -u"), operands=1),
    "yq": _Guard(word_set("-C -M -P -r -o --output-format --unwrapScalar")),
}
_HARMLESS_SED = re.compile(r"(\d+|\$)(,(\d+|\$))?p(;(\d+|\$)(,(\d+|\$))?p)*")
_CLUSTER = re.compile(r"-[A-Za-z0-9]+")
_OUTSIDE = re.compile(
    r"""
      ( ^ | [=,@] | :(?!//) ) [/~]
    | ( ^ | [=,@:/] ) \.\. ( / | $ )
    | ^ -[A-Za-z]+ ( [/~] | \.\. ( / | $ ) )
    | \b file:
    """,
    re.VERBOSE | re.IGNORECASE,
)
_EVALUATED = re.compile(r"`|\$[({\[]")
"""Quoted, this is text to the shell; builtins that compute may still carry it out."""


def program_name(word: str) -> str:
    return word.rpartition("/")[2].casefold()


def concern(words: Words, granted: int) -> str | None:
    """Why a person should see the arguments after the first `granted` words, or None.

    A command that is its rule word for word has nothing left to worry about.
    """
    name, rest = program_name(words[0]), words[granted:]
    if name in _MOVERS and all(word.startswith("-") for word in words[1:]):
        return f"{name} without a folder leaves the workspace"
    if not rest:
        return None
    if name in RUNNERS:
        return f"{name} runs other programs"
    if name in _SHELL_STATE:
        return f"{name} changes how later commands are understood"
    for word in rest:
        if leaves_workspace(word):
            return f"`{word}` may lie outside the workspace"
        if _EVALUATED.search(word):
            return f"`{word}` may be evaluated"
    if name == "sed":
        return _sed_concern(rest)
    if guard := _GUARDS.get(name):
        return _guard_concern(guard, words, granted)
    return None


def leaves_workspace(word: str) -> bool:
    return word != "/dev/null" and _OUTSIDE.search(word) is not None


def _sed_concern(rest: Words) -> str | None:
    """Scripts of sed can write files and run commands; printing lines is what is left."""
    match rest:
        case ("-n", script, *files) if _HARMLESS_SED.fullmatch(script):
            if not any(file.startswith("-") for file in files):
                return None
    return "sed can change files and run commands"


def _guard_concern(guard: _Guard, words: Words, granted: int) -> str | None:
    name = program_name(words[0])
    for word in words[granted:]:
        if not _is_operand(word) and word != "--" and not _is_known(word, guard.options):
            return f"option `{word}` of {name} is not known to be harmless"
    operands = [word for word in words[1:] if _is_operand(word)]
    if granted == 1 and guard.first is not None and operands and operands[0] not in guard.first:
        return f"`{name} {operands[0]}` is not known to be harmless"
    if guard.operands is not None and len(operands) > guard.operands:
        return f"{name} would write to its last argument"
    return None


def _is_operand(word: str) -> bool:
    return word == "-" or not word.startswith("-")


def _is_known(option: str, known: frozenset[str]) -> bool:
    if option.partition("=")[0] in known:
        return True
    return _CLUSTER.fullmatch(option) is not None and all(
        letter.isdigit() or f"-{letter}" in known for letter in option[1:]
    )
