"""Programs that run what their arguments, their input or a script say."""

from __future__ import annotations

from joey.core.permissions.shell import Words, word_set

RUNNERS = word_set(
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
INTERPRETERS = word_set(
    "at batch bc bpython bun bunx clisp clojure cqlsh crontab dc deno docker ed elixir emacs erl"
    " ex expect ftp gdb ghci gnuplot groovy guile iex ipython irb java jshell julia jython kubectl"
    " lftp lldb lua luajit m4 make mariadb maxima mongo mongosh mysql node nodejs npx nvim ocaml"
    " octave osascript patch perl php pipx pnpx podman powershell psql pwsh pypy python r racket"
    " raku redis-cli rscript ruby runghc sbcl scala sftp socat sqlite swift tclsh telnet ts-node"
    " tsx uvx vi vim wish"
)
"""Carry out what they read."""
_SCRIPTS = word_set(
    "clojure elixir expect groovy guile ipython irb java julia jython lua luajit node nodejs ocaml"
    " octave perl php pypy python racket raku rscript ruby sbcl scala ts-node tsx"
)
"""Interpreters whose first argument is the program to run."""
_CODE = word_set("-c -e -m -r -p -E --eval --print --test -jar")
"""Options that say what is run; what follows is it."""
_LAUNCHERS = word_set("bunx npx pipx pnpx uvx")
"""Fetch the program that their first argument names, and run it."""
_SUBRUNNERS: dict[str, frozenset[str]] = {
    "bun": word_set("x exec"),
    "bundle": word_set("exec"),
    "conda": word_set("run"),
    "coverage": word_set("run"),
    "docker": word_set("run exec"),
    "docker-compose": word_set("run exec"),
    "hatch": word_set("run"),
    "kubectl": word_set("exec run debug"),
    "micromamba": word_set("run"),
    "mise": word_set("exec x"),
    "npm": word_set("exec x"),
    "pdm": word_set("run"),
    "pipenv": word_set("run"),
    "pnpm": word_set("exec dlx"),
    "podman": word_set("run exec"),
    "poetry": word_set("run"),
    "rye": word_set("run"),
    "uv": word_set("run"),
    "yarn": word_set("exec dlx"),
}
STARTERS: dict[str, frozenset[str]] = {
    "find": word_set("-exec -execdir -ok -okdir"),
    "fd": word_set("-x -X --exec --exec-batch"),
    "fdfind": word_set("-x -X --exec --exec-batch"),
    "git": word_set("foreach run -x --exec"),
    "docker": word_set("run exec"),
    "podman": word_set("run exec"),
    "kubectl": word_set("exec run"),
    "npx": word_set("-c"),
    "npm": word_set("exec x"),
    "uv": word_set("run"),
    "poetry": word_set("run"),
    "pipenv": word_set("run"),
    "bundle": word_set("exec"),
    "cargo": word_set("run"),
    "tar": word_set("--to-command"),
    "rg": word_set("--pre"),
    "go": word_set("-exec -toolexec"),
}
"""Words behind which another program is named."""
_GROUPS: dict[str, frozenset[str]] = {
    "docker": word_set("compose container"),
    "podman": word_set("compose container"),
    "uv": word_set("tool"),
}
"""Words between such a program and what it is told."""
SHELL_STATE = word_set(
    "alias bind compgen complete compopt declare enable export getopts hash history let local"
    " mapfile read readarray readonly set shopt typeset ulimit umask unalias unset"
)
"""Builtins that change what later commands of the line mean."""
VERSION = "0123456789."
_VERSIONS = {
    "-v": word_set("node nodejs perl ruby php lua luajit"),
    "-V": word_set("python pypy"),
    "-version": word_set("java scala"),
}
"""By option, whom it makes say its version and end; others would go on and read their input."""
_FINDS = (("-v",), ("-V",))
"""`command -v git` says where git is."""


def bare_name(word: str) -> str:
    """`/usr/bin/python3.11` as `python`."""
    name = word.rpartition("/")[2].casefold()
    bare = name.rstrip(VERSION)
    return bare if bare in _SCRIPTS else name


def runner_concern(name: str, words: Words, granted: int) -> str | None:
    """Why what such a program would run is not covered by the rule, or None."""
    if name == "command" and words[1:2] in _FINDS:
        return None
    if name in RUNNERS:
        return f"{name} runs other programs"
    at = started_at(name, words)
    tells = len(words) == 2 and bare_name(name) in _VERSIONS.get(words[1], ())
    if at is not None and at >= granted and not tells:
        return f"{name} runs what it is given; only a rule that names it allows that"
    return None


def started_at(name: str, words: Words) -> int | None:
    """Which word says what is run; None for a program that is no runner."""
    name = bare_name(name)
    if name in _LAUNCHERS:
        return _first_operand(words, 1)
    told = 2 if words[1:2] and words[1] in _GROUPS.get(name, ()) else 1
    if name in _SUBRUNNERS and words[told : told + 1] and words[told] in _SUBRUNNERS[name]:
        return _first_operand(words, told + 1)
    if name not in _SCRIPTS:
        return None
    for at, word in enumerate(words[1:], start=1):
        if word in _CODE:
            return at if word == "--test" else at + 1
        if not word.startswith("-"):
            return at
    return len(words)


def _first_operand(words: Words, start: int) -> int:
    places = (at for at in range(start, len(words)) if not words[at].startswith("-"))
    return next(places, len(words))
