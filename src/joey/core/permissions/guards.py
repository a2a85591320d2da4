"""Programs that write, run or reach further when an argument tells them to.

A guard lists what is known to be harmless; everything else is for a person. That way an option
that was forgotten, or that the next version brings, is asked about and not carried out. Options
that follow links while walking through folders are left out too: the walk would leave the
workspace.
"""

from __future__ import annotations

import re

from msgspec import Struct

from joey.core.permissions.shell import Words, word_set


class Guard(Struct, frozen=True):
    options: frozenset[str] = frozenset()
    """Known to be harmless; any other is not."""
    first: frozenset[str] | None = None
    """What the first argument may be (a subcommand); None: anything."""
    operands: int | None = None
    """How many arguments are read; a further one would change something."""
    refused: re.Pattern[str] | None = None
    """Arguments that are more than the name of something to read."""
    bundled: bool = False
    """The first argument is a bundle of options, with or without a dash."""


_ANY_ARGUMENT = Guard(first=frozenset())
_ANY_OPTION = Guard()
_REMOTE = re.compile(":")

_SEARCH = word_set(
    "-A -B -C -E -F -G -H -I -P -S -U -a -c -e -h -i -l -m -n -o -q -r -s -u -v -w -x -g -t -T"
    " --after-context --before-context --color --colour --context --count --exclude"
    " --exclude-dir --extended-regexp --files --files-with-matches --files-without-match"
    " --fixed-strings --glob --heading --hidden --ignore-case --include --invert-match"
    " --line-number --max-count --no-filename --no-heading --no-ignore --no-messages"
    " --only-matching --perl-regexp --quiet --recursive --regexp --smart-case --sort --type"
    " --type-not --with-filename --word-regexp"
)
_GUARDS = {
    "bat": Guard(
        word_set(
            "-A -H -d -l -n -p -r --color --decorations --highlight-line --language --line-range"
            " --list-languages --list-themes --number --paging --plain --show-all --style --tabs"
            " --terminal-width --theme --wrap"
        )
    ),
    "cpio": Guard(word_set("-t -v --list --verbose"), refused=_REMOTE),
    "curl": Guard(
        word_set(
            "-4 -6 -A -G -H -I -L -S -X -f -i -k -m -s -v --compressed --connect-timeout --fail"
            " --get --head --header --http1.1 --http2 --include --insecure --location --max-time"
            " --request --retry --show-error --silent --user-agent --verbose"
        ),
        refused=re.compile("^@"),
    ),
    "date": Guard(
        word_set("-I -R -d -r -u --date --iso-8601 --reference --rfc-3339 --rfc-email --utc"),
        refused=re.compile(r"^\d{8}"),
    ),
    "diff": Guard(
        word_set(
            "-B -E -N -U -Z -a -b -c -e -i -q -s -t -u -w -y --brief --color --context"
            " --ignore-all-space --ignore-blank-lines --ignore-case --ignore-space-change"
            " --minimal --new-file --side-by-side --suppress-common-lines --text --unified --width"
        )
    ),
    "fd": Guard(
        word_set(
            "-H -I -a -d -e -g -i -p -s -t --absolute-path --color --extension --full-path"
            " --glob --hidden --ignore-case --max-depth --no-ignore --type"
        )
    ),
    "file": Guard(word_set("-L -b -i --brief --mime --mime-encoding --mime-type")),
    "find": Guard(
        word_set(
            "-H -P -a -amin -and -anewer -atime -cmin -cnewer -ctime -daystart -depth -empty"
            " -executable -false -group -iname -inum -ipath -iregex -links -lname -ls"
            " -maxdepth -mindepth -mmin -mount -mtime -name -newer -not -o -or -path -perm -print"
            " -print0 -printf -prune -quit -readable -regex -regextype -samefile -size -true"
            " -type -user -wholename -writable -xdev"
        )
    ),
    "fzf": Guard(word_set("-e -f -i --exact --filter --no-sort")),
    "git": Guard(
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
    "grep": Guard(_SEARCH - {"-S"} | {"-L"}),
    "hg": Guard(
        word_set("-b -l -m -p -q -r -u -v --graph --limit --patch --rev --stat"),
        first=word_set("annotate branch diff heads id log manifest root status summary tip"),
    ),
    "hostname": Guard(word_set("-I -d -f -i -s"), operands=0),
    "iconv": Guard(word_set("-c -f -l -s -t --from-code --list --to-code")),
    "install": Guard(word_set("-C -D -d -m -p -v --directory --mode --verbose")),
    "jobs": Guard(word_set("-l -n -p -r -s")),
    "less": Guard(
        word_set("-E -F -M -N -R -S -X -e -g -i -m -n -r -s"), refused=re.compile(r"^\+")
    ),
    "ls": Guard(
        word_set(
            "-1 -A -B -C -F -G -I -N -Q -R -S -T -U -X -Z -a -b -c -d -f -g -h -i -k -l -m -n -o"
            " -p -q -r -s -t -u -v -w -x --all --almost-all --author --block-size --classify"
            " --color --directory --file-type --format --full-time --group-directories-first"
            " --hide --human-readable --ignore --indicator-style --inode --literal --no-group"
            " --numeric-uid-gid --quote-name --quoting-style --recursive --reverse --si --size"
            " --sort --time --time-style --width --zero"
        )
    ),
    "man": Guard(word_set("-a -f -k -s -w --all --apropos --sections --whatis --where")),
    "nc": Guard(word_set("-4 -6 -n -u -v -w -z")),
    "nm": Guard(word_set("-A -C -D -S -a -g -n -p -r -u")),
    "pandoc": Guard(word_set("-f -s -t --from --standalone --to --wrap")),
    "rg": Guard(_SEARCH),
    "rsync": Guard(
        word_set("-a -h -n -r -t -v -z --archive --dry-run --exclude --progress --stats --verbose"),
        refused=_REMOTE,
    ),
    "scp": Guard(word_set("-C -p -q")),
    "shuf": Guard(word_set("-e -i -n -r -z")),
    "sort": Guard(
        word_set(
            "-M -V -b -c -d -f -g -h -i -k -n -r -s -t -u -z --field-separator --ignore-case"
            " --key --numeric-sort --reverse --stable --unique --version-sort"
        )
    ),
    "split": Guard(
        word_set(
            "-C -a -b -d -e -l -n -t -u -x --additional-suffix --bytes --lines --number"
            " --numeric-suffixes --separator --suffix-length --verbose"
        )
    ),
    "svn": Guard(
        word_set("-c -l -q -r -u -v --limit --revision --summarize --verbose --xml"),
        first=word_set("blame cat diff info list log ls status"),
    ),
    "tar": Guard(
        word_set("-J -a -c -f -j -k -p -r -t -u -v -x -z --exclude --list --verbose"),
        refused=_REMOTE,
        bundled=True,
    ),
    "tcpdump": Guard(word_set("-A -X -c -e -i -n -q -v")),
    "test": Guard(
        word_set(
            "-a -b -c -d -e -ef -eq -f -ge -gt -h -k -L -le -lt -n -ne -nt -o -ot -p -r -s -t -u"
            " -w -x -z"
        )
    ),
    "tree": Guard(word_set("-C -D -F -I -L -P -a -d -f -h -i -n -p -s --dirsfirst --gitignore")),
    "uniq": Guard(word_set("-c -d -f -i -s -u -w -z --count --repeated --unique"), operands=1),
    "wait": Guard(word_set("-f -n")),
    "wget": Guard(
        word_set("-4 -6 -S -T -nc -nv -q -t --no-verbose --quiet --server-response --spider")
    ),
    "xmllint": Guard(word_set("--format --nonet --noout --xpath")),
    "xxd": Guard(word_set("-c -g -l -p -s -u"), operands=1),
    "yq": Guard(word_set("-C -M -P -r -o --output-format --unwrapScalar")),
    "zip": Guard(word_set("-0 -9 -j -q -v -x -y")),
}
_ALIASES = {
    "[": "test",
    "ack": "rg",
    "ag": "rg",
    "batcat": "bat",
    "dir": "ls",
    "egrep": "grep",
    "fdfind": "fd",
    "fgrep": "grep",
    "ncat": "nc",
    "netcat": "nc",
    "vdir": "ls",
    "zegrep": "grep",
    "zfgrep": "grep",
    "zgrep": "grep",
    "zless": "less",
}
_LANGUAGES = word_set(
    "at awk batch bpftrace crontab dc ed emacs emacsclient ex expect gawk gdb goawk ldd lftp lldb"
    " lynx m4 mariadb mawk mysql nano nawk nvim nvimdiff original-awk psql sftp socat sqlite3 vi"
    " view vim vimdiff w3m"
)
"""What they are told is a program of its own."""
_PLAIN_READERS = word_set(
    "ctags diff3 enscript groff info most nroff sdiff troff ug ugrep xsltproc"
)
"""Harmless without options, which nobody has looked through."""
_CLUSTER = re.compile(r"-[A-Za-z0-9]+")


def guard_concern(name: str, words: Words, granted: int) -> str | None:
    """Why a person should see what follows the first `granted` words, or None."""
    guard = _guard(name)
    if guard is None:
        return None
    if guard.bundled and granted == 1 and _is_operand(words[1]):
        words = (words[0], f"-{words[1]}", *words[2:])
    for word in words[granted:]:
        if not _is_operand(word) and word != "--" and not _is_known(word, guard.options):
            return f"option `{word}` of {name} is not known to be harmless"
        if guard.refused is not None and guard.refused.search(word):
            return f"`{word}` is not known to be harmless for {name}"
    operands = [word for word in words[1:] if _is_operand(word)]
    if granted == 1 and guard.first is not None and operands and operands[0] not in guard.first:
        return f"`{name} {operands[0]}` is not known to be harmless"
    if guard.operands is not None and len(operands) > guard.operands:
        return f"the last argument of {name} would be changed, not read"
    return None


def _guard(name: str) -> Guard | None:
    if name in _LANGUAGES:
        return _ANY_ARGUMENT
    if name in _PLAIN_READERS:
        return _ANY_OPTION
    return _GUARDS.get(_ALIASES.get(name, name))


def _is_operand(word: str) -> bool:
    return word == "-" or not word.startswith("-")


def _is_known(option: str, known: frozenset[str]) -> bool:
    if option in known or (option.startswith("--") and option.partition("=")[0] in known):
        return True
    return _CLUSTER.fullmatch(option) is not None and all(
        letter.isdigit() or f"-{letter}" in known for letter in option[1:]
    )
