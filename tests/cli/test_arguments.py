from __future__ import annotations

import re

import pytest

from joey.cli.command_line import parse_command_line
from joey.cli.exit_codes import UsageError
from tests.harness.paths import ROOT

PROMPTS = [
    (["fix the test"], ["fix the test"]),
    (["fix", "the", "test"], ["fix", "the", "test"]),
    (["fix", "-m", "some-model", "the", "test"], ["fix", "the", "test"]),
    (["-p", "hello"], ["hello"]),
    (["--", "task"], ["task"]),
    (["test the parser"], ["test the parser"]),
    (["test", "the", "parser"], ["test", "the", "parser"]),
    (["task", "one", "is", "done"], ["task", "one", "is", "done"]),
    (["help", "me", "please"], ["help", "me", "please"]),
    (["help me"], ["help me"]),
    (["do", "it"], ["do", "it"]),
    (["hello"], ["hello"]),
    (["tasks are hard"], ["tasks are hard"]),
    (["--", "tasks"], ["tasks"]),
    (["-p", "--", "--help"], ["--help"]),
    (["a", "--", "-b", "--", "c"], ["a", "-b", "--", "c"]),
    ([], []),
]


@pytest.mark.parametrize(("argv", "prompt"), PROMPTS)
def test_arguments_that_are_no_command_are_the_prompt(argv: list[str], prompt: list[str]) -> None:
    arguments = parse_command_line(argv)
    assert arguments.command == "run"
    assert arguments.prompt == prompt


@pytest.mark.parametrize("command", ["demo", "doctor"])
def test_a_command_is_known_by_its_place(command: str) -> None:
    assert parse_command_line([command]).command == command


@pytest.mark.parametrize("command", ["tasks", "profiles", "config", "mcp", "modes"])
def test_a_command_without_an_action_lists(command: str) -> None:
    assert parse_command_line([command]).action == "list"
    assert parse_command_line([command, "--json"]).json
    with pytest.raises(SystemExit):
        parse_command_line([command, "--help"])


SLIPS = [
    ("task", "joey tasks list"),
    ("task list", "joey tasks list"),
    ("taks lsit", "joey tasks list"),
    ("task show", "joey tasks show ID"),
    ("task show 01a1e0f0", "joey tasks show 01a1e0f0"),
    ("doctro", "joey doctor"),
    ("domo", "joey demo"),
    ("hlep", "joey --help"),
    ("hlep tasks", "joey tasks --help"),
    ("version", "joey --version"),
    ("login", "joey profiles add NAME --provider PROVIDER"),
    ("update", "uv tool upgrade joey"),
    ("resume", "joey -r"),
    ("resume --last", "joey -c"),
    ("review", "joey -p /review"),
    ("agents", "joey modes list"),
    ("exec --full-auto fix", "joey -p PROMPT"),
    ("run -m gpt fix", "joey -p PROMPT"),
    ("resume 01a1e0f0", "joey -r 01a1e0f0"),
    ("run", "joey -p PROMPT"),
    ("exec hi", "joey -p hi"),
    ("continue", "joey -c"),
    ("web", "joey serve"),
    ("export", "joey tasks export ID"),
    ("uninstall", "uv tool uninstall joey"),
    ("session list", "joey tasks list"),
    ("agent list", "joey modes list"),
    ("providers list", "joey profiles list"),
    ("run the tests", "joey -p 'the tests'"),
]


@pytest.mark.parametrize(("line", "meant"), SLIPS)
def test_a_misspelt_command_is_not_sent_to_a_model(line: str, meant: str) -> None:
    message = f"did you mean `{meant}`? (as a prompt: joey -- {line})"
    with pytest.raises(UsageError, match=re.escape(message)):
        parse_command_line(line.split())


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("--dangerously-skip-permissions fix", "-y"),
        ("--yolo fix", "-y"),
        ("--full-auto fix", "-y"),
        ("-p --allowedTools Bash fix", "--allow"),
        ("--allowed-tools Bash fix", "--allow"),
        ("--disallowedTools=Bash fix", "--deny"),
        ("--permission-mode plan fix", "-y, --allow-writes or --mode architect"),
        ("--message fix", "-p"),
        ("--cd /src fix", "-w"),
        ("-C /src fix", "-w"),
        ("--verbose fix", "--debug"),
        ("-v", "--version"),
        ("-V", "--version"),
    ],
)
def test_a_flag_of_another_agent_names_the_one_of_joey(line: str, meant: str) -> None:
    with pytest.raises(UsageError, match=rf"did you mean {meant}\? \(see joey --help\)"):
        parse_command_line(line.split())


def test_who_asks_for_a_sandbox_is_not_sent_to_the_flag_that_turns_it_off() -> None:
    with pytest.raises(UsageError, match="commands are sandboxed without it") as refused:
        parse_command_line(["--sandbox", "workspace-write", "fix"])
    assert "--no-sandbox" not in str(refused.value)


def test_the_address_of_an_mcp_server_without_its_flag_is_answered_with_the_flag() -> None:
    with pytest.raises(UsageError, match="did you mean `joey mcp add web --url https://example"):
        parse_command_line(["mcp", "add", "web", "https://example.org/mcp"])


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("tsks", "did you mean `joey help tasks`? (as a prompt: joey -- help tsks)"),
        ("nonsense", "there is no command 'nonsense': acp, attach, "),
    ],
)
def test_help_about_no_command_is_not_sent_to_a_model(word: str, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        parse_command_line(["help", word])


WRONG = [
    (["--debug", "tasks"], "joey -- tasks"),
    (["--unknown"], "--unknown"),
    (["-c", "-r", "x"], "not allowed with"),
    (["-y", "-a", "x"], "not allowed with"),
    (["--ephemeral", "-c"], "--ephemeral"),
    (["--max-turns", "0"], "'0'"),
    (["--max-turns", "many"], "'many'"),
    (["--max-budget-usd", "-1"], "max-budget-usd"),
    (["--max-budget-usd", "nan"], "'nan'"),
    (["--max-wall-time", "soon"], "'soon'"),
    (["--output-format", "xml"], "'xml'"),
    (["--protocol", "json"], "'json'"),
    (["permissions"], "explain|report"),
    (["tasks", "are", "hard"], "'are'"),
    (["demo", "--model", "x"], "--model"),
    (["tasks", "rewind", "x", "--wat"], "--wat (see joey tasks rewind --help)"),
    (["tasks", "fork", "x", "1", "2"], "2 (see joey tasks fork --help)"),
    (["tasks", "rewind"], "ID (see joey tasks rewind --help)"),
    (["--stdin-prompt-stream", "--output-format", "json"], "--stdin-prompt-stream needs"),
    (["--input-format", "stream-json"], "--input-format stream-json needs"),
]


@pytest.mark.parametrize(
    "argv",
    [
        ["rewind", "x", "10", "--with-files", "--before"],
        ["rewind", "x", "--with-files", "10", "--before"],
        ["rewind", "--with-files", "x", "--before", "10"],
        ["rewind", "--with-files", "--before", "--", "x", "10"],
    ],
)
def test_the_message_to_go_back_to_stands_anywhere(argv: list[str]) -> None:
    arguments = parse_command_line(["tasks", *argv])
    assert (arguments.id, arguments.message) == ("x", "10")
    assert arguments.with_files and arguments.before and not arguments.undo


def test_roos_flag_for_commands_on_stdin_needs_no_other() -> None:
    arguments = parse_command_line(["--stdin-prompt-stream"])
    assert (arguments.input_format, arguments.output_format) == ("stream-json", "stream-json")


@pytest.mark.parametrize(("argv", "named"), WRONG)
def test_what_is_wrong_is_named(argv: list[str], named: str) -> None:
    with pytest.raises(UsageError, match=re.escape(named)):
        parse_command_line(argv)


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("1.5m", 90), ("2h", 7200), (".5", 0.5)]
)
def test_times_are_written_as_people_write_them(text: str, seconds: float) -> None:
    assert parse_command_line(["--max-wall-time", text, "x"]).max_wall_time == seconds


def test_flags_that_may_be_repeated_are_collected() -> None:
    arguments = parse_command_line(
        ["--allow", "npm", "--allow", "git status", "--deny", "rm", "--image", "a"]
    )
    assert arguments.allow == ["npm", "git status"]
    assert arguments.deny == ["rm"]
    assert arguments.image == ["a"]


def test_every_option_of_every_command_says_what_it_is_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for command in ([], ["tasks", "list"], ["tasks", "show"], ["tasks", "export"], ["demo"]):
        with pytest.raises(SystemExit):
            parse_command_line([*command, "--help"])
        help_text = capsys.readouterr().out
        silent = re.findall(r"^  (?:-\w.*, )?--[\w-]+(?: \S+)?\n(?!   )", help_text, re.MULTILINE)
        assert silent == []


@pytest.mark.parametrize(
    "command", [[], ["tasks", "list"], ["tasks", "show"], ["tasks", "export"], ["tasks", "import"]]
)
def test_every_flag_is_in_the_documentation(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parse_command_line([*command, "--help"])
    flags = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", capsys.readouterr().out))
    document = ROOT / "docs" / "cli.md"
    documented = set(re.findall(r"--?[a-z][a-z-]*", document.read_text(encoding="utf-8")))
    assert flags - documented == set()
