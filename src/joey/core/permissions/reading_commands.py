"""Commands that only read: which lines run without approval, and how git runs no programs.

A repository's configuration can name programs that git runs even while reading: external diffs,
text converters, filters, a file-system monitor, hooks, a pager. `build_reading_preamble` switches
all of them off for one command line, inside the sandbox and based on the configuration that git
finds there. It also prevents programs of the workspace from being found under the names of readers.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from shlex import quote

from joey.core.permissions import programs
from joey.core.permissions.command_rules import find_longest_match, parse_allow_rules
from joey.core.permissions.commands import build_narrowest_rule, judge_command, quote_words
from joey.core.permissions.policy import ALLOW_ALL_RULE, Allow
from joey.core.permissions.shell import (
    Words,
    parse_plain_chain,
    parse_plain_commands,
    parse_word_set,
)

_READERS = (
    "awk base32 base64 basename basenc cat cd cksum cmp column comm cut date df diff dirname du"
    " echo egrep expand expr factor false fd fgrep file find fmt fold free gawk grep groups head"
    " hexdump id join jq ls lscpu mawk md5sum nl nproc numfmt od paste printf pwd readlink"
    " realpath rev rg sed seq sha1sum sha224sum sha256sum sha384sum sha512sum b2sum sort stat"
    " strings sum tac tail test tr tree true tsort type uname unexpand uniq uptime wc whereis which"
    " whoami xargs xxd"
)
READING_RULES = (*_READERS.split(), "[", "git")
"""Allow rules for what only reads; with known arguments alone, as under any rule."""
_READING_RULES_WITHOUT_GIT = tuple(rule for rule in READING_RULES if rule != "git")
_DIFF_SUBCOMMANDS = parse_word_set("diff diff-files diff-index diff-tree log show")
_WORK_TREE_SUBCOMMANDS = parse_word_set("diff diff-files diff-index status")
_BLAME_SUBCOMMANDS = parse_word_set("annotate blame")
_CONTENT_SUBCOMMANDS = _DIFF_SUBCOMMANDS | _BLAME_SUBCOMMANDS | {"cat-file", "grep"}
_NAME_SUBCOMMANDS = parse_word_set(
    "branch check-attr check-ignore cherry count-objects describe for-each-ref ls-files ls-tree"
    " merge-base name-rev remote rev-list rev-parse shortlog show-branch show-ref status tag"
    " version worktree"
)
_HELPER_OPTIONS = (
    "--submodule",
    "--ignore-submodules",
    "--dirty",
    "--broken",
    "--textconv",
    "--ext-diff",
    "--filters",
)
"""They look into submodules, or run the programs that the preamble switches off."""
_RECURSIVE_GREP_LETTERS = frozenset("rR")


def is_reading_line(
    command: str,
    denied: Sequence[str],
    inside_paths: frozenset[str] | None,
    *,
    has_hidden_files: bool,
) -> bool:
    """Whether each command of the line only reads what it names; `has_hidden_files` means that
    `.rooignore` hides some, which commands that walk directories would show."""
    if not _is_undenied(command, denied):
        return False
    verdict = judge_command(command, READING_RULES, denied, inside_paths)
    commands = parse_plain_commands(command)
    return (
        isinstance(verdict, Allow)
        and bool(commands)
        and all(_only_reads(words, has_hidden_files) for words in commands or ())
    )


def find_rules_with_readers(
    command: str,
    allowed: Sequence[str],
    denied: Sequence[str],
    inside_paths: frozenset[str] | None,
    *,
    has_hidden_files: bool,
) -> tuple[str, ...] | None:
    """Find the rules of a line whose other commands only read (`npm test | tail`); None if they do
    not allow it. git runs unchanged in such a line, so it does not count as reading there."""
    if has_hidden_files or not _is_undenied(command, denied):
        return None
    own = parse_allow_rules(tuple(allowed))
    others = [
        words
        for words in parse_plain_commands(command) or ()
        if find_longest_match(words, own) is None
    ]
    if not all(_only_reads(words, has_hidden_files) for words in others):
        return None
    match judge_command(command, (*allowed, *_READING_RULES_WITHOUT_GIT), denied, inside_paths):
        case Allow(rule):
            used = rule.split(", ")
            return tuple(each for each in used if each not in _READING_RULES_WITHOUT_GIT)
    return None


def build_pipeline_rule(command: str, allowed: Sequence[str]) -> str | None:
    """Build the narrowest rule for the one command of a pipeline that neither only reads nor has a
    rule; None for other lines."""
    chain = parse_plain_chain(command) or ()
    if any(joint != "|" for joint, _ in chain[1:]):
        return None
    known = (*allowed, *_READING_RULES_WITHOUT_GIT)
    lines = dict.fromkeys(quote_words(words) for _, words in chain)
    missing = [line for line in lines if not isinstance(judge_command(line, known, ()), Allow)]
    return build_narrowest_rule(missing[0]) if len(missing) == 1 else None


def _is_undenied(command: str, denied: Sequence[str]) -> bool:
    """Whether no deny rule applies: a rule for readers must not bypass one, however short."""
    return isinstance(judge_command(command, (ALLOW_ALL_RULE,), denied), Allow)


def _only_reads(words: Words, has_hidden_files: bool) -> bool:
    if words[0] == "git":
        return _is_reading_git(words, has_hidden_files)
    if words[0] == "xargs":
        return not has_hidden_files
    if has_hidden_files and _walks_through_contents(words):
        return False
    return programs.is_read_only(words, 1)


def _is_reading_git(words: Words, has_hidden_files: bool) -> bool:
    rest = words[2:] if words[1:2] == ("--no-pager",) else words[1:]
    if not rest or rest[0] not in _CONTENT_SUBCOMMANDS | _NAME_SUBCOMMANDS:
        return False
    if has_hidden_files and rest[0] in _CONTENT_SUBCOMMANDS:
        return False
    if _shows_converted_text(rest):
        return False
    return programs.is_read_only(words, 1) and not any(
        word.startswith(_HELPER_OPTIONS) for word in rest[1:]
    )


def _shows_converted_text(words: Words) -> bool:
    """Whether output passes through configured converters, which no option before the subcommand
    switches off."""
    match words[0]:
        case "status":
            return any(
                word.startswith("--verb") or (word[:1] == "-" != word[1:2] and "v" in word)
                for word in words[1:]
            )
        case "cat-file":
            return any(word.startswith("--t") for word in words[1:])
    return False


def _walks_through_contents(words: Words) -> bool:
    if words[0] == "rg":
        return True
    return words[0] in ("grep", "egrep", "fgrep") and any(
        word.startswith("--recursive")
        or (word[:1] == "-" and word[1:2] != "-" and _RECURSIVE_GREP_LETTERS.intersection(word))
        for word in words[1:]
    )


_GIT_SETTINGS = {
    "core.alternateRefsCommand": "false",
    "core.attributesFile": "/dev/null",
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "core.pager": "cat",
    "diff.orderFile": "/dev/null",
    "diff.submodule": "short",
    "gpg.openpgp.program": "false",
    "gpg.program": "false",
    "gpg.ssh.program": "false",
    "gpg.x509.program": "false",
    "log.diffMerges": "separate",
    "log.showSignature": "false",
    "safe.bareRepository": "explicit",
    "status.submoduleSummary": "false",
    "submodule.recurse": "false",
}
_PATH_PREAMBLE = """\
joey_path=; joey_rest=$PATH:
while [ -n "$joey_rest" ]; do
  joey_each=${joey_rest%%:*}; joey_rest=${joey_rest#*:}
  case $joey_each in /*) ;; *) continue ;; esac
  joey_real=$(CDPATH= cd -- "$joey_each" 2>/dev/null && pwd -P) || continue
  case $joey_real/ in "$joey_root"/*) ;; *) joey_path=$joey_path:$joey_each ;; esac
done
PATH=${joey_path#:}
"""
_GIT_PREAMBLE = """\
git() (
  joey_top=$(pwd -P)
  while [ -n "$joey_top" ] && [ ! -e "$joey_top/.git" ]; do joey_top=${joey_top%/*}; done
  [ -z "$joey_top" ] || export GIT_WORK_TREE="$joey_top"
  joey_set() {
    export "GIT_CONFIG_KEY_$GIT_CONFIG_COUNT=$1" "GIT_CONFIG_VALUE_$GIT_CONFIG_COUNT=$2"
    export GIT_CONFIG_COUNT=$((GIT_CONFIG_COUNT + 1))
  }
  while IFS= read -r joey_key; do
    case $joey_key in
    filter.?*.required) joey_set "$joey_key" false ;;
    filter.?*.*) joey_set "$joey_key" '' ;;
    esac
  done <<JOEY_KEYS
$(command git config --name-only --get-regexp '^filter[.].' 2>/dev/null)
JOEY_KEYS
  [ "$1" != --no-pager ] || shift
  case $1 in
  DIFFS)
    joey_name=$1; shift; set -- "$joey_name" --no-ext-diff --no-textconv "$@" ;;
  BLAMES)
    joey_name=$1; shift; set -- "$joey_name" --no-textconv --no-ignore-revs-file "$@" ;;
  grep) shift; set -- grep --no-textconv "$@" ;;
  esac
  case $1 in
  TREES)
    joey_name=$1; shift; set -- "$joey_name" --ignore-submodules=dirty "$@" ;;
  esac
  command git --no-pager "$@"
)
"""
"""Each call looks at the configuration of the repository that it is in: `cd` may have led to
another one. Of a file of revisions that blame ignores, git shows the first line that names none."""


def build_reading_preamble(command: str, root: Path) -> str:
    """Build shell code that runs before a read-only line, in the same shell."""
    parts = [f"joey_root={quote(str(root))}\n", _PATH_PREAMBLE]
    if any(words[0] == "git" for words in parse_plain_commands(command) or ()):
        pairs = [
            f"GIT_CONFIG_KEY_{at}={key} GIT_CONFIG_VALUE_{at}={value}"
            for at, (key, value) in enumerate(_GIT_SETTINGS.items())
        ]
        parts.append(
            "export GIT_OPTIONAL_LOCKS=0 GIT_NO_LAZY_FETCH=1 GIT_ALLOW_PROTOCOL=none"
            f" GIT_CONFIG_COUNT={len(pairs)} {' '.join(pairs)}\n"
        )
        body = _GIT_PREAMBLE
        for mark, names in (
            ("DIFFS", _DIFF_SUBCOMMANDS),
            ("BLAMES", _BLAME_SUBCOMMANDS),
            ("TREES", _WORK_TREE_SUBCOMMANDS),
        ):
            body = body.replace(mark, "|".join(sorted(names)))
        parts.append(body)
    return "".join(parts)
