"""Concerns about the arguments of an allowed program.

A rule names a program and perhaps its first arguments; the model chose everything after that.
Programs that run other programs, and those that write files or run code when an argument says so
(see `arguments`), are approved only with arguments known to be harmless. A path that leaves the
workspace always needs approval.
"""

from __future__ import annotations

import itertools
import re
from functools import cache

from joey.core.permissions import git_commands
from joey.core.permissions import program_tables as tables
from joey.core.permissions.arguments import ProgramSpec, find_argument_concern, parse_arguments
from joey.core.permissions.script_programs import (
    find_awk_concern,
    find_script_indexes,
    find_sed_concern,
)
from joey.core.permissions.shell import Words, parse_word_set, strip_executable_suffix
from joey.core.text import compile_regex

DIRECTORY_CHANGE_COMMANDS = frozenset({"cd", "pushd"})
_SCRIPT_CHECKERS = {"sed": find_sed_concern, "gsed": find_sed_concern} | dict.fromkeys(
    ("awk", "gawk", "mawk", "nawk", "original-awk", "goawk"), find_awk_concern
)
_SCRIPT_FILE_OPTION_RE = compile_regex("-[A-Za-z]*f|--(file|exec)")
_PROGRAM_ALIASES = {
    "[": "test",
    "batcat": "bat",
    "dir": "ls",
    "egrep": "grep",
    "fdfind": "fd",
    "fgrep": "grep",
    "gradlew": "gradle",
    "mvnw": "mvn",
    "ncat": "nc",
    "netcat": "nc",
    "pip3": "pip",
    "podman": "docker",
    "py.test": "pytest",
    "vdir": "ls",
    "zegrep": "grep",
    "zfgrep": "grep",
    "zgrep": "grep",
    "zless": "less",
}
_ALWAYS_READ_ONLY_PROGRAMS = parse_word_set(tables.ALWAYS_READ_ONLY_PROGRAMS)
_ALL_READ_ONLY_PROGRAMS = frozenset(tables.READ_ONLY_PROGRAMS) | _ALWAYS_READ_ONLY_PROGRAMS
_LITERAL_ARGUMENT_PROGRAMS = parse_word_set(
    "basename cat cut diff dirname echo fd fdfind file find git head jq ls rg grep egrep fgrep sort"
    " stat tail tr uniq wc yq"
) | frozenset(_SCRIPT_CHECKERS)
"""Their arguments are text to them, whatever a shell would make of it."""
_OUTSIDE_PATH_RE = compile_regex(
    r"""
      ( ^ | [=,@] | :(?!//) ) [/~]
    | ( ^ | [=,@:/] ) \.\. ( / | $ )
    | ^ -[A-Za-z]+ ( [/~] | \.\. ( / | $ ) )
    | \b file:
    """,
    re.VERBOSE | re.IGNORECASE,
)
_PRINTF_STORE_RE = compile_regex(r"%[^%A-Za-z\\]*[hjlLtz]*n")
_SUBSTITUTION_RE = compile_regex(r"`|\$[({\[]")
"""Quoted, this is text to the shell; builtins that compute may still carry it out."""
_CURL_OUTPUT_OPTION_RE = compile_regex("-[46GILSfiksv]*o|--output")
_CURL_WRITE_OUT_OPTION_RE = compile_regex("-[46GILSfiksv]*w|--write-out")
_HARMLESS_CURL_FORMAT_RE = compile_regex(r"(?:[^%@]|%\{[a-z_]+\})(?:[^%]|%\{[a-z_]+\})*")
"""Numbers about a transfer; other signs behind `%` write files."""
_VERSION_AND_HELP_ARGUMENTS = (("--version",), ("--help",))


def normalize_program_name(word: str) -> str:
    return strip_executable_suffix(word.rpartition("/")[2].casefold())


def can_execute_input(words: Words) -> bool:
    """Whether the program might run its input as code."""
    name = normalize_program_name(words[0])
    if name in _SCRIPT_CHECKERS:
        return any(map(_SCRIPT_FILE_OPTION_RE.match, words))
    return bool({name, name.rstrip(VERSION_CHARACTERS)} & (COMMAND_RUNNERS | INTERPRETERS))


def find_concern(
    words: Words, granted: int, inside_paths: frozenset[str] | None = None
) -> str | None:
    """Return why the user should review the arguments after the first `granted` words, or None."""
    name, rest = normalize_program_name(words[0]), words[granted:]
    if name in DIRECTORY_CHANGE_COMMANDS and all(word.startswith("-") for word in words[1:]):
        return f"{name} without a folder leaves the workspace"
    if not rest or (words[1:] in _VERSION_AND_HELP_ARGUMENTS and name not in COMMAND_RUNNERS):
        return None
    if reason := find_runner_concern(name, words, granted):
        return reason
    if name in SHELL_STATE_BUILTINS:
        return f"{name} changes how later commands are understood"
    for word in list_path_words(words, granted):
        if may_lead_outside(word) and word not in (inside_paths or ()):
            return f"`{word}` may lie outside the workspace"
    if inside_paths is None and is_recursive_diff(words, granted):
        return "diff follows links in directories"
    if name not in _LITERAL_ARGUMENT_PROGRAMS:
        for word in rest:
            if _SUBSTITUTION_RE.search(word):
                return f"`{word}` may be evaluated"
    return _find_program_concern(name, words, granted)


def may_lead_outside(word: str) -> bool:
    """Whether a path in the word is absolute or climbs up, as far as its text shows."""
    return word != "/dev/null" and _OUTSIDE_PATH_RE.search(word) is not None


def _find_program_concern(name: str, words: Words, granted: int) -> str | None:
    """Find a concern specific to this program."""
    if name == "git":
        return git_commands.find_git_concern(words, granted)
    if name in _SCRIPT_CHECKERS:
        return _SCRIPT_CHECKERS[name](words, granted)
    if name == "printf":
        return _find_printf_concern(words[granted:])
    if name == "curl":
        words = _strip_curl_reports(words, granted)
    at = find_started_program_index(name, words)
    if at is not None and at < min(granted, len(words)):
        return _find_program_concern(
            normalize_interpreter_name(words[at]), words[at:], granted - at
        )
    spec = _find_spec(name)
    return None if spec is None else find_argument_concern(name, words, granted, spec)


def _strip_curl_reports(words: Words, granted: int) -> Words:
    """Strip options with which curl discards the body and only reports: `-o /dev/null -w
    '%{…}'`."""
    remaining: list[str] = list(words[:granted])
    rest = list(words[granted:])
    while rest:
        word, value = rest.pop(0), rest[0] if rest else ""
        drops = _CURL_OUTPUT_OPTION_RE.fullmatch(word) and value == "/dev/null"
        if drops or (
            _CURL_WRITE_OUT_OPTION_RE.fullmatch(word) and _HARMLESS_CURL_FORMAT_RE.fullmatch(value)
        ):
            del rest[0]
            word = "-s" if word.startswith("--") else word[:-1]
        if word != "-":
            remaining.append(word)
    return tuple(remaining)


def list_path_words(words: Words, granted: int) -> tuple[str, ...]:
    """List the words beyond the rule that may name a file; others are patterns, scripts, plain
    text."""
    if normalize_program_name(words[0]) in _SCRIPT_CHECKERS:
        scripts = find_script_indexes(words)
        return tuple(word for at, word in enumerate(words) if at >= granted and at not in scripts)
    start, spec = _find_start_and_spec(words)
    if spec is None:
        return words[granted:]
    arguments = parse_arguments(words[start:], spec)
    paths = (i.word for i in arguments if i.word_index + start >= granted and not i.is_text)
    return (*words[granted:start], *paths)


def is_recursive_diff(words: Words, granted: int) -> bool:
    """Whether `diff` walks directories, following links, without a rule that says so."""
    return words[0] == "diff" and any(
        word == "--recursive" or (word[:1] == "-" and word[1:2] != "-" and "r" in word)
        for word in words[granted:]
    )


def list_text_option_values(words: Words, granted: int) -> tuple[str, ...]:
    """List words beyond the rule that count as text because of the option before them: if another
    version of the program takes no value there, they would be file names."""
    start, spec = _find_start_and_spec(words)
    is_script = normalize_program_name(words[0]) in _SCRIPT_CHECKERS
    if is_script or spec is None or spec.text_operands == "all":
        return ()
    arguments = parse_arguments(words[start:], spec)
    return tuple(i.word for i in arguments if i.word_index + start >= granted and i.is_text_value)


def _find_start_and_spec(words: Words) -> tuple[int, ProgramSpec | None]:
    """Find the word before arguments of a known form, and their specification."""
    name = normalize_program_name(words[0])
    if name != "git":
        return 0, _find_spec(name)
    at = git_commands.find_subcommand_index(words)
    return at, git_commands.build_git_spec(words[at]) if at < len(words) else None


def is_read_only(words: Words, granted: int) -> bool:
    """Whether the command changes none of the files that it names, within what its rule covers."""
    name = normalize_program_name(words[0])
    if name == "git":
        return git_commands.is_read_only_git(words)
    if name in _ALWAYS_READ_ONLY_PROGRAMS:
        return True
    spec = _find_spec(name)
    is_subcommand_granted = (
        spec is not None and spec.harmless_subcommands is not None and granted > 1
    )
    if is_subcommand_granted or any(word.startswith("-") for word in words[1:granted]):
        return False
    return name in _SCRIPT_CHECKERS or _PROGRAM_ALIASES.get(name, name) in _ALL_READ_ONLY_PROGRAMS


@cache
def _find_spec(name: str) -> ProgramSpec | None:
    name = _PROGRAM_ALIASES.get(name, name)
    names = {name, name.rstrip(VERSION_CHARACTERS)}
    if names & parse_word_set(tables.OPAQUE_PROGRAMS):
        return tables.ALWAYS_ASK_SPEC
    if name in _ALWAYS_READ_ONLY_PROGRAMS or name in COMMAND_RUNNERS:
        return None
    known = (
        tables.READ_ONLY_PROGRAMS.get(name)
        or tables.MODIFYING_PROGRAMS.get(name)
        or tables.BUILD_PROGRAMS.get(name)
    )
    if known is None and names & INTERPRETERS:
        return tables.ALWAYS_ASK_SPEC
    return known or (
        tables.SUBCOMMAND_PROGRAM_SPEC
        if names & parse_word_set(tables.SUBCOMMAND_PROGRAMS)
        else tables.UNKNOWN_PROGRAM_SPEC
    )


def _find_printf_concern(rest: Words) -> str | None:
    """Find a concern about printf: in bash, `-v NAME` and `%n` set variables, and a variable can
    decide which programs run."""
    if rest[0].startswith("-") and rest[0] != "--":
        return f"option `{rest[0]}` of printf is not known to be harmless"
    if any(_PRINTF_STORE_RE.search(word) for word in rest):
        return "printf with `%n` changes how later commands are understood"
    return None


COMMAND_RUNNERS = parse_word_set(
    ". aa-exec abduco agetty arch asciinema ash aws-vault bash bashbug bashcov builtin busybox"
    " bwrap c8 caffeinate capsh catatonit catchsegv cgexec chamber chokidar choom chpst chronic"
    " chroot chrt cmd command concurrently cpulimit cross-env cross-env-shell csh daemonize dash"
    " dbus-launch dbus-run-session detach distrobox distrobox-enter doas dockerize doppler dotenv"
    " dotenvx dtach dumb-init eatmydata elvish entr env env-cmd envchain envconsul envdir eval"
    " exec fakechroot fakeroot faketime fc firejail fish flamegraph flock gdbserver genie genv"
    " gnice gosu grc gtimeout gxargs heaptrack hyperfine ifne infisical ionice kcov"
    " keep-one-running kernprof ksh ksu lckdo ld-linux-aarch64.so.1 ld-linux-x86-64.so.2"
    " ld-linux.so.2 ld-musl-x86_64.so.1 ld.so lksh logsave ltrace machinectl memray mispipe mksh"
    " mosh mprof multitime nice nix-shell nodemon nohup npm-run-all nq nsenter nu numactl nyc"
    " onchange op openvt parallel pee perf pexec pgrphack pipexec pixi pkexec posh prlimit proot"
    " proxychains proxychains4 py-spy rbash remote-exec retry rlogin rlwrap rr rsh run-one run-p"
    " run-parts run-s run-this-one run0 runcon runuser rush s6-setuidgid samply sandbox-exec sash"
    " scalene schroot screen script sem setarch setlock setpriv setsid setuidgid sg sh softlimit"
    " source ssh ssh-agent sshpass sshuttle start-stop-daemon stdbuf strace su su-exec sudo"
    " sudoedit systemd-inhibit systemd-nspawn systemd-run taskset tcsh time timelimit timeout tini"
    " tmate tmux toolbox torify torsocks toybox trap trickle ts-node-dev tsnd tsocks tsp ttyrec"
    " uftrace unbuffer unshare uxterm valgrind viztracer wait-for wait-for-it watch watchexec wine"
    " wsl xargs xcrun xonsh xterm xvfb-run yash zrun zsh"
)
"""Run what their arguments say."""
INTERPRETERS = parse_word_set(
    "at batch bc bpython bun bunx clisp clojure cqlsh crontab dc deno docker ed elixir emacs erl"
    " ex expect ftp gdb ghci gnuplot groovy guile iex ipython irb java jshell julia jython kubectl"
    " lftp lldb lua luajit m4 make mariadb maxima mongo mongosh mysql node nodejs npx nvim ocaml"
    " octave osascript patch perl php pipx pnpx podman powershell psql pwsh pypy python r racket"
    " raku redis-cli rscript ruby runghc sbcl scala sftp socat sqlite swift tclsh telnet ts-node"
    " tsx uvx vi vim wish"
)
"""Carry out what they read."""
_SCRIPT_INTERPRETERS = parse_word_set(
    "clojure elixir expect groovy guile ipython irb java julia jython lua luajit node nodejs ocaml"
    " octave perl php pypy python racket raku rscript ruby sbcl scala ts-node tsx"
)
"""Interpreters whose first argument is the program to run."""
_CODE_OPTIONS = parse_word_set("-c -e -m -r -p -E --eval --print --test -jar")
"""Options that say what is run; what follows is it."""
_PACKAGE_LAUNCHERS = parse_word_set("bunx npx pipx pnpx uvx")
"""Fetch the program that their first argument names, and run it."""
_RUN_SUBCOMMANDS: dict[str, frozenset[str]] = {
    "bun": parse_word_set("x exec"),
    "bundle": parse_word_set("exec"),
    "conda": parse_word_set("run"),
    "coverage": parse_word_set("run"),
    "docker": parse_word_set("run exec"),
    "docker-compose": parse_word_set("run exec"),
    "hatch": parse_word_set("run"),
    "kubectl": parse_word_set("exec run debug"),
    "micromamba": parse_word_set("run"),
    "mise": parse_word_set("exec x"),
    "npm": parse_word_set("exec x"),
    "pdm": parse_word_set("run"),
    "pipenv": parse_word_set("run"),
    "pnpm": parse_word_set("exec dlx"),
    "podman": parse_word_set("run exec"),
    "poetry": parse_word_set("run"),
    "rye": parse_word_set("run"),
    "uv": parse_word_set("run"),
    "yarn": parse_word_set("exec dlx"),
}
EXEC_ARGUMENTS_BY_PROGRAM: dict[str, frozenset[str]] = {
    "find": parse_word_set("-exec -execdir -ok -okdir"),
    "fd": parse_word_set("-x -X --exec --exec-batch"),
    "fdfind": parse_word_set("-x -X --exec --exec-batch"),
    "git": parse_word_set("foreach run -x --exec"),
    "docker": parse_word_set("run exec"),
    "podman": parse_word_set("run exec"),
    "kubectl": parse_word_set("exec run"),
    "npx": parse_word_set("-c"),
    "npm": parse_word_set("exec x"),
    "uv": parse_word_set("run"),
    "poetry": parse_word_set("run"),
    "pipenv": parse_word_set("run"),
    "bundle": parse_word_set("exec"),
    "cargo": parse_word_set("run"),
    "tar": parse_word_set("--to-command"),
    "rg": parse_word_set("--pre"),
    "go": parse_word_set("-exec -toolexec"),
}
_SUBCOMMAND_GROUPS: dict[str, frozenset[str]] = {
    "docker": parse_word_set("compose container"),
    "podman": parse_word_set("compose container"),
    "uv": parse_word_set("tool"),
}
"""Words between such a program and what it is told."""
SHELL_STATE_BUILTINS = parse_word_set(
    "alias bind compgen complete compopt declare enable export getopts hash history let local"
    " mapfile read readarray readonly set shopt typeset ulimit umask unalias unset"
)
"""Builtins that change what later commands of the line mean."""
VERSION_CHARACTERS = "0123456789."
_PROGRAMS_BY_VERSION_OPTION = {
    "-v": parse_word_set("node nodejs perl ruby php lua luajit"),
    "-V": parse_word_set("python pypy"),
    "-version": parse_word_set("java scala"),
}
"""By option, whom it makes say its version and end; others would go on and read their input."""
_COMMAND_LOOKUP_OPTIONS = (("-v",), ("-V",))
"""`command -v git` says where git is."""


_FED_READERS = parse_word_set(
    "cat egrep fgrep file grep head ls md5sum sha1sum sha256sum stat tail wc"
)
"""Programs that only read the files that `xargs` adds to their arguments."""
_XARGS_OPTIONS_RE = compile_regex(r"-0|-0?r|-r0|--null|--no-run-if-empty|-[nP]\d+")
_NUMBERED_XARGS_OPTIONS = ("-n", "-P")
_FIND_FORMAT_ACTIONS = ("-printf", "-ls")


def find_fed_reader_index(words: Words, feeder: Words) -> int | None:
    """Find the index of the program in `xargs …` if it reads the files that `find` names; None if
    its input may be anything else."""
    if words[0] != "xargs" or feeder[:1] != ("find",):
        return None
    at = 1
    while at < len(words) and words[at].startswith("-"):
        if words[at] in _NUMBERED_XARGS_OPTIONS and words[at + 1 : at + 2]:
            if not words[at + 1].isdecimal():
                return None
            at += 1
        elif _XARGS_OPTIONS_RE.fullmatch(words[at]) is None:
            return None
        at += 1
    is_listing = not any(word in _FIND_FORMAT_ACTIONS for word in feeder)
    ends_in_null = "-print0" in feeder
    takes_null = any(word in ("-0", "-0r", "-r0", "--null") for word in words[1:at])
    is_consistent = takes_null == ends_in_null and not (ends_in_null and "-print" in feeder)
    is_reader = at < len(words) and words[at] in _FED_READERS
    if not (is_reader and is_listing and is_consistent):
        return None
    return None if _find_program_concern("find", feeder, 1) else at


def list_find_directories(words: Words) -> Words:
    """List the directories where `find` starts."""
    rest = itertools.dropwhile(lambda word: word in ("-H", "-P"), words[1:])
    named = tuple(itertools.takewhile(lambda word: word[:1] not in ("-", "(", "!"), rest))
    return named or (".",)


def normalize_interpreter_name(word: str) -> str:
    """Normalize `/usr/bin/python3.11` to `python`."""
    name = word.rpartition("/")[2].casefold()
    bare = name.rstrip(VERSION_CHARACTERS)
    return bare if bare in _SCRIPT_INTERPRETERS else name


def find_runner_concern(name: str, words: Words, granted: int) -> str | None:
    """Return why the rule does not cover what such a program would run, or None."""
    if name == "command" and words[1:2] in _COMMAND_LOOKUP_OPTIONS:
        return None
    if name in COMMAND_RUNNERS:
        return f"{name} runs other programs"
    at = find_started_program_index(name, words)
    tells = len(words) == 2 and normalize_interpreter_name(name) in _PROGRAMS_BY_VERSION_OPTION.get(
        words[1], ()
    )
    if at is not None and at >= granted and not tells:
        return f"{name} runs what it is given; only a rule that names it allows that"
    return None


def find_started_program_index(name: str, words: Words) -> int | None:
    """Find the index of the word that says what is run; None if the program runs nothing."""
    name = normalize_interpreter_name(name)
    if name in _PACKAGE_LAUNCHERS:
        return _find_first_operand_index(words, 1)
    subcommand_index = 2 if words[1:2] and words[1] in _SUBCOMMAND_GROUPS.get(name, ()) else 1
    if (
        name in _RUN_SUBCOMMANDS
        and words[subcommand_index : subcommand_index + 1]
        and words[subcommand_index] in _RUN_SUBCOMMANDS[name]
    ):
        return _find_first_operand_index(words, subcommand_index + 1)
    if name not in _SCRIPT_INTERPRETERS:
        return None
    for at, word in enumerate(words[1:], start=1):
        if word in _CODE_OPTIONS:
            return at if word == "--test" else at + 1
        if not word.startswith("-"):
            return at
    return len(words)


def _find_first_operand_index(words: Words, start: int) -> int:
    positions = (at for at in range(start, len(words)) if not words[at].startswith("-"))
    return next(positions, len(words))
