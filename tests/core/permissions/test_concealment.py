"""With everything allowed but one command, what a line brings along to hide it is asked."""

from __future__ import annotations

import pytest

from joey.core.permissions.commands import judge_command
from joey.core.permissions.policy import Allow, Ask

HIDING = r"""
find . -exec $(printf 'gi\164') push ';'
find . -exec /usr/bin/gi? push ';'
python -c 'import os; os.system("gi"+"t push")'
python3.11 -c 'import os; os.system("gi"+"t push")'
perl -e 'exec "\x67it", "pu\x73h"'
perl -ne 'exec "\x67it", "pu\x73h"'
node -e 'require("child_process").execSync("gi"+"t push")'
awk 'BEGIN{system("gi" "t push")}'
sed '1e gi%s push' a.txt
sed 's/.*/gi&/e' a.txt
git -c 'alias.x=!g"i"t pu"s"h' x
git -c include.path=./settings fetch
git -cinclude.path=./settings fetch
git --config-env=alias.x=V x
git --exec-path=. fetch
git p
git send-pack origin main
git-push origin
/usr/lib/git-core/git-push origin
env git-push
printf '\147it push\n' > f; sh f
printf '\147it push\n' > f && ./f
echo Z2l0IHB1c2g= | base64 -d | tee f; bash f
ln -s /usr/bin/git x; ./x push
cp /usr/bin/gi? x && x push
ln -s $(printf '/usr/bin/gi\164') x; ./x push
hash -p /usr/bin/gi? zz; zz push
bash < hidden.sh
bash -s < hidden.sh
PATH=/usr/lib/git-core push
BASH_ENV=hidden.sh bash -c true
LESSOPEN='|./hidden.sh' less a.txt
GIT_EXTERNAL_DIFF=./hidden.sh git diff
complete -C ./hidden.sh x
enable -f ./hidden.so x
vim -es +'!gi""t push' +q
tar cf /dev/null a --checkpoint=1 --checkpoint-action=exec='gi""t push'
sqlite3 x '.shell gi""t push'
/lib64/ld-linux-x86-64.so.2 /usr/bin/gi? push
find . -exec sh -c '$(printf gi\\164) push' ';'
find . -exec true ';' -exec /usr/bin/gi? push ';'
gi`true`t push
`printf gi`t push
ls; g`printf i`t push
cmd.exe /c gi^t push
powershell -c "gi`t push"
pwsh -EncodedCommand ZwBpAHQA
"""
HONEST = r"""
npm test 2>&1 | tail -20
git add -A && git commit -m "fix things"
git -c user.name=x -c user.email=y commit -m z
git pull --rebase
echo hi > f && cat f
python gen.py > out.txt
python manage.py migrate
bash build.sh > log.txt 2>&1
chmod +x run.sh && ./run.sh
sed -i 's/foo/bar/g' a.txt
sed -i '/^import/a new line' a.txt
awk '{a[$1]+=$2} END {for(k in a) print k, a[k] > "x"}' a.txt
find . -name '*.py' -exec grep -l foo {} +
curl -o x.tgz http://h/x.tgz && tar xzf x.tgz
jq '.a = 1' x.json > y.json && mv y.json x.json
cp config.example.json config.json && npm start
if [ -f a.txt ]; then cat a.txt; fi
FOO=1 npm test
"""


@pytest.mark.parametrize("line", HIDING.strip().splitlines())
def test_what_may_hide_a_denied_command_is_not_allowed(line: str) -> None:
    assert not isinstance(judge_command(line, ("*",), ("git push",)), Allow)


@pytest.mark.parametrize("line", HONEST.strip().splitlines())
def test_everyday_lines_run_beside_a_deny_rule(line: str) -> None:
    assert isinstance(judge_command(line, ("*",), ("git push",)), Allow)


@pytest.mark.parametrize("line", ["git --no-pager log -3", "git --no-pager log --oneline | head"])
def test_a_rule_for_git_covers_it_without_a_pager(line: str) -> None:
    assert isinstance(judge_command(line, ("git log", "head"), ()), Allow)


@pytest.mark.parametrize("line", ["git --no-pager commit", "git --no-pager log --output=x"])
def test_without_a_pager_git_may_do_no_more(line: str) -> None:
    assert not isinstance(judge_command(line, ("git log", "git commit"), ()), Allow)


def test_more_beginnings_than_can_be_judged_are_asked() -> None:
    line = "find . " + "-exec find " * 1_200
    assert isinstance(judge_command(line, ("*",), ("git push",)), Ask)
