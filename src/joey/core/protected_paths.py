"""Protected paths: files that are executed later, or that relax current restrictions.

No write to them is made without approval. A name in the table protects every file or directory of
that name, wherever it is, and everything below it; it need not exist yet. Names are compared as the
most lenient file system would compare them. Code that a user runs deliberately (a Makefile,
`package.json`, a test) is not in the table; configuration that a tool loads by itself is.

The sandbox's fork server imports this module: the standard library only.
"""

from __future__ import annotations

import unicodedata
from fnmatch import fnmatchcase
from functools import lru_cache

from joey.core.text import compile_regex

_AGENT_GLOBS = """
    .roo* .joey* .cline* agents.md agents.*.md agent.md agent.*.md .agents* .agent .agentignore
    .claude* claude.md claude.*.md claude-*.md claude_desktop_config.json .mcp* mcp.json mcp.*.json
    mcp_*.json mcp-*.json .cursor* .windsurf* .codeium* .codex* codex.md .copilot* .gemini*
    gemini.md gemini.*.md .aider* .continue* .kilo* .qwen* qwen.md .opencode* opencode.json*
    opencode.md .kiro .junie* .amazonq .trae* .goose* .crush* crush.json crush.md .warp* warp.md
    .augment* .tabnine* .sourcegraph .cody .openhands* .devin* .zencoder .factory .qodo
    .pr_agent.toml .rules .iflow* iflow.md .codebuddy* .amp .ampcode jules.md .jules .grok grok.md
    .ai .aiassistant .aiignore .aiexclude .airules .ruler .rulesync* .specify .bmad* .taskmaster
    .serena .firebender* .rovodev* .sweep* sweep.yaml .coderabbit.y*ml .greptile* .mentat* .plandex*
    .blackbox* .void* .pearai* .lingma .marscode .comate .bito* .supermaven* .refact* .letta
    *copilot-instructions.md *.instructions.md *.chatmode.md *.prompt.md *.agent.md
"""
_VERSION_CONTROL_GLOBS = """
    .git *.git git~[0-9] .gitmodules .gitattributes .gitconfig .git-credentials .lfsconfig
    .gitreview .hg .hgrc .hgsub .hgsubstate .svn .subversion .jj .sl .bzr _darcs .pijul .fslckout
    _fossil_ cvs .cvsrc .repo .arcconfig .arcrc .tigrc allowed_signers codeowners
    .githooks .git-hooks .hooks .husky* husky.config.* .lintstagedrc* lint-staged.config.*
    lefthook.* .lefthook* lefthook-local.* .pre-commit* prek.toml .overcommit* .simple-git-hooks.*
    simple-git-hooks.* captainhook*.json grumphp.y*ml* hk.pkl .trunk
    applypatch-msg pre-applypatch post-applypatch pre-commit pre-merge-commit prepare-commit-msg
    commit-msg post-commit pre-rebase post-checkout post-merge post-rewrite pre-push pre-receive
    post-receive post-update push-to-checkout proc-receive reference-transaction pre-auto-gc
    fsmonitor-watchman sendemail-validate
"""
_EDITOR_GLOBS = """
    .vscode* *.code-workspace *.code-snippets .idea *.iml *.ipr *.iws .fleet .run .vs .zed .nova
    .theia .lapce .helix .editorconfig *.sublime-project *.sublime-workspace *.sublime-settings
    *.sublime-build .project .classpath .cproject .settings .externaltoolbuilders *.launch nbproject
    .devcontainer* .gitpod* .idx .replit* replit.nix devbox.json .devbox devenv.* .devenv* .flox
    devfile.y*ml .devfile* .codesandbox .stackblitzrc .vim* .gvim* .nvim* _vimrc _gvimrc .lvimrc
    .local.vimrc .exrc _exrc .ideavimrc .kakrc .neoconf.json .luarc.json* .ycm_extra_conf.py .clangd
    .ccls .omnisharp omnisharp.json .nanorc .emacs* .spacemacs* .doom.d .dir-locals*.el
"""
_CI_SERVICE_GLOBS = """
    .github .gitlab .gitlab-ci* .gitea .forgejo .circleci circle.y*ml .travis* .buildkite
    azure-pipelines* .azure-pipelines* .azuredevops .vsts-ci* *jenkinsfile* .jenkins*
    bitbucket-pipelines.y*ml .drone.* .woodpecker* .appveyor* appveyor.y*ml .cirrus.* .semaphore*
    .teamcity .tekton .harness .concourse .screwdriver* screwdriver.y*ml bamboo-specs bamboo.y*ml
    cloudbuild*.y*ml buildspec*.y*ml .codebuild .builds .build.y*ml wercker.y*ml .wercker*
    bitrise.y*ml .bitrise* codemagic.y*ml codefresh.y*ml .codefresh* .shippable* shippable.y*ml
    .zuul* zuul.y*ml zuul.d .taskcluster.y*ml .packit.y*ml .onedev-buildspec.y*ml .cirun.y*ml
    *.gocd.y*ml .dagger dagger.json action.y*ml .netlify netlify.toml .vercel vercel.json
    heroku.y*ml .dependabot dependabot.y*ml .renovaterc* renovate.json* .mergify* .releaserc*
    .goreleaser.y*ml
"""
_SHELL_GLOBS = """
    .bash* .profile* .zsh* .zprofile* .zlogin* .zlogout* .zimrc .antigenrc .oh-my-zsh .p10k.zsh
    .login .logout .cshrc .tcshrc .kshrc .mkshrc .shrc .shinit .yashrc .yash_profile .fishrc
    config.fish .elvish rc.elv .xonshrc config.nu env.nu *profile.ps1 .aliases .exports .functions
    .envrc* .direnv* .autoenv* .ondirrc .inputrc .editrc .config .local .pam_environment .xprofile
    .xinitrc .xsession* .xserverrc .xresources .xdefaults .tmux* .byobu .screenrc .wezterm.lua
    .hammerspoon .alacritty.* .crontab .forward .mailcap .procmailrc .muttrc launchagents
    launchdaemons autorun.inf
"""
_PACKAGE_MANAGER_GLOBS = """
    .npmrc .npmrc.* .yarnrc* .yarn .pnp.* .pnpmfile.* .pnpmrc pnpm-workspace.y*ml .bunfig.toml
    bunfig.toml .pypirc pip.conf pip.ini .pip .pydistutils.cfg uv.toml poetry.toml pdm.toml
    .pdm.toml .condarc .mambarc .cargo .rustup rust-toolchain rust-toolchain.toml .gemrc .gem
    .bundle .rvmrc .rbenv* .powrc .mvn .m2 .mavenrc maven-wrapper.* .gradle init.gradle*
    gradle-wrapper.* .sdkmanrc .sbt .sbtopts .jvmopts .ivy2 .coursier .lein .clojure .cabal
    .composer .cpan .cpanm .proverc .modulebuildrc .nuget nuget.config go.env .goenv .conan .conan2
    .bazelrc *.bazelrc .bazeliskrc .bazelversion .buckconfig* .pants.rc .tool-versions .mise .mise.*
    mise.toml mise.*.toml .rtx.toml .asdfrc .nvmrc .node-version .python-version .ruby-version
    .java-version .go-version .nixpkgs .guix*
"""
_PROGRAM_CONFIG_GLOBS = """
    .curlrc _curlrc .wgetrc .ripgreprc .ackrc .ctags .ctags.d .lesskey .lessfilter .pythonrc*
    .pythonstartup .ipython .jupyter .pdbrc* sitecustomize.py usercustomize.py *.pth pyvenv.cfg
    .irbrc .pryrc .rdbgrc .byebugrc .rspec .perldb .psysh* php.ini .user.ini .htaccess .htpasswd
    .rprofile* .renviron .juliarc.jl .julia startup.jl .octaverc .ghci .ocamlinit .utoprc .iex.exs
    .erlang .gdbinit* .gdbearlyinit .lldbinit* .my.cnf .mylogin.cnf .psqlrc .sqliterc .duckdbrc
    .mongorc.js .mongoshrc.js ansible.cfg .ansible* .chef .docker .dockercfg .sops.y*ml
"""
_CREDENTIAL_GLOBS = """
    .ssh .gnupg .aws .azure .gcloud .oci .kube .boto .s3cfg .netrc _netrc .pgpass .pg_service.conf
    .terraformrc .terraform.d .tofurc .pulumi .vault-token .password-store .rhosts .shosts
    authorized_keys*
"""

PROTECTED_GLOBS: tuple[str, ...] = tuple(
    " ".join(
        (
            _AGENT_GLOBS,
            _VERSION_CONTROL_GLOBS,
            _EDITOR_GLOBS,
            _CI_SERVICE_GLOBS,
            _SHELL_GLOBS,
            _PACKAGE_MANAGER_GLOBS,
            _PROGRAM_CONFIG_GLOBS,
            _CREDENTIAL_GLOBS,
        )
    ).split()
)
"""In lower case; `*` stands for any characters of a name."""

_WILDCARD_RE = compile_regex(r"[*\[]")
_EXACT_NAMES = frozenset(name for name in PROTECTED_GLOBS if not _WILDCARD_RE.search(name))
_NAME_PREFIXES = tuple(
    name[:-1] for name in PROTECTED_GLOBS if name[-1] == "*" and not _WILDCARD_RE.search(name[:-1])
)
_NAME_SUFFIXES = tuple(
    name[1:] for name in PROTECTED_GLOBS if name[0] == "*" and not _WILDCARD_RE.search(name[1:])
)
_INNER_GLOBS = tuple(
    (max(_WILDCARD_RE.split(glob), key=len), glob)
    for glob in PROTECTED_GLOBS
    if _WILDCARD_RE.search(glob[1:-1]) or glob[0] == glob[-1] == "*"
)
"""Those with wildcards inside or at both ends, each after its longest literal part: most names have
none of these, and to compile the globs takes long."""
_IGNORABLE_CHARS_RE = compile_regex(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""What file systems that fold case leave out of a name (Unicode: Default_Ignorable_Code_Point)."""


PLACEHOLDER_NAMES = (".git", ".roo", ".vscode")
"""A prompt, another joey or an open editor acts on what is in them within a moment. The sandbox
keeps the names of those that are absent occupied by empty directories while a command runs."""
PLACEHOLDER_MTIME_S = 1
"""In the first second of 1970: no user's own."""


def is_protected(path: str) -> bool:
    """Whether a path (parts joined by `/`) configures the agent, its host or its tools."""
    return any(map(_is_protected_name, path.split("/")))


def fold_name(name: str) -> str:
    """Fold a name as a file system may that ignores case, Unicode composition, and trailing dots or
    spaces, and for which a stream (`name:stream`) is that file."""
    if not name.isascii():
        name = unicodedata.normalize("NFKC", _IGNORABLE_CHARS_RE.sub("", name))
        name = unicodedata.normalize("NFKC", _IGNORABLE_CHARS_RE.sub("", name.casefold()))
    name = name.lower()
    return (name.partition(":")[0] or name).rstrip(" .")


@lru_cache(2048)
def _is_protected_name(name: str) -> bool:
    name = fold_name(name)
    if not name:
        return False  # the directory itself
    if name in _EXACT_NAMES or name.startswith(_NAME_PREFIXES) or name.endswith(_NAME_SUFFIXES):
        return True
    return any(part in name and fnmatchcase(name, glob) for part, glob in _INNER_GLOBS)
