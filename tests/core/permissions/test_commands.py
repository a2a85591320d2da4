from __future__ import annotations

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joey.core.permissions.commands import judge_command
from joey.core.permissions.policy import Allow, Ask, Deny
from joey.core.permissions.shell import parse_plain_chain

ALLOWED = (
    "echo",
    "git",
    "ls",
    "cat",
    "cd",
    "find",
    "grep",
    "rg",
    "sort",
    "sed",
    "awk",
    "uniq",
    "wc",
    "npm test",
    "python -m pytest",
    "xargs",
    "bash scripts/check.sh",
    "printf",
    "export",
)
DENIED = ("rm", "git push")


@pytest.mark.contract("permissions:words")
@pytest.mark.parametrize(
    "command",
    [
        "ls",
        "ls -la src",
        "  ls  ",
        "echo hello world",
        "echo 'a;b && c | d > e'",
        "echo 'a && b $(c) `d`'",
        'echo "a \\$(c) \\`d\\` costs \\$5"',
        "cat notes\\ and\\ plans.txt",
        "cat '$(a).txt'",
        "echo it\\'s a\\;b \\$HOME a#b done!",
        "find . -name \\*.py",
        "ls \\\n  -la \\\n  src",
        'echo "it\'s done!"',
        'grep -rn "foo\\.bar" src',
        'grep "say \\"hi\\"" notes.txt',
        "git status",
        "git status && git diff --stat",
        "git status 2>&1",
        "npm test 2>&1 | grep -n failed",
        "npm test > /dev/null 2>&1 && echo fine",
        "ls nothing 2>/dev/null || echo 'not there' >&2",
        "find . -name x 2>/dev/null|wc -l",
        "git diff >/dev/null\nls 1>&2",
        "git log --oneline -5",
        "git log HEAD~1 --format=%h",
        "git show HEAD^",
        "git log --grep 'first line\nsecond line'",
        "awk '{ print $1 }' names.txt",
        "sed 's/a/b/; /x/d' names.txt",
        "grep -n '/api/v1' src/a.py",
        'grep -E "^(a|b)$" src/a.py',
        "sort -t/ -k2,2n paths.txt",
        "git --no-pager log",
        "ls; ls;",
        "ls\nls src\n",
        "ls &&\n\n ls",
        "ls | wc -l",
        "ls || echo none",
        "find . -name '*.py' -type f -not -path './.git/*'",
        "sort -k2 -n names.txt | uniq -c",
        "sed -n '10,20p' src/a.py",
        "cd src && ls",
        "npm test",
        "npm test -- --watch=false",
        "python -m pytest tests/core -q -k 'not slow'",
        "bash scripts/check.sh",
        "cat src/naïve.txt",
        "cat notes.txt 'with space.txt' \"and more.txt\"",
        "rg --files | wc",
        "ls /dev/null",
    ],
)
def test_plain_commands_that_fit_the_rules_run_unasked(command: str) -> None:
    assert isinstance(judge_command(command, ALLOWED, DENIED), Allow)


@pytest.mark.contract("permissions:words", "permissions:unclear", "permissions:paths")
@pytest.mark.parametrize(
    "command",
    [
        *(" >/dev/null", " 2>&1", "\t>&2 2>/dev/null\n"),
        # substitution and expansion, quoted or not
        "echo $(curl x)",
        'echo "$(curl x)"',
        "printf %s '$(curl x)'",
        "npm test '$(curl x)'",
        "echo `curl x`",
        'echo "`curl x`"',
        "echo ${x:-$(curl x)}",
        "echo $(( $(curl x) ))",
        "echo $[1+1]",
        "echo $HOME",
        'echo "$HOME"',
        "echo $'a'",
        'echo $"a"',
        'echo "a\\\\$(curl x)"',
        "echo a\\\\$(curl x)",
        "cat <(curl x)",
        "cat <<< x",
        "cat <<EOF\nx\nEOF",
        "echo {a,b}",
        "ls *.py",
        "ls ?",
        "ls [ab]",
        "cat ~/x",
        "cat ~root/x",
        "echo a=~/x",
        "echo a:~/x",
        # redirection, background, grouping, control flow
        "echo hi > f",
        "echo hi >> f",
        "echo hi 2>& 1",
        "echo hi 2>&-",
        "echo hi 2>&1x",
        "echo hi 2>&1>f",
        "echo hi 3>&1",
        "echo hi 12>&1",
        "echo hi >&f",
        "echo hi &>/dev/null",
        "echo hi >/dev/null/../f",
        "echo hi >/dev/nullx",
        "echo hi >/dev/null > f",
        "echo hi >'/dev/null'",
        "echo hi >>/dev/null",
        "echo hi >|/dev/null",
        "echo hi <>/dev/null",
        "echo hi </dev/tty",
        "2>&1 ls",
        "ls | 2>&1",
        "ls &",
        "ls & echo",
        "ls |& cat",
        "(ls)",
        "{ ls; }",
        "! ls",
        "if ls; then echo; fi",
        "while ls; do echo; done",
        "for f in a; do echo; done",
        "ls() { echo; }",
        "function f { ls; }",
        "time ls",
        "[[ -f a ]]",
        "case a in a) ls;; esac",
        # assignment, escapes, comments, strange characters
        "X=1 ls",
        "X=1",
        "X+=1 ls",
        "PATH=. ls",
        "ls\\\n-la",
        "ls a\\ \\\n-la",
        "ls a\\ 2>/dev/null",
        "ls \\",
        "l\\s",
        "ls # comment",
        "ls\r\nls",
        "ls\x00",
        "ls\x0bfoo",
        "ls\u00a0-la",
        "ls \u200b",
        "ls 'unclosed",
        'ls "unclosed',
        # not complete, or nothing at all
        "",
        "  \n ",
        "; ls",
        "ls &&",
        "ls | ",
        "&& ls",
        "ls ;; ls",
        "ls ; ; ls",
        "''",
        # whole words only
        "gitevil",
        "git-evil",
        "npm testx",
        "npm",
        "npm run test",
        "lsof",
        "./ls",
        "/tmp/ls",
        "LS",
        # every command of the chain
        "git status\ncurl x | sh",
        "git status; curl x",
        "git status && curl x",
        "git status || curl x",
        "ls | sh",
        # programs that run or write when told to
        "find . -exec cat {} +",
        "find . -name x -execdir sh",
        "find . -delete",
        "find . -fprint out",
        "git -c core.pager=x log",
        "git -C sub status",
        "git --exec-path=. log",
        "git config alias.x y",
        "git --no-pager config alias.x y",
        "git submodule foreach ls",
        "git diff --output=x",
        "git grep -Ovi x",
        "sort -o out in",
        "sort -oout in",
        "sort --output=out in",
        "sort --outp=out in",
        "sort --compress-program=x in",
        "uniq in out",
        "rg --pre x y",
        "sed -i s/a/b/ f",
        "sed -n '1e date' f",
        "sed 'w out' f",
        "sed -n 1p --in-place f",
        "awk 'BEGIN { system(1) }' f",
        "awk '{ print > 1 }' f",
        "xargs ls",
        "bash scripts/check.sh -x",
        "export LD_PRELOAD=x",
        "printf -v 'a[$(date)]' x",
        # leaving the workspace
        "cat /etc/passwd",
        "cat ../x",
        "cat a/../../x",
        "ls ..",
        "cat '~/x'",
        "grep -f/etc/passwd x",
        "cat file:///etc/passwd",
        "cd",
        "cd -",
        "cd --",
        "cd && cat .ssh/id_rsa",
        "cd .. && ls",
    ],
)
def test_whatever_is_not_proven_harmless_is_asked(command: str) -> None:
    assert isinstance(judge_command(command, ALLOWED, ()), Ask)


@pytest.mark.contract("permissions:deny")
@pytest.mark.parametrize(
    "command",
    [
        "rm x",
        "/bin/rm x",
        "'rm' x",
        "r''m x",
        'r"m" x',
        "r\\m x",
        "r\\\nm x",
        "RM x",
        "ls && rm x",
        "ls\nrm x",
        "ls | rm",
        "echo $(rm -rf x)",
        'echo "$(rm -rf x)"',
        "echo `rm x`",
        "echo ${x:-$(rm -rf x)}",
        "echo $(( $(rm -rf x) ))",
        "(rm x)",
        "ls & rm x",
        "sudo rm x",
        "sudo -u ada /bin/rm x",
        "env A=1 rm x",
        "xargs rm",
        "bash -c 'rm x'",
        "bash -c 'r\"\"m x'",
        "bash -c 'r\\m x'",
        "timeout 5 rm x",
        "git push",
        "git push origin main",
        "git  'push'",
        "sudo git push",
        "find . -exec rm {} +",
        "find . -name x -execdir /bin/rm",
        "if true; then rm x; fi",
        "! rm x",
        "X=1 rm x",
        ">out rm x",
        "git -C sub push",
        "git --no-pager push",
        "bash <<EOF\nrm x\nEOF",
        "busybox rm x",
        "ssh host 'rm x'",
        "watch rm x",
        "parallel rm ::: x",
        "strace -f rm x",
        "eval 'rm x'",
        "bash -c \"bash -c 'rm x'\"",
        "f() { rm x; }; f",
        "uv run rm x",
        "fd . --exec rm",
        "git submodule foreach 'rm x'",
    ],
)
@pytest.mark.parametrize("allowed", [ALLOWED, ("*",)], ids=["rules", "anything"])
def test_denied_commands_are_refused_in_any_disguise(
    command: str, allowed: tuple[str, ...]
) -> None:
    assert isinstance(judge_command(command, allowed, DENIED), Deny)


@pytest.mark.parametrize(
    "command",
    [
        "python rm x",
        "$(echo r)m x",
        "${x}m y",
        "{r,}m x",
        "/bin/r? x",
        "$X y",
        "env $X y",
        "if $X; then y; fi",
        "git $X",
        "bash -c '$X y'",
        "timeout 5 bash -c 'echo cm0geA== | base64 -d | sh'",
    ],
)
@pytest.mark.parametrize("allowed", [ALLOWED, ("*",)], ids=["rules", "anything"])
def test_where_a_denied_command_may_hide_nothing_is_allowed(
    command: str, allowed: tuple[str, ...]
) -> None:
    assert not isinstance(judge_command(command, allowed, DENIED), Allow)


@pytest.mark.parametrize(
    "command",
    [
        "ls > out.txt",
        "X=$(date) make",
        "for f in *.py; do echo $f; done",
        "curl x | tee out",
        "python x.py 2>&1 | tail -n 5 && node y.js",
        "cat x | sed 's/a/b/' | awk '{print $1}' > out",
        "grep -E 'sh|python' x | wc",
        "false || sh build.sh",
        "python - <<EOF\nprint(1)\nEOF",
        "bash -c 'echo $f'",
        "git status",
        "echo form > alarm.txt",
        "grep -rn rm docs",
        "echo rm",
    ],
)
def test_anything_goes_where_no_denied_word_can_be(command: str) -> None:
    assert judge_command(command, ("*",), DENIED) == Allow("*")


@pytest.mark.contract("permissions:deny")
@pytest.mark.parametrize(
    "behind",
    [
        *("| sh", "| bash", "| bash -s", "| /bin/sh", "| sudo -u ada sh", "| xargs -I X sh -c X"),
        *("| python3", "| python3.11 -", "| perl", "| node", "| parallel", "| make -f -"),
        *("| sed -nf - x", "|\nsh", "|& sh", "| (cd sub; sh)", "| { sh; }", "| 2>/dev/null sh"),
        *("| while read x; do sh -c y; done", "| A=1 sh", "| tee >(sh)", "| docker exec -i c sh"),
        "| base64 -d | sh; echo done > out",
    ],
)
def test_what_a_pipe_feeds_to_a_shell_may_be_what_is_denied(behind: str) -> None:
    line = f"echo cm0geA== {behind}"

    assert isinstance(judge_command(line, ("*",), DENIED), Ask)
    assert judge_command(line, ("*",), ()) == Allow("*")


@pytest.mark.parametrize("line", ["f() { sh; }; echo x | f", "bash <(echo x)", ". <(echo x)"])
def test_a_shell_may_be_fed_by_what_stands_behind_it(line: str) -> None:
    assert isinstance(judge_command(line, ("*",), DENIED), Ask)


def test_with_anything_allowed_and_nothing_denied_syntax_does_not_matter() -> None:
    assert judge_command("while :; do $(x) &> y; done" * 2000, ("*",), ()) == Allow("*")


@pytest.mark.contract("permissions:deny")
def test_a_longer_allow_rule_wins_over_a_deny_rule() -> None:
    assert judge_command("git status -s", ("git status",), ("git",)) == Allow("git status")
    assert isinstance(judge_command("git log", ("git status",), ("git",)), Deny)
    assert isinstance(judge_command("git status", ("git status",), ("git status",)), Deny)
    assert isinstance(judge_command("git status", ("git",), ("git status",)), Deny)
    assert isinstance(judge_command("git status > x", ("git status",), ("git",)), Ask)


def test_denying_everything_leaves_what_is_allowed_by_name() -> None:
    assert judge_command("ls", ("ls",), ("*",)) == Allow("ls")
    assert isinstance(judge_command("cat", ("ls",), ("*",)), Deny)
    assert isinstance(judge_command("cat", ("*",), ("*",)), Deny)
    assert isinstance(judge_command("()", ("*",), ("*",)), Ask)


def test_the_rule_that_allowed_is_named() -> None:
    assert judge_command("git status && ls && git log", ("git", "git status", "ls"), ()) == Allow(
        "git status, ls, git"
    )


def test_a_rule_that_is_no_plain_command_fits_nothing() -> None:
    for rule in ("", "  ", "git *", "ls; rm", "$X", "npm run *"):
        assert isinstance(judge_command("git status", (rule,), ()), Ask)
        assert isinstance(judge_command("npm run x", (rule,), ()), Ask)


def test_a_deny_rule_counts_however_it_is_written() -> None:
    assert isinstance(judge_command("npm publish", ("*",), ("npm *",)), Deny)
    assert judge_command("npm ls", ("npm",), ("", "  ")) == Allow("npm")
    assert isinstance(judge_command("ls", ("*",), ("/",)), Allow)


def test_very_long_lines_are_not_judged() -> None:
    assert isinstance(judge_command("ls;" * 20_000 + "ls", ("ls",), ()), Ask)
    assert isinstance(judge_command("ls;" * 20_000 + "ls", ("*",), ("rm",)), Ask)


PIECES = (
    *(
        "a",
        "b",
        "1",
        " ",
        "\t",
        "\n",
        "'",
        '"',
        "\\",
        "\\\n",
        " \\\n",
        "\\ ",
        "$",
        "`",
        "\\$",
        "\\`",
    ),
    *(
        "\\'",
        '\\"',
        "\\\\",
        "#",
        "!",
        "~",
        "{",
        "}",
        "*",
        "[",
        "(",
        ")",
        "&",
        "|",
        ";",
        "<",
        ">",
        "=",
    ),
    *("2>/dev/null", " 2>&1", ".", "-", "@{0}"),
)


@pytest.mark.contract("permissions:unclear")
@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=9).map("".join))
def test_bash_reads_a_plain_command_alike(arguments: str) -> None:
    chain = parse_plain_chain(f"f {arguments}")
    if chain is None or len(chain) != 1 or arguments.isalnum():
        return
    script = f"""exec 9>&1\nf() {{ (($# == 0)) || printf '%s\\0' "$@" >&9; }}\nf {arguments}"""
    run = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)

    assert tuple(run.stdout.split("\0")[:-1]) == chain[0][1][1:]


METACHARACTERS = "$`&<>(){}[]*?!#\\~\r\x00"


@pytest.mark.contract("permissions:unclear")
@given(
    before=st.text(alphabet="ab -./", max_size=8),
    meta=st.sampled_from(METACHARACTERS),
    after=st.text(alphabet="ab -./" + METACHARACTERS, max_size=8),
)
def test_no_unquoted_metacharacter_is_ever_approved(before: str, meta: str, after: str) -> None:
    line = f"echo {before}{meta}{after}"
    harmless_tilde = meta == "~" and before[-1:].isalnum()
    doubled = meta == "&" and after.startswith("&")
    lone = meta == "!" and before[-1:] in ("", " ") and after.startswith(" ")

    within = meta in "#!" and before[-1:] not in ("", " ")
    escapes = meta == "\\"

    if not (harmless_tilde or doubled or lone or within or escapes):
        assert not isinstance(judge_command(line, ("echo",), ()), Allow)


@pytest.mark.contract("permissions:words")
@given(
    arguments=st.lists(st.text(alphabet="abc.-_XYZ019éß", min_size=1, max_size=6), max_size=5),
    joint=st.sampled_from([" && ", " || ", "; ", " | ", "\n"]),
)
def test_harmless_chains_of_allowed_commands_are_approved(arguments: list[str], joint: str) -> None:
    quoted = " ".join(f"'{word}'" for word in arguments if ".." not in word)
    line = joint.join([f"echo {quoted}", "echo done"])

    assert judge_command(line, ("echo",), ("rm",)) == Allow("echo")


@given(line=st.text(max_size=40), rule=st.text(max_size=12), denied=st.text(max_size=12))
def test_every_line_gets_a_decision(line: str, rule: str, denied: str) -> None:
    decision = judge_command(line, (rule, "*"), (denied, "rm"))

    assert isinstance(decision, Allow | Ask | Deny)


def test_a_denied_command_beside_one_that_outranks_its_rule_is_still_refused() -> None:
    line = "git status > x; rm y"

    assert isinstance(judge_command(line, ("git status",), ("git", "rm")), Deny)


@pytest.mark.contract("permissions:deny")
@pytest.mark.parametrize(
    "command",
    [
        *("env -S'rm x'", "su -c'rm x'", "script -c'git push' log", "flock lock -c'rm x'"),
        *("git.exe push", "/mnt/c/git.exe push", "rm.exe x", "sudo git.cmd push"),
        *(
            "echo git push | tee x; bash x",
            "echo rm y | tee x && ./x",
            "printf 'rm x' | tee y; sh y",
        ),
    ],
)
def test_a_denied_command_does_not_hide_in_options_endings_and_files(command: str) -> None:
    assert not isinstance(judge_command(command, ["*"], ["rm", "git push"]), Allow)


@pytest.mark.parametrize("command", ["echo rm x", "grep rm x | wc -l", "ls rm && cat rm", "bash x"])
def test_naming_a_denied_command_is_not_running_it(command: str) -> None:
    assert isinstance(judge_command(command, ["*"], ["rm", "git push"]), Allow)
