"""The environment of commands, hooks and MCP servers: an allow-list of variables.

Values are checked too, because a variable with a harmless name, or the URL of a proxy, may contain
a secret.
"""

from __future__ import annotations

from collections.abc import Mapping

from joey.core.redaction import has_secret_name
from joey.core.text import compile_regex
from joey.system.files import keep_absolute_directories

_ALLOWED_VARIABLES = frozenset(
    """
    PATH HOME USER LOGNAME SHELL LANG LANGUAGE TERM COLUMNS LINES TZ TMPDIR TMP TEMP HOSTNAME
    DISPLAY WAYLAND_DISPLAY EDITOR VISUAL MANPATH INFOPATH LD_LIBRARY_PATH LIBRARY_PATH CPATH
    PKG_CONFIG_PATH CC CXX CFLAGS CXXFLAGS LDFLAGS MAKEFLAGS CMAKE_PREFIX_PATH
    SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE NODE_EXTRA_CA_CERTS
    NIX_PATH NIX_PROFILES NIX_SSL_CERT_FILE
    VIRTUAL_ENV PYENV_ROOT PYENV_VERSION PYTHONPATH PYTHONIOENCODING PYTHONUTF8 UV_CACHE_DIR
    PIP_CACHE_DIR PIP_RETRIES POETRY_HOME CONDA_PREFIX CONDA_DEFAULT_ENV CONDA_EXE MAMBA_ROOT_PREFIX
    NVM_DIR NVM_BIN NVM_INC NODE_PATH FNM_DIR FNM_MULTISHELL_PATH VOLTA_HOME PNPM_HOME
    BUN_INSTALL DENO_DIR DENO_INSTALL COREPACK_HOME npm_config_fetch_retries
    CARGO_HOME RUSTUP_HOME RUSTUP_TOOLCHAIN GOPATH GOROOT GOBIN GOCACHE GOMODCACHE GOFLAGS
    JAVA_HOME JDK_HOME M2_HOME MAVEN_HOME GRADLE_HOME GRADLE_USER_HOME SDKMAN_DIR ANDROID_HOME
    ANDROID_SDK_ROOT KOTLIN_HOME DOTNET_ROOT RBENV_ROOT RUBY_VERSION GEM_HOME GEM_PATH
    ASDF_DIR ASDF_DATA_DIR MISE_DATA_DIR MISE_CONFIG_DIR HOMEBREW_PREFIX HOMEBREW_CELLAR
    HOMEBREW_REPOSITORY CI JOEY_ITEM JOEY_ATTEMPT
    http_proxy https_proxy no_proxy all_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY ALL_PROXY
    """.split()  # noqa: SIM905 (easier to read and to extend than a literal)
)
_ALLOWED_VARIABLE_PREFIXES = ("LC_", "XDG_")
_URL_WITH_CREDENTIALS_RE = compile_regex(r"(?:^|//)[^/\s]+@")

_FIXED_VARIABLES = {
    "JOEY_ACTIVE": "1",
    "ROO_ACTIVE": "true",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
}
"""By the first two, programs know that an agent has started them (Roo Code sets its own to this
very word). Nobody can scroll a pager or type a password: both would only wait."""


def build_command_environment(source: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in source.items() if _is_safe_variable(name, value)}
    for name in _ABSOLUTE_PATH_LIST_VARIABLES & kept.keys():
        # With `.` in it, a rule for `git` would run a program of that name in any directory.
        kept[name] = keep_absolute_directories(kept[name])
    for name in _SEARCH_PATH_VARIABLES & kept.keys():
        # An empty entry means the current directory, which is rarely intended.
        kept[name] = ":".join(filter(None, kept[name].split(":")))
        if not kept[name]:
            del kept[name]
    return {"TERM": "dumb", **kept, **_FIXED_VARIABLES}


_ABSOLUTE_PATH_LIST_VARIABLES = frozenset({"PATH", "LD_LIBRARY_PATH"})
_SEARCH_PATH_VARIABLES = frozenset(
    ("PYTHONPATH", "NODE_PATH", "LIBRARY_PATH", "CPATH", "GEM_PATH", "LD_LIBRARY_PATH")
)


def _is_safe_variable(name: str, value: str) -> bool:
    if name.lower().endswith("_proxy") and "@" in value:
        return False  # a login, even if malformed
    listed = name in _ALLOWED_VARIABLES or name.startswith(_ALLOWED_VARIABLE_PREFIXES)
    return listed and not has_secret_name(name) and not _URL_WITH_CREDENTIALS_RE.search(value)
