from __future__ import annotations

import pytest

from joey.execution.command_environment import build_command_environment


@pytest.mark.parametrize(
    "name",
    [
        "ANTHROPIC_API_KEY",
        "OPENAI_API_KEY",
        "AWS_SECRET_ACCESS_KEY",
        "GITHUB_TOKEN",
        "JOEY_TOKEN",
        "DATABASE_URL",
        "SSH_AUTH_SOCK",
        "BASH_ENV",
        "ENV",
        "BASH_FUNC_ls%%",
        "LD_PRELOAD",
        "PROMPT_COMMAND",
        "LC_MY_PASSWORD",
        "XDG_SESSION_COOKIE",
    ],
)
def test_names_that_are_not_listed_or_sound_secret_stay_out(name: str) -> None:
    assert name not in build_command_environment({name: "x", "PATH": "/bin"})


@pytest.mark.parametrize("name", ["PATH", "HOME", "LC_ALL", "XDG_CACHE_HOME", "VIRTUAL_ENV", "TZ"])
def test_names_that_tools_need_go_through_unchanged(name: str) -> None:
    assert build_command_environment({name: "/as it was"})[name] == "/as it was"


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ("http://proxy.example:8080", True),
        ("http://me:secret@proxy.example:8080", False),
        ("me:secret@proxy.example:8080", False),
    ],
)
def test_a_proxy_is_passed_on_unless_its_address_holds_a_login(value: str, kept: bool) -> None:
    assert ("https_proxy" in build_command_environment({"https_proxy": value})) is kept


@pytest.mark.contract("tool:execute_command:success:environment")
def test_the_locale_is_not_forced() -> None:
    assert not {"LANG", "LC_ALL"} & build_command_environment({"PATH": "/bin"}).keys()
    assert build_command_environment({"LANG": "de_DE.UTF-8"})["LANG"] == "de_DE.UTF-8"


def test_commands_can_tell_that_an_agent_runs_them_and_wait_for_nobody() -> None:
    environment = build_command_environment({"PAGER": "less"})
    assert (environment["JOEY_ACTIVE"], environment["ROO_ACTIVE"]) == ("1", "true")
    assert environment["PAGER"] == environment["GIT_PAGER"] == "cat"
    assert environment["GIT_TERMINAL_PROMPT"] == "0"


@pytest.mark.contract("permissions:words")
@pytest.mark.parametrize(
    "path", [".:/bin", "/bin:", ":/bin", "/bin::.", "./bin:/bin:~/x", "bin:/bin"]
)
def test_no_program_is_found_by_where_one_stands(path: str) -> None:
    assert build_command_environment({"PATH": path})["PATH"] == "/bin"


@pytest.mark.parametrize(
    "path", [":/opt/lib", "/opt/lib:", "/opt/lib::", ".:/opt/lib", "lib:/opt/lib"]
)
def test_no_library_is_loaded_from_the_directory_that_a_command_is_in(path: str) -> None:
    assert build_command_environment({"LD_LIBRARY_PATH": path})["LD_LIBRARY_PATH"] == "/opt/lib"


@pytest.mark.parametrize("name", ["PYTHONPATH", "NODE_PATH", "LIBRARY_PATH", "CPATH", "GEM_PATH"])
def test_an_empty_entry_of_a_search_path_is_not_the_directory_that_a_command_is_in(
    name: str,
) -> None:
    assert build_command_environment({name: ":/opt/x:src::"})[name] == "/opt/x:src"
    assert name not in build_command_environment({name: ":"})
