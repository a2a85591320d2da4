"""Git commands: what a rule covers, which only read, which run a program chosen by the caller.

A rule that only names git covers reading: history, differences, names. Commands that change the
repository, the working tree or other machines need a rule that names the subcommand. In addition,
options must be known: many of git's options run a program or write a file.
"""

from __future__ import annotations

import re
from functools import cache

from joey.core.permissions.arguments import ProgramSpec, find_argument_concern
from joey.core.permissions.shell import Words, parse_word_set

_HARMLESS_GLOBAL_OPTIONS = parse_word_set(
    "--no-pager -P --no-optional-locks --literal-pathspecs --version --help"
)
READ_ONLY_SUBCOMMANDS = parse_word_set(
    "annotate blame cat-file check-attr check-ignore cherry count-objects describe diff diff-files"
    " diff-index diff-tree for-each-ref grep log ls-files ls-tree merge-base name-rev rev-list"
    " rev-parse shortlog show show-branch show-ref status version whatchanged"
)
_COMMON_OPTIONS = (
    "-1 -A# -B# -C# -M -P -U# -a -b -c -h -i -l -m -n# -p -q -r -s -t -u -v -w -z"
    " --abbrev --abbrev-commit --abbrev-ref --after= --all --author= --before= --branch --branches"
    " --cached --check --color --committer= --compact-summary --contains --count --date="
    " --decorate --diff-filter= --dirstat --dry-run --exclude= --exclude-standard --first-parent"
    " --fixed-strings --follow --format= --full-history --full-name --graph --grep= --heads"
    " --histogram --ignore-all-space --ignore-case --ignore-space-change --is-inside-work-tree"
    " --left-right --line-number --long --max-count# --max-depth# --merged --merges --minimal"
    " --name-only --name-status --no-color --no-commit-id --no-decorate --no-ext-diff --no-merged"
    " --no-merges --no-pager --no-patch --no-renames --no-textconv --not --numstat --oneline"
    " --others --patch --patience --pickaxe-regex --points-at --porcelain --pretty --quiet --raw"
    " --relative --reverse --short --shortstat --show-current --show-toplevel --show-prefix"
    " --since= --skip# --sort= --staged --stat --summary --tags --unified# --until="
    " --untracked-files --verbose --verify --word-diff --words --always --exact-match --ignored"
    " --show-stash --topo-order --is-ancestor --git-dir --merge-base --index --deleted --modified"
    " --stage --unmerged --name-rev --symbolic-full-name --ignore-submodules --find-renames"
    " --ignore-blank-lines --show-function -W --function-context --heading --break --and --or"
    " --invert-match --files-with-matches --word-regexp --extended-regexp --perl-regexp -E -F -I"
    " -w -H"
)
_READ_ONLY_SUBCOMMAND_OPTIONS = (
    " --author-date-order --binary --boundary --cherry-mark --cherry-pick --children --color-words"
    " --cumulative --date-order --dirty --exit-code --full-index --ignore-cr-at-eol"
    " --ignore-space-at-eol --indent-heuristic --no-abbrev --no-abbrev-commit --no-indent-heuristic"
    " --no-prefix --no-standard-notes --no-walk --parents --remotes --right-only --left-only"
    " --show-notes --simplify-by-decoration --source --stat-count# --stat-width# --submodule"
    " --text --walk-reflogs -R -g -uno -uall -unormal -G= -L= -S="
)
_EXTRA_OPTIONS_BY_SUBCOMMAND: dict[str, str] = {
    "add": "-A -N -e -f -p -u --update --intent-to-add",
    "annotate": "-e",
    "blame": "-e",
    "branch": "--list --show-current --track --set-upstream-to= -vv",
    "cat-file": "-e",
    "checkout": "-b= --detach --track --ours --theirs",
    "cherry-pick": "-x --no-commit --abort --continue --quit",
    "clone": "-b= --branch= --depth= --single-branch --no-tags",
    "commit": "-S -a -e -am= -m= -s --amend --message= --no-edit --allow-empty --signoff --fixup=",
    "config": "-l -z --get= --get-all= --get-regexp= --list --show-origin --show-scope --local",
    "grep": "-e=",
    "fetch": "--prune --depth= --no-tags --force",
    "merge": "-m= --no-ff --ff-only --no-edit --abort --squash --continue",
    "mv": "-f -k",
    "pull": "--prune --rebase --no-rebase --ff-only --no-edit --autostash",
    "push": "--set-upstream --delete --follow-tags",
    "rebase": "--abort --continue --skip --onto= --autostash",
    "reset": "--soft --mixed",
    "restore": "-S -W -s= --source= --worktree",
    "rm": "-f --cached",
    "shortlog": "-e",
    "stash": "-m= --include-untracked --message= --keep-index",
    "switch": "-c= --create= --detach --track",
    "tag": "--list -m= --message= --annotate",
}
_VALUELESS_OPTIONS_BY_SUBCOMMAND = {
    "annotate": ("-C", "-n"),
    "blame": ("-C", "-n"),
    "grep": ("-G", "-L", "-n"),
    "shortlog": ("-n",),
}
"""Options that take a value elsewhere, and none here."""
_UNSAFE_OPTIONS_BY_SUBCOMMAND = {
    "annotate": ("-S=",),
    "blame": ("-S=",),
    "cherry-pick": ("-s",),
    "clone": ("-c", "-u"),
    "merge": ("-s",),
    "pull": ("-s",),
    "rebase": ("-s",),
    "revert": ("-s",),
}
"""Options that mean something else here: a setting, a file, a program to run."""
_LISTING_OPTIONS = parse_word_set(
    "-l --list --contains --no-contains --merged --no-merged --points-at"
)
_READ_ONLY_OPTIONS_BY_SUBCOMMAND: dict[str, frozenset[str]] = {
    "branch": _LISTING_OPTIONS
    | parse_word_set(
        "-a -r -v -vv -q -i --all --remotes --show-current --verbose --sort --format --color"
    )
    | parse_word_set("--no-color --abbrev --no-abbrev --ignore-case --column --no-column"),
    "tag": _LISTING_OPTIONS
    | parse_word_set("-n -i --sort --format --color --no-color --ignore-case --column --no-column"),
    "remote": parse_word_set("-v --verbose --all --push"),
    "submodule": parse_word_set("--cached --quiet"),
    "worktree": parse_word_set("-v -z --verbose --porcelain"),
}
"""Their other options may do something, and what such an option takes may look like a pattern."""
_READ_ONLY_ACTIONS_BY_SUBCOMMAND: dict[str, frozenset[str]] = {
    "branch": frozenset(),
    "config": parse_word_set("get list"),
    "reflog": parse_word_set("show"),
    "remote": parse_word_set("get-url"),
    "stash": parse_word_set("list show"),
    "submodule": parse_word_set("status"),
    "tag": frozenset(),
    "worktree": parse_word_set("list"),
}
"""Subcommands that look when they are not told to do something; and what they may be told."""
_CONFIG_READ_OPTIONS = parse_word_set("--get --get-all --get-regexp --list -l")
_PROGRAM_RUNNING_ACTION_PATTERNS = {
    "bisect": "^(run|view|visualize)$",
    "hook": "^run$",
    "maintenance": "^(start|register)$",
    "submodule": "^foreach$",
}
"""What a rule for the subcommand does not say: which program is run."""
_REMOTE_SUBCOMMANDS = parse_word_set("clone fetch pull push remote submodule")
_REMOTE_HELPER_URL_RE = r"[\w.+-]+::|(?!(?:file|git|https?|ssh)://)[\w.+-]+://"
"""An address for which git runs a program, as named before the colons."""
_TRANSPORT_PROGRAM_RE = rf"(?:^|=)(?:{_REMOTE_HELPER_URL_RE})|^--(?:upl|rec|exe)"
_PROGRAM_RUNNING_OPTION_PATTERNS = {
    "clone": rf"{_TRANSPORT_PROGRAM_RE}|^-(?!-)\w*[uc]|^--conf",
    "difftool": "^-(?!-)\\w*x|^--ext",
    "filter-branch": "-filter$",
    "grep": "(?-i:^-(?!-)[a-zA-Z]*O)|^--op",
    "rebase": "^(?:-x|--exec=).",
    "send-email": "^--(?:smtp-s|sendm|to-c|cc-c)",
}
"""By subcommand, options that name a program, or a setting that does."""
_CODE_SETTING_RE = re.compile(
    rf"[$`\\*?\[\]{{}}'\"();&|<>!\0]|(?:^|\s|=)protocol\.(?!version)|{_REMOTE_HELPER_URL_RE}",
    re.IGNORECASE,
)
"""A setting whose value is more than words, or that opens further kinds of address."""
_GLOBAL_OPTIONS_WITH_VALUE = parse_word_set("-c -C --config-env --git-dir --namespace --work-tree")
_UNSAFE_CLONE_SOURCE_RE = r"^(?!https://)[^/]*:|^[./]"
_UNSAFE_REMOTE_ARGUMENT_RE = r":|^[./+]"
"""Other places; and a `+` overwrites what is there."""
_HARMLESS_SETTING_RE = re.compile(
    r"(user|color|advice)\.|(commit\.gpgsign|core\.(autocrlf|eol|filemode|ignorecase|quotepath)"
    r"|fetch\.prune|init\.defaultbranch|merge\.(conflictstyle|ff)|pull\.(ff|rebase)"
    r"|push\.(autosetupremote|default)|rebase\.(autosquash|autostash)|rerere\.enabled)$",
    re.IGNORECASE,
)
_CONFIG_WRITE_ACTIONS = parse_word_set("set unset")
_SIGNATURE_FORMAT_RE = "%(G|[(]signature)"
"""To check one, git runs the program that its settings name."""


def find_program_running_argument(words: Words) -> str | None:
    """Find the word of a git command that makes it run a program chosen by the caller, or None."""
    at = 1
    while at < len(words) and words[at].startswith("-"):
        takes_next = words[at] in _GLOBAL_OPTIONS_WITH_VALUE
        setting = words[at + 1] if takes_next and at + 1 < len(words) else words[at]
        if words[at].startswith(("-c", "--config-env")) and _CODE_SETTING_RE.search(setting):
            return setting
        if words[at].startswith("--exec-path="):
            return words[at]
        at += 2 if takes_next else 1
    name, rest = "".join(words[at : at + 1]), words[at + 1 :]
    if name == "config" and _CODE_SETTING_RE.search("=".join(rest)):
        return " ".join(words[at:])
    running = _PROGRAM_RUNNING_OPTION_PATTERNS.get(
        name, r"(?!)" if name in READ_ONLY_SUBCOMMANDS else _TRANSPORT_PROGRAM_RE
    )
    return next((word for word in rest if re.search(running, word, re.IGNORECASE)), None)


def find_git_concern(words: Words, granted: int) -> str | None:
    """Return why the user should review the words of a git command beyond its rule, or None."""
    at = find_subcommand_index(words)
    for word in words[granted:at]:
        if word not in _HARMLESS_GLOBAL_OPTIONS:
            return f"option `{word}` of git is not known to be harmless"
    if at >= len(words):
        return None
    name, rest = words[at], words[at:]
    if at >= granted and (reason := _find_write_concern(name, rest[1:])):
        return reason
    if name == "config" and (reason := _find_config_concern(rest, granted - at)):
        return reason
    return find_argument_concern(f"git {name}", rest, max(granted - at, 0), build_git_spec(name))


def _find_config_concern(words: Words, granted: int) -> str | None:
    """Find a concern about settings: they may name programs that git runs, and a rule for `git
    config` covers none of them."""
    if _find_write_concern("config", words[1:]) is None:
        return None
    operands = [at for at, word in enumerate(words) if at and not word.startswith("-")]
    at = next((at for at in operands if words[at] not in _CONFIG_WRITE_ACTIONS), None)
    if at is None or at < granted or _HARMLESS_SETTING_RE.match(words[at]):
        return None
    return f"the setting `{words[at]}` may decide what git runs"


def find_subcommand_index(words: Words) -> int:
    """Find the index of the subcommand; the number of words if there is none."""
    positions = (at for at in range(1, len(words)) if not words[at].startswith("-"))
    return next(positions, len(words))


def is_read_only_git(words: Words) -> bool:
    """Whether a git command changes nothing."""
    rest = tuple(word for word in words[1:] if word not in _HARMLESS_GLOBAL_OPTIONS)
    return bool(rest) and _find_write_concern(rest[0], rest[1:]) is None


def _find_write_concern(name: str, rest: Words) -> str | None:
    if name in READ_ONLY_SUBCOMMANDS:
        return None
    unsure = f"`git {name}` may change something; a rule that names it allows it"
    actions = _READ_ONLY_ACTIONS_BY_SUBCOMMAND.get(name)
    if actions is None:
        return unsure
    operands = [word for word in rest if not word.startswith("-")]
    options = {word.partition("=")[0] for word in rest if word.startswith("-")}
    if name == "config":
        reads_one = len(operands) == 1 and not options and "." in operands[0]
        gets = options & _CONFIG_READ_OPTIONS or operands[:1] in (["get"], ["list"])
        return None if gets or reads_one else unsure
    if not options <= _READ_ONLY_OPTIONS_BY_SUBCOMMAND.get(name, options):
        return unsure
    if not operands:
        return unsure if name == "stash" else None
    listed = operands[0] in actions or (name in ("branch", "tag") and options & _LISTING_OPTIONS)
    return None if listed else unsure


@cache
def build_git_spec(name: str) -> ProgramSpec:
    is_read_only = name in READ_ONLY_SUBCOMMANDS
    unsafe = [_PROGRAM_RUNNING_ACTION_PATTERNS.get(name)]
    if name in _REMOTE_SUBCOMMANDS:
        unsafe.append(_UNSAFE_CLONE_SOURCE_RE if name == "clone" else _UNSAFE_REMOTE_ARGUMENT_RE)
    if is_read_only or name in _READ_ONLY_ACTIONS_BY_SUBCOMMAND:
        unsafe.append(_SIGNATURE_FORMAT_RE)
    options = "" if name == "config" else f"{_COMMON_OPTIONS} "
    options += _EXTRA_OPTIONS_BY_SUBCOMMAND.get(name, "")
    options += _READ_ONLY_SUBCOMMAND_OPTIONS if is_read_only else ""
    for flag in _VALUELESS_OPTIONS_BY_SUBCOMMAND.get(name, ()):
        options = re.sub(rf"(?<!\S){flag}[=#](?!\S)", flag, options)
    left_out = _UNSAFE_OPTIONS_BY_SUBCOMMAND.get(name, ())
    return ProgramSpec(
        " ".join(word for word in options.split() if word not in left_out),
        harmless_operand_pattern="" if is_read_only else f"(?!{_REMOTE_HELPER_URL_RE})",
        unsafe_argument_pattern="|".join(filter(None, unsafe)),
        text_operands="first" if name == "grep" else "",
    )
