"""Everyday commands without side effects, each on an everyday list of rules."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

ALLOWED_RULES: tuple[str, ...] = (
    *("git status", "git diff", "git log", "git show", "git branch", "git blame", "git"),
    *("ls", "cat", "echo", "grep", "rg", "find", "wc", "head", "tail", "sort", "uniq", "cut", "tr"),
    *("pwd", "cd", "which", "date", "tree", "diff", "sed", "awk", "file", "stat", "du", "df", "jq"),
    *("test", "printf", "whoami", "uname", "basename", "dirname", "seq", "sha256sum", "ps", "env"),
    *(
        "npm test",
        "npm run lint",
        "npm run build",
        "pytest",
        "python -m pytest",
        "python3 -m unittest",
        "make test",
        "make",
    ),
    *(
        "cargo test",
        "cargo build",
        "cargo check",
        "go test",
        "go vet",
        "tsc --noEmit",
        "ruff check",
    ),
    *("python --version", "node --version", "npm ls", "pip list", "docker ps", "mypy", "npx tsc"),
    *(
        "yarn test",
        "uv run pytest",
        "true",
        "false",
        "command -v",
        "fd",
        "xxd",
        "nl",
        "comm",
        "join",
    ),
    *("ping", "netstat", "ss", "lsof", "top", "curl"),
)
PATHS = ("README.md", "src/app.py", "package.json", "src", "docs/guide.md", "tests/test_app.py")
LINE_TEMPLATES = (
    *("cat {p}", "head -n 20 {p}", "tail -5 {p}", "wc -l {p}", "grep -n TODO {p}", "ls -la {p}"),
    *("sed -n '1,40p' {p}", "git log --oneline -5 -- {p}", "git diff HEAD~1 -- {p}", "file {p}"),
    *(
        "git blame -L 1,20 {p}",
        "grep -rn 'def main' {p}",
        "rg -n 'import' {p}",
        "stat {p}",
        "nl {p}",
    ),
    *("du -sh {p}", "cat {p} | head -n 3", "sort {p} | uniq -c | sort -rn | head", "test -f {p}"),
    *(
        "awk '{{ print $1 }}' {p}",
        "cut -d, -f1 {p}",
        "git show HEAD:{p}",
        "sha256sum {p}",
        "ls {p} | wc -l",
    ),
    *("sed 's/foo/bar/' {p}", "grep -c '' {p}", "diff -u {p} README.md", "cat '{p}'", 'cat "{p}"'),
    *("awk -F: '{{ print $2 }}' {p}", "grep -E '^(class|def) ' {p}", "sed -n '/start/,/end/p' {p}"),
    *(
        "cd src && cat {p}",
        "ls {p} && git status",
        "cat {p} | tr a-z A-Z | sort -u",
        "head {p}; tail {p}",
    ),
    *(
        "rg --files {p}",
        "find {p} -type f -name '*.py'",
        "git log -p -1 -- {p}",
        "awk 'NR > 5' {p}",
    ),
    *(
        'grep "x$" {p}',
        "wc {p} | awk '{{ print $1 }}'",
        "xxd -l 16 {p}",
        "basename {p}",
        "dirname {p}",
    ),
)
PLAIN_LINES = (
    *(
        "git status",
        "git status --short",
        "git status -sb",
        "git diff",
        "git diff --stat",
        "git diff --cached",
    ),
    *(
        "git log --oneline",
        "git log -n 5 --format=%h",
        "git log --graph --oneline --all",
        "git show --stat",
    ),
    *(
        "git branch",
        "git branch -a",
        "git branch --show-current",
        "git rev-parse HEAD",
        "git remote -v",
    ),
    *(
        "git rev-parse --abbrev-ref HEAD",
        "git ls-files",
        "git ls-files | wc -l",
        "git tag",
        "git tag -l 'v*'",
    ),
    *(
        "git stash list",
        "git config --get user.name",
        "git describe --tags",
        "git shortlog -sn",
        "git reflog",
    ),
    *(
        "git --no-pager diff",
        "git diff main...HEAD --name-only",
        "git log --since='2 weeks ago'",
        "git diff -w",
    ),
    *(
        "git grep -n TODO",
        "git grep '/api/v1'",
        "git log --author=ada",
        "git diff --name-status HEAD~3",
        "git show HEAD",
    ),
    *(
        "git log -S'needle' --oneline",
        "git merge-base main HEAD",
        "git cat-file -p HEAD",
        "git ls-tree HEAD",
    ),
    *(
        "ls",
        "ls -la",
        "ls -R src",
        "ls -lh",
        "ls -1",
        "ls src docs",
        "ls --color=never",
        "ls -t | head -n 5",
    ),
    *(
        "pwd",
        "whoami",
        "date",
        "date +%F",
        "date -u",
        "uname -a",
        "df -h",
        "ps aux",
        "true",
        "which node npm",
    ),
    *("date -Iseconds", "git submodule status", "ping -c 1 localhost", "netstat -tln", "ss -tlnp"),
    *("lsof -i :8080", "top -b -n 1", "yarn test --frozen-lockfile"),
    *("npm test -- --run", "jq --arg n a '.[$n]' package.json", "rg -r new old src"),
    *("awk '{ if ($1 > 10) print $0 }' README.md", "awk '{ print ($1 > 2) }' README.md"),
    *("curl -s -o /dev/null -w '%{http_code}' http://localhost", "curl -so /dev/null http://x"),
    *("echo done", "echo 'all good'", 'echo "it works"', "printf '%s\\n' a b", "seq 1 5", "env"),
    *(
        "tree -L 2",
        "tree -L 2 -I node_modules",
        "du -sh .",
        "du -h --max-depth=1",
        "find . -maxdepth 2",
    ),
    *(
        "find . -name '*.ts' -not -path './node_modules/*'",
        "find src -type f | wc -l",
        "find . -mtime -1",
    ),
    *("find . -name '*.py' -print0", "find . -size +100k", "find . -type d -name test", "fd -e py"),
    *(
        "grep -rn 'TODO' src",
        "grep -rin 'error' .",
        "grep -rl 'import os' src",
        "grep -v '^#' README.md",
    ),
    *(
        "grep -rn --include='*.py' 'class ' src",
        "grep -A3 -B3 main src/app.py",
        "grep -o '[0-9]*' README.md",
    ),
    *(
        "grep -rn '/api/users' src",
        "grep -w foo src/app.py",
        "grep -Fx x README.md",
        "grep -e a -e b README.md",
    ),
    *(
        "rg TODO",
        "rg -n 'fn main' src",
        "rg -i error --type py",
        "rg -l foo",
        "rg --glob '*.md' usage",
        "rg -c x",
    ),
    *(
        "rg '/v1/users' src",
        "rg -A 2 -B 2 foo",
        "rg -w foo src",
        "rg --hidden foo",
        "rg -e foo -e bar",
        "rg -uu x",
    ),
    *(
        "jq . package.json",
        "jq '.scripts' package.json",
        "jq -r '.name' package.json",
        "jq '.a | keys' package.json",
    ),
    *(
        "jq -r '.items[] | .id' data.json",
        "jq length data.json",
        "cat package.json | jq '.dependencies'",
    ),
    *(
        "npm test",
        "npm test -- --silent",
        "npm run lint",
        "npm run build",
        "npm ls",
        "npm ls --depth=0",
    ),
    *(
        "pytest",
        "pytest -q",
        "pytest tests/test_app.py -q",
        "pytest -k 'not slow'",
        "pytest -x -q tests",
        "pytest -vv",
    ),
    *(
        "pytest tests/test_app.py::test_main",
        "python -m pytest -q",
        "python -m pytest tests -x",
        "pytest --lf",
    ),
    *(
        "pytest --tb=short -q",
        "pytest --maxfail=1",
        "pytest -m unit",
        "python -m pytest --co -q",
        "python3 -m unittest -q",
        "python3 -m unittest discover -s tests -v",
        "pytest -n 4",
    ),
    *(
        "make",
        "make test",
        "make -j4",
        "make -s test",
        "make -n",
        "make -k test",
        "make lint",
        "make -j 8 test",
    ),
    *(
        "cargo test",
        "cargo test -q",
        "cargo build --release",
        "cargo check",
        "cargo test -p core",
        "cargo test --lib",
    ),
    *(
        "go test ./...",
        "go test -v ./pkg",
        "go test -run TestX ./...",
        "go vet ./...",
        "go test -race ./...",
    ),
    *(
        "tsc --noEmit",
        "tsc --noEmit -p tsconfig.json",
        "npx tsc --noEmit",
        "ruff check",
        "ruff check src",
        "ruff check .",
    ),
    *(
        "mypy src",
        "mypy --strict src",
        "python --version",
        "node --version",
        "pip list",
        "docker ps -a",
        "yarn test",
    ),
    *(
        "uv run pytest -q",
        "uv run pytest tests -x",
        "command -v node",
        "cargo test -- --nocapture",
        "docker ps",
    ),
    *(
        "sed -n 5p README.md",
        "sed -n '10,20p;30p' src/app.py",
        "sed '/^#/d' README.md",
        "sed -e 's/a/b/g' README.md",
    ),
    *(
        "sed 's|/a/|/b/|' README.md",
        "sed -E 's/(a)(b)/\\2\\1/' README.md",
        "sed -n '$p' README.md",
        "sed 5q README.md",
    ),
    *(
        "awk 'END { print NR }' README.md",
        "awk '/TODO/ { n++ } END { print n }' src/app.py",
        "awk NF README.md",
    ),
    *(
        "awk '{ s += $1 } END { print s / NR }' data.txt",
        "awk 'length($0) > 80' src/app.py",
        "awk '!seen[$0]++' a.txt",
    ),
    *(
        "awk '{ printf \"%s %s\\n\", $1, $2 }' data.txt",
        "awk -v n=3 'NR == n' README.md",
        "awk '{ print NF }' x",
    ),
    *(
        "awk '$3 > 100 { print $1 }' data.txt",
        "ps aux | grep node | awk '{ print $2 }'",
        "cut -c1-80 README.md",
    ),
    *(
        "sort -k2,2n data.txt",
        "sort -t, -k1 data.csv",
        "sort -u names.txt",
        "sort -rn data.txt | head -n 3",
    ),
    *(
        "cut -d: -f1,2 data.txt",
        "cut -d/ -f2 paths.txt",
        "tr -d '\\r'",
        "tr / _",
        "uniq -c names.txt",
        "comm a.txt b.txt",
    ),
    *(
        "cat README.md docs/guide.md",
        "cat -n src/app.py",
        "head -c 100 README.md",
        "tail -n +5 README.md",
        "wc -lc README.md",
    ),
    *(
        "git status && git diff --stat",
        "ls && pwd",
        "ls; ls src",
        "git status\ngit log -1",
        "cd src && ls",
        "ls || true",
    ),
    *(
        "cd src && git status",
        "cat a.txt || echo missing",
        "test -d src && ls src",
        "which python || echo none",
    ),
    *(
        "git diff --stat | tail -n 1",
        "git log --oneline | head -n 10",
        "find . -name '*.md' | sort | head -n 5",
    ),
    *(
        "git log --format='%an <%ae>' | sort -u",
        "git diff HEAD --stat && npm test",
        "pytest -q && ruff check src",
    ),
    *(
        "npm test && npm run lint",
        "make test && git status",
        "cargo check && cargo test",
        "ls -la | grep '\\.py$'",
    ),
    *(
        "git log --stat -3",
        "git log --name-only -2",
        "git diff --cached --stat",
        "git show --name-only",
        "rg -n TODO docs | wc -l",
        "cat README.md | wc -w",
        "grep -rc def src",
        "find docs -name '*.md'",
        "git diff -U0 src/app.py",
        "git log -1 --pretty=%B",
        "git diff --word-diff README.md",
        "git diff --no-color",
    ),
    *(
        "diff -u a.txt b.txt",
        "diff -rq src docs",
        "stat -c %s README.md",
        "sha256sum README.md",
        "file src/app.py",
    ),
)


TOOLCHAIN_RULES = tuple(
    rule.strip()
    for rule in """
        go, gofmt -l, cargo tree, cargo clippy, cargo fmt --check, ./gradlew test, mvn test,
        dotnet test, bundle exec rspec, bundle exec rubocop, composer show, phpunit, mix test,
        swift test, kubectl get, kubectl logs, kubectl describe, helm list, terraform version,
        docker logs, docker images, docker inspect, gh pr list, gh pr view, gh issue list,
        gh run list, eslint, npx eslint, prettier --check, npx prettier --check, vitest run,
        jest, pnpm test, pnpm lint, poetry show, tox -l, shellcheck, flake8, black --check,
        isort --check, pylint, coverage report, ctest, cmake --build, ninja, rubocop, stat,
        readlink, realpath, id, hostname, uptime, free, nproc, curl, bat, ag, tar, unzip -l,
        zcat, od, hexdump, column, paste, rev, tac, fold, md5sum, base64, whereis, type, pgrep,
        systemctl, journalctl, hg, svn, deno info, bun test, npm view, npm outdated, pip show,
        pip freeze, less, man, expr, sleep, cmp, jest --ci, golangci-lint, yq
    """.replace("\n", " ").split(",")
)
"""Rules of people who work with other things."""
TOOLCHAIN_LINES = r"""
go version
go env
go env GOPATH
go list ./...
go list -m all
go doc fmt.Println
gofmt -l .
cargo tree
cargo tree -i serde
cargo clippy
cargo clippy --all-targets
cargo clippy --workspace --all-features
cargo fmt --check
./gradlew test
./gradlew test --tests com.example.AppTest
./gradlew test --info --stacktrace
mvn test
mvn test -q
mvn test -Dtest=AppTest
mvn test -pl core -am
dotnet test
dotnet test --no-build --filter Name~Parser
bundle exec rspec
bundle exec rspec spec/models/user_spec.rb
bundle exec rspec --format documentation
bundle exec rubocop
rubocop --format json
phpunit
phpunit --filter testLogin
composer show
mix test
mix test test/app_test.exs
swift test
swift test --filter AppTests
kubectl get pods
kubectl get pods -n staging
kubectl get svc -A -o wide
kubectl get deploy web -o yaml
kubectl logs web-1 --tail=100
kubectl logs -n staging web-1 --previous
kubectl describe pod web-1
helm list -A
terraform version
docker logs web --tail 50
docker logs --since 10m web
docker images -q
docker images --format '{{.Repository}}'
docker inspect web
docker ps --filter name=web
gh pr list
gh pr list --state open --limit 10
gh pr view 12 --comments
gh issue list --label bug
gh run list --limit 5
eslint src
eslint --ext .ts,.tsx src
eslint . --max-warnings 0
npx eslint src --quiet
prettier --check .
npx prettier --check src
vitest run
vitest run src/app.test.ts
vitest run --coverage
jest
jest src/app.test.js
jest -t 'parses dates'
jest --coverage --silent
jest --ci
pnpm test
pnpm lint
pnpm test -- --silent
bun test
deno info
npm view react versions --json
npm outdated
poetry show
poetry show --tree
pip show requests
pip freeze
tox -l
shellcheck evil.sh
shellcheck -s bash evil.sh
flake8 src
flake8 --max-line-length=100 src
black --check src
black --check --diff src
isort --check src
pylint src
pylint --errors-only src
coverage report
coverage report -m
ctest --output-on-failure
ctest -R parser
cmake --build build
cmake --build build --parallel 4
ninja
ninja -j4
golangci-lint run
stat README.md
readlink hooks
realpath src/app.py
id
hostname
uptime
free -m
nproc
curl -s http://localhost:3000/health
curl -sS -I http://localhost:8080
curl -fsSL http://localhost/api/users
curl -s -H 'Accept: application/json' http://localhost/x
bat -n src/app.py
bat --plain README.md
ag -l TODO
ag TODO src
tar -tf a.tar
tar tzf a.tgz
unzip -l a.zip
zcat log.gz
zcat log.gz | head -n 20
od -c other
hexdump -C other
column -t -s, data.csv
paste -d, a.txt b.txt
rev other
tac other
fold -w 80 README.md
md5sum README.md
base64 README.md
whereis python
type git
pgrep -f node
systemctl status nginx
journalctl -u nginx -n 50 --no-pager
hg log -l 5
hg status
svn status
svn log -l 5
less README.md
man git
expr 1 + 2
sleep 1
cmp a.txt b.txt
yq '.name' package.json
yq -o json '.jobs' ci.yml
git log --oneline -n 5 --stat
git log --grep='fix' -i --oneline
git log -G'needle' -p -- src
git log --pretty=format:'%h %an %s' --since=1.week
git diff --color-words README.md
git diff --exit-code
git diff -U10 src/app.py
git diff -U 10 src/app.py
git diff -M --stat main
git diff --ignore-all-space src
git show --pretty=fuller HEAD
git show HEAD~1 --stat
git show HEAD:README.md | head -n 5
git branch -vv
git branch -r --sort=-committerdate
git branch --merged main
git tag --sort=-creatordate
git tag --points-at HEAD
git shortlog -sne
git blame -w -C src/app.py
git blame -e README.md
git grep -n -i todo -- src
git grep -c import
git grep -l 'def main'
git config user.email
git config --get remote.origin.url
git rev-list --count HEAD
git rev-parse --short HEAD
git ls-files -m
git ls-files --others --exclude-standard
git describe --tags --dirty --always
git diff --name-only HEAD~2 | sort | uniq
git status --porcelain | wc -l
git log --merges --oneline | head -n 3
grep -rn --include='*.ts' --exclude-dir=node_modules 'useState' src
grep -m 1 -n class src/app.py
grep -C 2 main src/app.py
rg -C 3 'class ' src
rg -m 1 -n main
rg --type-list
rg -g '!*.lock' name
head -n -5 README.md
tail -n 20 README.md | head -n 5
find . -type f -name '*.py' -not -name 'test_*'
find . -maxdepth 1 -type d
find src -newer README.md
find . \( -name '*.py' -o -name '*.md' \)
find src -type f \( -name a.py -o -path './x/*' \) -print
find . ! -name '*.pyc'
find . -type f \! -path './.git/*'
date -d yesterday +%F
date +%Y-%m-%dT%H:%M:%S
du -sh src docs
du -d 1 -h
df -h .
ls -lt src
ls -S -r
jq '.dependencies | length' package.json
jq -r '.scripts | keys[]' package.json
jq -r '.a[0].b // "none"' data.json
""".strip().splitlines()
PROJECT_RULES = tuple(
    rule.strip()
    for rule in """
        tox run, tox, nox, black, black --version, isort --check-only, ruff format --check,
        coverage report, coverage erase, coverage html, coverage combine,
        coverage run -m pytest, git fetch, git checkout, git add, git commit,
        git rebase, git submodule update, mkdir, npm ci, npm install, npm run test,
        pip install, python -m build, python -m venv, python -m pip install, make html,
        make clean, make check, make doc, make linkcheck, make spelling, make fmt, xargs,
        xargs grep, xargs -0
    """.replace("\n", " ").split(",")
)
"""Rules for the commands that projects tell their contributors to run."""
PROJECT_LINES = r"""
black --version
black src/ -q
black src/ -v
black test.py --check
black test.py --diff
cd docs
cd examples/tutorial
cd tests
cd vendor/llhttp/
cd vendor/llhttp; npm ci
coverage combine
coverage erase
coverage html
coverage report --format=markdown
coverage run -m pytest
git add --all
git checkout -b ticket_99999
git checkout main
git checkout stable/4.2.x
git commit -m 'Added two more tests for edge cases'
git commit -m "Say what \$PATH and \`make\` mean"
git diff --cached
git diff --exit-code
git fetch upstream
git fetch upstream --tags
git fetch origin stable
git rebase main
git submodule update --init --recursive
isort --check-only --diff django tests scripts
lsof -P -i :5000
make check
make clean
make doc
make fmt
make html
make linkcheck
make spelling
mkdir -p release/include
mkdir -p release/src
mkdir build
mkdir flask-tutorial
netstat -nlp | grep 5000
npm ci
npm install
npm run build
npm run lint
npm run test
npm test -- --grep "x y"
npm test -- --testNamePattern='parses dates'
pip install '.[test]'
pip install "black[jupyter]"
pip install 'httpx[cli]'
pip install -e '.[test]'
pip install -e .
pip install -r requirements.txt && pip install -e .
pip install pytest coverage
pip list
pytest tests/test_functional.py
pytest tests/test_pyright.py -vv
python -m build --wheel
python -m venv .venv
tox run
tox run -e docs-doctests
tox run -f typing
echo 'a && b $(c)'
echo "costs \$5" it\'s done!
cat docs/my\ file.txt
cat src/../README.md
cd src && cat ../README.md
find src -name \*.py
find src -name '*.py' | xargs grep -n TODO
find src -type f -print0 | xargs -0 wc -l
find src -name '*.py' | xargs wc -l | sort -n | tail -1
diff -r src docs
diff -ru src docs
""".strip().splitlines()
"""Mostly from documents and CI files of aiohttp, attrs, black, click, Django, Flask, httpx,
pydantic, requests, rich and tox."""
ALLOWED_RULES += TOOLCHAIN_RULES + PROJECT_RULES


def _iter_lines() -> Iterator[str]:
    yield from PLAIN_LINES
    yield from TOOLCHAIN_LINES
    yield from PROJECT_LINES
    yield from (form.format(p=path) for form, path in product(LINE_TEMPLATES, PATHS))


def list_harmless_commands() -> list[str]:
    """At least five hundred, once each, in a fixed order."""
    return list(dict.fromkeys(_iter_lines()))
