"""Which pieces of a line evaluate data, and which only look like it."""

from __future__ import annotations

import pytest

from joey.core.permissions.commands import judge_command
from joey.core.permissions.hidden_code import EvaluationKind, find_evaluated_code
from joey.core.permissions.policy import Allow

HARMLESS = r"""
for i in 1 2 3; do echo $((i * 2)); done
for i in {1..5}; do n=$((n + i)); done
for i in $(seq 1 5); do echo $((i + 1)); done
for ((i = 0; i < 5; i++)); do echo $i; done
i=0; while [ $i -lt 5 ]; do echo $i; i=$((i + 1)); done
n=$(ls | wc -l); if [ $n -gt 5 ]; then echo many; fi
start=$(date +%s); make; end=$(date +%s); echo $((end - start))
while IFS= read -r line; do echo "$line"; done < file.txt
if [[ -f package.json && -d node_modules ]]; then npm test; else npm ci; fi
[ -n "$CI" ] && [ "$A" = "b" ] || [ ! -d build ]
echo "${f%.py}.txt" "${f##*/}" "${f/a/b}" "${x:-default}" "${#x}" ${x:0:5} ${x: -3}
arr=(a b c); echo ${arr[0]} ${#arr[@]}; for x in "${arr[@]}"; do echo $x; done
npm test 2>&1 | tee out.log; [ ${PIPESTATUS[0]} -eq 0 ] || exit 1
sleep 5 & pid=$!; wait $pid
greet() { local name="$1"; echo "hi $name"; }; greet bob
case "$1" in start) echo a;; *) echo b;; esac
cat > file.py <<'END'⏎print(os.environ["X"], [a[0] for a in b], f"{x}", '${!x}')⏎END⏎make
cat > .env <<END⏎KEY=$KEY it's $(date)⏎END⏎make
git commit -m "$(cat <<'END'⏎feat: it's (a) test; `x`⏎END⏎)"
echo 'text about ${x@P} and $((a[b]))' "and eval" # ${!x}
printf '%s\n' "$x"; printf "${GREEN}ok %s${NC}\n" "$x"
set -euo pipefail; export FOO="$BAR" NODE_ENV=test; unset FOO; trap - EXIT
timeout 60 pytest -k 'a and (b or c)'
mapfile -t lines < file.txt; echo "${#lines[@]}" "${!lines[@]}"
make -j"$(nproc)" CFLAGS="-O2 -g"
git submodule foreach 'git status'; git rebase -x 'make test' HEAD~3
git ls-remote https://example.org/x.git; git ls-remote git@example.org:x.git; git log -S a::b
git -c core.pager=cat log; git config user.name "A B"; git clone ssh://example.org/x
sudo tee file <<< "$x"; read -r a b <<< "$x"
"""
FOUND = {
    'echo "${x@P}"': EvaluationKind.PARAMETER_EXPANSION,
    "echo ${y:-${!x}}": EvaluationKind.PARAMETER_EXPANSION,
    "x=$(y); echo $((x))": EvaluationKind.ARITHMETIC,
    "f() { echo $(($1)); }": EvaluationKind.ARITHMETIC,
    "x=$1 z=1; echo ${z:x}": EvaluationKind.ARITHMETIC,
    "[[ $1 -eq 1 ]]": EvaluationKind.ARITHMETIC,
    "RANDOM=$1": EvaluationKind.ARITHMETIC,
    'read "$x"': EvaluationKind.BUILTIN,
    '[ "$1" "$2" ]': EvaluationKind.BUILTIN,
    "builtin let i=1": EvaluationKind.BUILTIN,
    "A='b c' $x": EvaluationKind.COMPUTED_PROGRAM,
    "if true; then function f { $x; }; fi": EvaluationKind.COMPUTED_PROGRAM,
    "diff <(ls) x": EvaluationKind.PROCESS_SUBSTITUTION,
    "then PROMPT_COMMAND=x": EvaluationKind.CODE_LOADING_VARIABLE,
    "env BASH_ENV=x ls": EvaluationKind.CODE_LOADING_VARIABLE,
    'bash <<< "echo $x"': EvaluationKind.INNER_SHELL_CODE,
    "env -S 'ls -l'": EvaluationKind.INNER_SHELL_CODE,
    "bash -c 'bash -c \"let i=1\"'": EvaluationKind.BUILTIN,
    "git ls-remote ext::x": EvaluationKind.GIT_PROGRAM,
    "echo !(a)": EvaluationKind.UNSUPPORTED_SYNTAX,
}
UNREADABLE = [
    *("echo 'a", 'echo "a', "echo `a", "echo $(a", "echo ${x", "echo ${(e)x}", "echo ${ ls; }"),
    *("((a)+(b))", "echo )", "cat <<$x\n", "a=(b", "case a in a) b", "[[ a", "true {a[x]}>b", "\0"),
    *("$(" * 50 + ")" * 50, "echo $(cat <<A)\nb\nA"),
]


@pytest.mark.contract("permissions:deny")
@pytest.mark.parametrize("line", HARMLESS.strip().splitlines())
def test_everyday_shell_code_evaluates_nothing(line: str) -> None:
    assert find_evaluated_code(line.replace("⏎", "\n")) is None


@pytest.mark.contract("permissions:deny")
@pytest.mark.parametrize(("line", "construct"), FOUND.items())
def test_what_evaluates_is_found_and_named(line: str, construct: EvaluationKind) -> None:
    found = find_evaluated_code(line)

    assert found is not None
    assert found.kind is construct


@pytest.mark.parametrize("line", UNREADABLE)
def test_syntax_that_is_not_known_is_never_taken_for_text(line: str) -> None:
    found = find_evaluated_code(line)

    assert found is not None
    assert found.kind is EvaluationKind.UNSUPPORTED_SYNTAX


@pytest.mark.contract("permissions:deny")
@pytest.mark.parametrize("line", ['echo "${x@P}"', "let i=1", "env -S ls", "cat <(ls)"])
def test_without_a_deny_rule_nothing_is_hidden_from_it(line: str) -> None:
    assert judge_command(line, ("*",), ()) == Allow("*")
