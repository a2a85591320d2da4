"""Programs that build, check, test and install: they run code of the project by design.

Which code is the rule's to say (`npm test`, `cargo build`); a rule that names the program alone
covers looking things up. Options that choose another program, configuration, plugin or output are
not on these lists, whatever the rule.
"""

from __future__ import annotations

from joey.core.permissions.sheets import Sheet

_LINKED = r"://|^git[+@]|^file:|^@"
_PACKAGE = r"://|^git[+@]|^file:|^@(?![\w.-]+/[\w.-]+(@[\w.^~-]+)?$)"
"""To npm and its like, `@types/node` is a package."""
_NPM = (
    "-s -w: -q --silent --quiet --if-present --workspace: --workspaces --json --depth= --all"
    " --long --version -v -D --save-dev --no-audit --no-fund --dry-run --watch --coverage --ci"
    " --runInBand --verbose -t= --run --frozen-lockfile --immutable --prefer-offline"
)
_PYTEST = (
    "-q -v -vv -vvv -x -s -l -k= -m= -n= -r= --tb= --maxfail= --lf --ff --last-failed"
    " --failed-first --durations= --co --collect-only --no-header --no-summary --color= --cov:"
    " --cov-report: -h --exitfirst --quiet --verbose --capture= --strict-markers --markers"
    " --fixtures --sw --stepwise --version --disable-warnings --showlocals --full-trace --timeout="
    " --no-cov --nf --new-first"
)
_RUBY = "-f= -e= --format= --fail-fast --color --no-color --tag= -t= --seed= --only-failures"

BUILDING: dict[str, Sheet] = {
    "bandit": Sheet("-r -q -v -ll -lll -f= --recursive --quiet --format="),
    "black": Sheet("-q -v -l= -t= -S --check --diff --quiet --line-length= --version --fast"),
    "brew": Sheet("-q -v --json", first="info list outdated search deps leaves"),
    "bun": Sheet(_NPM, first="", refused=_PACKAGE),
    "bundle": Sheet("-q --quiet", first=""),
    "cargo": Sheet(
        "-p= -q -v -vv -j= -D= -W= -A= -F= --package= --lib --bins --bin= --tests --test= --release"
        " --workspace --all --all-features --features= --no-default-features --no-run"
        " --no-fail-fast --offline --locked --frozen --doc --example= --examples --exact"
        " --nocapture --color= --message-format= --all-targets --check --test-threads= --profile="
        " --ignored --quiet --verbose --depth= --edges= -i= --invert= --version --no-deps"
        " --format-version= --benches --bench= --jobs= --keep-going",
        first="search version --version help pkgid",
        refused=r"^\+|" + _LINKED,
    ),
    "composer": Sheet("-q -v --no-interaction", first=""),
    "cmake": Sheet(
        "-j# --build: --target= --config= --parallel# --version --verbose",
        first="",
        refused="^--build",
    ),
    "conda": Sheet("-q -n= --json", first="list info search"),
    "coverage": Sheet("-m -i --skip-covered --format= --precision=", first="report"),
    "ctest": Sheet(
        "-R= -E= -V -VV -j= -L= --output-on-failure --verbose --rerun-failed -N --test-dir:"
    ),
    "deno": Sheet("-q --quiet --json --check", first="info doc types --version"),
    "docker": Sheet(
        "-a -q -n= -l -s -t --all --filter= --format= --no-trunc --tail= --since= --timestamps"
        " --digests --quiet --size --no-stream",
        first="ps images version info logs inspect top port stats history diff",
    ),
    "dotnet": Sheet(
        "-c= -v= -f= --no-build --no-restore --configuration= --filter= --verbosity= --nologo"
        " --framework= --list-tests --version --info --list-sdks --list-runtimes",
        first="--version --info",
    ),
    "eslint": Sheet(
        "--ext= --quiet --max-warnings= --no-color --color --cache --version -v"
        " --no-eslintrc --report-unused-disable-directives --no-warn-ignored"
    ),
    "flake8": Sheet(
        "--max-line-length= --select= --ignore= --extend-ignore= --count -q -v --statistics"
        " --show-source --exclude= --max-complexity= --version"
    ),
    "gem": Sheet("-q -l", first="list search which outdated"),
    "gh": Sheet(
        "-L= -s= -a= -l= -S= --limit= --state= --author= --label= --search= --json= --jq= -q="
        " --comments --patch --name-only --log --log-failed --branch= -b=",
        first="",
        refused=r"://",
    ),
    "go": Sheet(
        "-v -run= -count= -race -cover -short -timeout= -bench= -benchmem -failfast -json -p="
        " -parallel= -tags= -m -x -a -n -all -src -skip= -list= -shuffle= -vet=",
        first="version env list doc help",
        single=True,
        refused=_LINKED,
    ),
    "gofmt": Sheet("-l -d -s -e"),
    "golangci-lint": Sheet("-v --fast --timeout= --new", first="run linters version"),
    "gradle": Sheet(
        "-q -i -s -x= --info --stacktrace --no-daemon --offline --tests= --console= --parallel"
        " --continue --quiet --rerun-tasks --dry-run -m --warning-mode= --version",
        first="",
        targets=True,
    ),
    "helm": Sheet("-n= -A --namespace= -a", first="list version status history"),
    "isort": Sheet("-c -q -v --check --check-only --diff --quiet --profile= -l= --version"),
    "jest": Sheet(
        "-t= -i --coverage --ci --runInBand --silent --verbose --testNamePattern= --bail"
        " --testPathPattern= --passWithNoTests --maxWorkers= --watchAll= --no-cache --listTests"
        " --colors --no-coverage --detectOpenHandles --forceExit --version"
    ),
    "kubectl": Sheet(
        "-n= -A -l= -o= -w= -c= --namespace= --all-namespaces --selector= --output= --tail="
        " --since= --no-headers --show-labels --previous -p --short --client --context= --sort-by=",
        first="get describe logs version top api-resources explain",
        refused=r"-file\b|^(go-template|jsonpath|custom-columns)-file",
    ),
    "make": Sheet(
        "-j# -k -s -n -B -q -w -i --jobs# --keep-going --silent --quiet --dry-run --just-print"
        " --always-make --no-print-directory --version --question",
        refused="=",
        targets=True,
    ),
    "mocha": Sheet(
        "-g= -f= -b -t= --grep= --bail --timeout= --recursive --exit --dry-run --version"
    ),
    "mvn": Sheet(
        "-q -o -B -e -X -pl= -am -U -DskipTests -Dmaven.test.skip=true -v --version --quiet"
        " --offline --batch-mode --errors --no-transfer-progress -ntp --fail-at-end -fae -T="
        " -Dtest=",
        first="",
        single=True,
        refused=":",
        targets=True,
    ),
    "mypy": Sheet(
        "-p= -m= --strict --ignore-missing-imports --pretty --show-error-codes --no-incremental"
        " --no-error-summary --follow-imports= --no-color-output --show-column-numbers --version"
        " --exclude= --python-version= --warn-unused-ignores --check-untyped-defs -v"
    ),
    "ninja": Sheet("-j# -k# -v -n --quiet --verbose --version", targets=True),
    "nox": Sheet("-l -s= -k= -r -R -v --list --sessions= --reuse-existing-virtualenvs"),
    "npm": Sheet(
        _NPM,
        first="ls list view info show outdated explain why ping search --version -v",
        refused=_PACKAGE,
    ),
    "phpunit": Sheet("--filter= --testsuite= --group= --testdox --colors --stop-on-failure -v"),
    "pip": Sheet(
        "-q -v -U -r: -e: --upgrade --user --no-deps --dry-run --format= --outdated --quiet"
        " --no-cache-dir --version --requirement: --editable: --disable-pip-version-check",
        first="list show freeze check --version index debug",
        refused=_LINKED,
    ),
    "poetry": Sheet("-q -v --no-interaction --tree --latest -n", first="show check about"),
    "prettier": Sheet("-c -l --check --list-different --ignore-unknown -u --version --no-color"),
    "pylint": Sheet(
        "-E -j= --errors-only --disable= --enable= --jobs= --reports= --score= --recursive="
        " --version"
    ),
    "pyright": Sheet("--outputjson --stats --warnings --verbose --version -v"),
    "pytest": Sheet(_PYTEST),
    "rake": Sheet("-T -P -n -q -s -t= --tasks --dry-run --quiet", refused="=", targets=True),
    "rspec": Sheet(_RUBY),
    "rubocop": Sheet("--format= -f= --only= --parallel --display-cop-names -D -V --version"),
    "ruff": Sheet(
        "-q -v --select= --ignore= --output-format= --statistics --diff --no-cache --show-files"
        " --check --line-length= --extend-select= --quiet --exit-zero --version --preview"
        " --no-fix --target-version=",
        first="check rule version --version linter",
    ),
    "shellcheck": Sheet("-s= -S= -f= -e= -i= --shell= --severity= --format= --exclude= --version"),
    "stylelint": Sheet("--quiet --max-warnings= --color"),
    "swift": Sheet("-v -c= --filter= --parallel --list-tests", first="--version"),
    "terraform": Sheet(
        "-no-color -json -check -diff -recursive -detailed-exitcode -input=",
        first="version",
        single=True,
    ),
    "tox": Sheet("-l -e= -q -v -r -p= --list --recreate"),
    "tsc": Sheet(
        "-p: -b --project: --build --noEmit --pretty --skipLibCheck --strict --listFiles --version"
        " -v --showConfig --noErrorTruncation --incremental",
        refused="^@",
    ),
    "uv": Sheet(
        "-q -v --quiet --format= --outdated --depth= --locked --frozen --no-sync --offline",
        first="--version",
        refused=_LINKED,
    ),
    "vitest": Sheet(
        "-t= --run --coverage --testNamePattern= --silent --bail= --passWithNoTests"
        " --no-color --version",
    ),
    "yarn": Sheet(_NPM, first="list why info outdated --version versions", refused=_PACKAGE),
}
_PACKAGES = Sheet("-q -a --installed --upgradable", first="list show search info policy")
BUILDING |= dict.fromkeys(("apt", "apt-get", "apt-cache", "dnf", "yum", "apk", "snap"), _PACKAGES)
BUILDING["pnpm"] = BUILDING["npm"]
BUILDING["gmake"] = BUILDING["make"]
