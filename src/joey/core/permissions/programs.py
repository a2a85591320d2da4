"""Arguments that turn an allowed program into something else.

A rule names a program and perhaps its first arguments; whatever follows was chosen by the model.
Programs that run other programs, and those that write files or run code when told to by an
option (see `guards`), are approved only with arguments known to be harmless. A path that leaves
the workspace always needs a look.
"""

from __future__ import annotations

import re

from joey.core.permissions.guards import guard_concern
from joey.core.permissions.shell import Words, word_set

RUNNERS = word_set(
    ". ash bash builtin busybox bwrap cgexec chroot chrt command csh dash dbus-run-session doas"
    " entr env eval exec faketime fc firejail fish flock gosu hyperfine ionice ksh ltrace mksh nice"
    " nohup nsenter numactl parallel perf pkexec proot rlwrap run-parts runuser screen script"
    " setarch setpriv setsid sh source ssh start-stop-daemon stdbuf strace su su-exec sudo"
    " systemd-run taskset tcsh time timeout tmux toybox trap unbuffer unshare valgrind watch xargs"
    " xvfb-run yash zsh"
)
"""Run what their arguments say."""
_INTERPRETERS = word_set(
    "at batch bun clojure crontab dc deno docker ed elixir emacs erl ex expect gdb ghci groovy"
    " guile iex ipython irb jshell julia jython kubectl lldb lua luajit m4 make mariadb mysql node"
    " nodejs nvim ocaml octave osascript perl php podman powershell psql pwsh pypy python r racket"
    " rscript ruby runghc sbcl scala sftp socat sqlite swift tclsh ts-node tsx vi vim wish"
)
"""Carry out what they read."""
_SCRIPTED = word_set("awk gawk mawk nawk sed")
"""Do the same when an option says that their script is a file."""
_SCRIPT_FILE = re.compile("-[A-Za-z]*f|--(file|exec)")
_LAUNCHERS = word_set("bunx npx pipx pnpx uvx")
"""Fetch the program that their first argument names, and run it."""
_VERSION = "0123456789."
_SHELL_STATE = word_set(
    "alias bind compgen complete compopt declare enable export getopts hash history let local"
    " mapfile read readarray readonly set shopt typeset unalias unset"
)
"""Builtins that change what later commands of the line mean."""
MOVERS = frozenset({"cd", "pushd"})
_HARMLESS_SED = re.compile(r"(\d+|\$)(,(\d+|\$))?p(;(\d+|\$)(,(\d+|\$))?p)*")
_OUTSIDE = re.compile(
    r"""
      ( ^ | [=,@] | :(?!//) ) [/~]
    | ( ^ | [=,@:/] ) \.\. ( / | $ )
    | ^ -[A-Za-z]+ ( [/~] | \.\. ( / | $ ) )
    | \b file:
    """,
    re.VERBOSE | re.IGNORECASE,
)
_STORING = re.compile(r"%[^%A-Za-z\\]*[hjlLtz]*n")
_EVALUATED = re.compile(r"`|\$[({\[]")
"""Quoted, this is text to the shell; builtins that compute may still carry it out."""


def program_name(word: str) -> str:
    return word.rpartition("/")[2].casefold()


def carries_out_input(words: Words) -> bool:
    """Might the program do what the text says that is fed to it?"""
    name = program_name(words[0])
    if name in _SCRIPTED:
        return any(map(_SCRIPT_FILE.match, words))
    return bool({name, name.rstrip(_VERSION)} & (RUNNERS | _INTERPRETERS | _LAUNCHERS))


def concern(words: Words, granted: int) -> str | None:
    """Why a person should see the arguments after the first `granted` words, or None.

    A command that is its rule word for word has nothing left to worry about.
    """
    name, rest = program_name(words[0]), words[granted:]
    if name in MOVERS and all(word.startswith("-") for word in words[1:]):
        return f"{name} without a folder leaves the workspace"
    if not rest:
        return None
    if name in RUNNERS or (name in _LAUNCHERS and granted == 1):
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
    if name == "printf":
        return _printf_concern(rest)
    return guard_concern(name, words, granted)


def leaves_workspace(word: str) -> bool:
    return word != "/dev/null" and _OUTSIDE.search(word) is not None


def _sed_concern(rest: Words) -> str | None:
    """Scripts of sed can write files and run commands; printing lines is what is left."""
    match rest:
        case ("-n", script, *files) if _HARMLESS_SED.fullmatch(script):
            if not any(file.startswith("-") for file in files):
                return None
    return "sed can change files and run commands"


def _printf_concern(rest: Words) -> str | None:
    """In bash, `-v NAME` and `%n` set variables, and a variable decides which programs are run."""
    if rest[0].startswith("-") and rest[0] != "--":
        return f"option `{rest[0]}` of printf is not known to be harmless"
    if any(_STORING.search(word) for word in rest):
        return "printf with `%n` changes how later commands are understood"
    return None
