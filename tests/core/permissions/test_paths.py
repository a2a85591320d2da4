"""Which names are protected, in all the spellings that some file system takes for them."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joey.core.protected_paths import PROTECTED_GLOBS, is_protected

CLASSES = {
    "roo": """
        .rooignore .roomodes .roorules .roorules-code .clinerules .clinerules/a.md .roo/mcp.json
        .roo/rules/a.md .rooprotected .vscode/settings.json a.code-workspace AGENTS.md AGENT.md
        .roo
    """,
    "agents": """
        CLAUDE.md CLAUDE.local.md .claude/settings.json .claude.json .cursor/mcp.json
        .cursorrules .codex/config.toml .gemini/settings.json GEMINI.md .continue/config.yaml
        .aider.conf.yml .mcp.json .github/copilot-instructions.md .windsurfrules .kilocodemodes
        .opencode/agent/a.md .qwen/settings.json a.instructions.md AGENTS.override.md
        .kiro/hooks/a .clineignore mcp_settings.json .specify/scripts/a.sh
        .aiassistant/rules/a.md codex.md
    """,
    "version control": """
        .git/hooks/pre-commit .git/config .git .gitmodules .gitattributes .hg/hgrc .svn/props
        .jj/repo bare.git/hooks/update .husky/_/husky.sh .githooks/pre-push lefthook.yml
        .lefthook-local.yml .pre-commit-config.yaml scripts/pre-commit tools/commit-msg
        .lfsconfig CODEOWNERS sub/.git/info/attributes .bzr/branch.conf CVS/Root
        .trunk/trunk.yaml prek.toml
    """,
    "editors": """
        .idea/workspace.xml .devcontainer/devcontainer.json .devcontainer.json .zed/tasks.json
        .helix/languages.toml .vimrc .nvim.lua .exrc .emacs.d/init.el .dir-locals.el .project
        .settings/a.prefs a.launch project.iml .luarc.json .ycm_extra_conf.py .clangd
        devbox.json .gitpod.yml nbproject/project.xml .vimspector.json
        .code-workspace.code-workspace
    """,
    "services": """
        .github/workflows/ci.yml .gitlab-ci.yml .circleci/config.yml Jenkinsfile
        deploy.Jenkinsfile Jenkinsfile.release .travis.yml azure-pipelines.yml
        .buildkite/pipeline.yml bitbucket-pipelines.yml .drone.yml .cirrus.star .appveyor.yml
        bitrise.yml codemagic.yaml cloudbuild.prod.yaml buildspec.yml .zuul.yaml action.yml
        netlify.toml vercel.json .github/dependabot.yml renovate.json .taskcluster.yml
        .woodpecker/a.yml bamboo-specs/a.yml
    """,
    "shells": """
        .bashrc .bash_profile .profile .zshrc .zshenv .envrc .inputrc .config/fish/config.fish
        .tmux.conf .xinitrc Microsoft.PowerShell_profile.ps1 profile.ps1 .local/bin/ls .kshrc
        .login .xonshrc config.nu .autoenv.zsh .forward .direnvrc .zprofile.local
    """,
    "packages": """
        .npmrc .yarnrc .yarnrc.yml .pnpmfile.cjs pnpm-workspace.yaml .pypirc pip.conf uv.toml
        .cargo/config.toml .cargo/config rust-toolchain .tool-versions mise.toml .mise.toml
        .gemrc .bundle/config .mvn/wrapper/maven-wrapper.properties .gradle/init.gradle .condarc
        nuget.config .bazelrc tools/ci.bazelrc .nvmrc .python-version .rvmrc .sdkmanrc
        .composer/auth.json go.env
    """,
    "programs": """
        .gdbinit .lldbinit-Xcode .pythonrc.py .pdbrc.py .irbrc .psqlrc .Rprofile .htaccess
        sitecustomize.py a.pth ansible.cfg .docker/config.json .curlrc _curlrc .ghci .iex.exs
    """,
    "keys": """
        .ssh/authorized_keys authorized_keys2 .aws/credentials .netrc .kube/config .gnupg/a
        .terraformrc .vault-token .pgpass
    """,
}
LISTED = [(kind, path) for kind, text in CLASSES.items() for path in text.split()]
ORDINARY = [
    *("README.md", "src/app.py", "Makefile", "package.json", "package-lock.json", "pyproject.toml"),
    *("setup.cfg", "Dockerfile", "docker-compose.yml", ".gitignore", ".dockerignore", ".env"),
    *(
        ".env.example",
        "tsconfig.json",
        ".eslintrc.json",
        ".prettierrc",
        "jest.config.js",
        "tox.ini",
    ),
    *("conftest.py", "src/hooks/useUser.ts", "src/config/index.ts", "docs/agents.md.txt", "a.md"),
    *("src/roo.py", "lib/git.py", "github/client.py", "prompt.md", "rules.md", "mcp/server.py"),
    *("claude.py", "gradle.properties", "build.gradle", "Cargo.toml", "go.mod", "requirements.txt"),
    *("index", "HEAD", "objects/a.ts", "refs.md", "update", "src/vscode/a.ts", ".nycrc", "..."),
]


@pytest.mark.contract("permissions:protected")
@pytest.mark.parametrize(("kind", "path"), LISTED)
def test_every_class_is_protected(kind: str, path: str) -> None:
    assert is_protected(path)
    assert is_protected(f"deep/below/{path}")


@pytest.mark.parametrize("path", ORDINARY)
def test_ordinary_files_are_not(path: str) -> None:
    assert not is_protected(path)


@pytest.mark.contract("permissions:protected")
@given(
    path=st.sampled_from([path for _, path in LISTED]),
    cases=st.lists(st.booleans(), min_size=80, max_size=80),
    form=st.sampled_from(("NFC", "NFD", "NFKC", "NFKD")),
    hidden=st.sampled_from(
        ("", "\u200b", "\u200d", "\ufeff", "\u00ad", "\u2060", "\ufe0f", "\u034f")
    ),
    at=st.integers(1, 20),
    end=st.sampled_from(("", ".", " ", "...", " . ", "::$INDEX_ALLOCATION", ":x")),
    wide=st.booleans(),
)
def test_no_spelling_escapes(
    path: str, cases: list[bool], form: str, hidden: str, at: int, end: str, wide: bool
) -> None:
    first, *rest = path.split("/")
    spelled = "".join(c.upper() if up else c.lower() for c, up in zip(first, cases, strict=False))
    spelled = unicodedata.normalize(form, f"{spelled[:at]}{hidden}{spelled[at:]}")  # type: ignore[arg-type]
    if wide:
        spelled = "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in spelled)
    if is_protected(first):
        assert is_protected("/".join([spelled + end, *rest]))


def test_the_table_is_in_lower_case_and_has_no_name_twice() -> None:
    assert [name for name in PROTECTED_GLOBS if name != name.lower()] == []
    assert len(PROTECTED_GLOBS) == len(set(PROTECTED_GLOBS))


@given(st.text(max_size=300))
def test_any_text_can_be_asked_about(path: str) -> None:
    assert is_protected(path) in (True, False)
    assert is_protected(f"{path}/.roo/x")
