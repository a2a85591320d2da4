"""The sandbox of macOS: its profile as text, and commands that run with it in front."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import dedent

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from joey.app.sandbox import build_backends, describe_remedy
from joey.cli.command_line import describe_yes_flag
from joey.core.settings import Settings
from joey.errors import ToolError
from joey.execution.sandbox.filesystem import (
    VISIBLE_VIEWS,
    FilesystemLayout,
    PathView,
    build_layout,
    find_visible_protected_paths,
)
from joey.execution.sandbox.probe import CanaryProbe, probe_backend
from joey.execution.sandbox.protected_files import ProtectedPaths
from joey.execution.sandbox.protected_scan import ProtectedPathScanner
from joey.execution.sandbox.sandbox import LocalSandbox, SandboxConfig, SandboxProbeResult
from joey.execution.sandbox.seatbelt import Seatbelt, build_profile
from joey.execution.terminal import LocalTerminal
from joey.ports.execution import SandboxLevel, SandboxReport

NOTHING_PROTECTED = ProtectedPaths((), (), (), (), {}, ())
Expression = str | list["Expression"]


class Profile:
    """Answers what a profile says about files: of the rules that match, the last one counts."""

    def __init__(self, text: str, parameters: dict[str, str]) -> None:
        self._parameters = parameters
        self.rules = [each for each in parse(text) if isinstance(each, list)]
        assert self.rules[:2] == [["version", "1"], ["deny", "default"]]

    def allows(self, operation: str, path: str) -> bool:
        answer = False
        for action, *rest in self.rules[2:]:
            operations = [each for each in rest if isinstance(each, str)]
            filters = [each for each in rest if isinstance(each, list)]
            if any(covers(each, operation) for each in operations) and (
                not filters or any(self._matches(each, path) for each in filters)
            ):
                answer = action == "allow"
        return answer

    def _matches(self, rule: Sequence[Expression], path: str) -> bool:
        kind, value = rule
        if isinstance(value, list):
            assert value[0] == "param"
            value = self._parameters[str(value[1]).strip('"')]
        else:
            value = value.strip('"')
        match kind:
            case "literal":
                return path == value
            case "subpath":
                return path == value or path.startswith(f"{value}/")
        raise AssertionError(f"no filter for files: {kind}")


def covers(rule: str, operation: str) -> bool:
    return operation.startswith(rule[:-1]) if rule.endswith("*") else operation == rule


def parse(text: str) -> list[Expression]:
    stack: list[list[Expression]] = [[]]
    for token in tokenize(text):
        match token:
            case "(":
                stack.append([])
            case ")":
                done = stack.pop()
                stack[-1].append(done)
            case _:
                stack[-1].append(token)
    assert len(stack) == 1
    return stack[0]


def tokenize(text: str) -> Iterator[str]:
    return iter(text.replace("(", " ( ").replace(")", " ) ").split())


def make_profile(
    layout: FilesystemLayout, protected: ProtectedPaths = NOTHING_PROTECTED, network: bool = False
) -> Profile:
    return Profile(*build_profile(layout, protected, has_network=network))


MAC = FilesystemLayout(
    Path("/Users/ann/code"),
    {
        Path("/"): PathView.READ,
        Path("/Users"): PathView.HIDDEN,
        Path("/private/tmp"): PathView.PRIVATE,
        Path("/Users/ann"): PathView.PRIVATE,
        Path("/Users/ann/.cargo/bin"): PathView.READ,
        Path("/Users/ann/code"): PathView.WRITE,
        Path("/Users/ann/code/.roo-home"): PathView.HIDDEN,
        Path("/private/var/folders/x/T"): PathView.PRIVATE,
    },
    Path("/private/var/folders/x/T/joey-commands-1"),
    Path("/Users/ann"),
)
PROTECTED = ProtectedPaths(
    read_only=(".git/config", "web/.vscode"),
    pinned_directories=(".git",),
    placeholder_paths=(".git/hooks", ".roo"),
    restored_afterwards=(".envrc",),
    scanned_directories={},
    excluded=(),
)


def test_the_profile_of_a_project_as_text() -> None:
    text, parameters = build_profile(MAC, PROTECTED, has_network=False)
    begin = text.index("(allow file-read*)")
    assert text[begin : text.index('(deny file-read* file-write* (subpath "/dev"))')] == dedent(
        """\
        (allow file-read*)
        (deny file-write*)
        (deny file-read* file-write* (subpath (param "PATH_0")))
        (deny file-read* file-write* (subpath (param "PATH_1")))
        (deny file-read* file-write* (subpath (param "PATH_2")))
        (allow file-read* (subpath (param "PATH_3")))
        (deny file-write* (subpath (param "PATH_4")))
        (allow file-read* file-write* (subpath (param "PATH_5")))
        (deny file-read* file-write* (subpath (param "PATH_6")))
        (deny file-read* file-write* (subpath (param "PATH_7")))
        (allow file-read* file-write* (subpath (param "PATH_8")))
        (allow file-read-metadata (literal (param "PATH_9")))
        (allow file-read-metadata (literal (param "PATH_10")))
        (allow file-read-metadata (literal (param "PATH_11")))
        (allow file-read-metadata (literal (param "PATH_12")))
        (allow file-read-metadata (literal (param "PATH_13")))
        (deny file-write* (subpath (param "PATH_14")))
        (deny file-write* (subpath (param "PATH_15")))
        (deny file-write* (subpath (param "PATH_16")))
        (deny file-write* (subpath (param "PATH_17")))
        (deny file-write* (subpath (param "PATH_18")))
        (deny file-write-unlink (literal (param "PATH_19")))
        (deny file-write-unlink (literal (param "PATH_20")))
        (deny file-write-unlink (literal (param "PATH_21")))
        """
    )
    assert list(parameters.values()) == [
        *("/Users", "/private/tmp", "/Users/ann", "/Users/ann/.cargo/bin"),
        *("/Users/ann/.cargo/bin", "/Users/ann/code", "/Users/ann/code/.roo-home"),
        *("/private/var/folders/x/T", "/private/var/folders/x/T/joey-commands-1/tmp"),
        *("/Users/ann/.cargo", "/Users/ann", "/Users"),
        *("/private/var/folders/x/T/joey-commands-1", "/private/var/folders/x/T"),
        *("/Users/ann/code/.git/config", "/Users/ann/code/web/.vscode"),
        *("/Users/ann/code/.git/hooks", "/Users/ann/code/.roo", "/Users/ann/code/.envrc"),
        *("/Users/ann/code/.git", "/Users/ann/code", "/Users/ann/code/web"),
    ]


@pytest.mark.parametrize(
    ("path", "can_read", "can_write"),
    [
        ("/usr/bin/git", True, False),
        ("/Users/ann/.ssh/id_ed25519", False, False),
        ("/Users/ann/.cargo/bin/cargo", True, False),
        ("/Users/ann/code/main.py", True, True),
        ("/Users/ann/code/.git/index", True, True),
        ("/Users/ann/code/.git/config", True, False),
        ("/Users/ann/code/.git/hooks/pre-commit", True, False),
        ("/Users/ann/code/web/.vscode/tasks.json", True, False),
        ("/Users/ann/code/.roo", True, False),
        ("/Users/ann/code/.envrc", True, False),
        ("/Users/ann/code/.roo-home/secrets.json", False, False),
        ("/Users/ann/codex", False, False),
        ("/private/tmp/x", False, False),
        ("/private/var/folders/x/T/other", False, False),
        ("/private/var/folders/x/T/joey-commands-1/written", False, False),
        ("/private/var/folders/x/T/joey-commands-1/tmp/x", True, True),
        ("/dev/ttys003", False, False),
        ("/dev/null", True, True),
    ],
)
def test_what_a_command_may_read_and_write(path: str, can_read: bool, can_write: bool) -> None:
    profile = make_profile(MAC, PROTECTED)
    assert profile.allows("file-read-data", path) is can_read
    assert profile.allows("file-write-data", path) is can_write


def test_directories_that_hold_protected_names_cannot_be_renamed() -> None:
    profile = make_profile(MAC, PROTECTED)
    for name in ("", "/.git", "/web", "/web/.vscode", "/.git/hooks"):
        assert not profile.allows("file-write-unlink", f"/Users/ann/code{name}"), name
    assert profile.allows("file-write-create", "/Users/ann/code/web/new.ts")
    assert profile.allows("file-write-unlink", "/Users/ann/code/web/old.ts")


def test_the_way_to_the_workspace_can_be_looked_at_but_not_listed() -> None:
    profile = make_profile(MAC)
    for path in ("/Users", "/Users/ann", "/private/var/folders/x/T"):
        assert profile.allows("file-read-metadata", path)
        assert not profile.allows("file-read-data", path)
    assert not profile.allows("file-read-metadata", "/Users/ann/.ssh")
    assert not profile.allows("file-read-metadata", "/Users/bob")


def test_the_network_is_closed_or_open() -> None:
    closed, _ = build_profile(MAC, PROTECTED, has_network=False)
    opened, _ = build_profile(MAC, PROTECTED, has_network=True)
    assert "network" not in closed.replace("net.routetable", "")
    assert "socket" not in closed
    assert '(allow network-outbound (remote ip "*:*"))' in opened
    assert "unix" not in opened  # no agent, no Docker
    for text in (closed, opened):
        assert "SecurityServer" not in text
        assert "securityd" not in text


def test_a_list_of_hosts_is_refused() -> None:
    with pytest.raises(ToolError, match="level seatbelt"):
        Seatbelt().build_wrapper(MAC, PROTECTED, ("pypi.org",))


STRANGE_NAMES = (
    'quote" (allow file-write*) "',
    "paren)(allow default)",
    "back\\slash\\",
    'both\\"',
    "line\nbreak",
    "; comment",
    "=equals=",
    "-Dname",
    "bücher – 本",
    "composed é and e\u0301",
    "bytes \udcff",
)


@pytest.mark.parametrize("name", STRANGE_NAMES)
def test_no_path_becomes_a_rule(name: str) -> None:
    workspace = Path("/Users/ann", name)
    layout = FilesystemLayout(
        workspace,
        {Path("/"): PathView.READ, Path("/Users"): PathView.HIDDEN, workspace: PathView.WRITE},
        Path("/private/tmp", name),
    )
    plain = FilesystemLayout(
        Path("/Users/ann/plain"),
        {
            Path("/"): PathView.READ,
            Path("/Users"): PathView.HIDDEN,
            Path("/Users/ann/plain"): PathView.WRITE,
        },
        Path("/private/tmp/plain"),
    )
    protected = ProtectedPaths((f"{name}/.git",), (), (), (), {}, ())
    text, parameters = build_profile(layout, protected, has_network=False)
    plain_protected = ProtectedPaths(("plain/.git",), (), (), (), {}, ())
    assert text == build_profile(plain, plain_protected, has_network=False)[0]
    assert str(workspace) in parameters.values()
    program, option, profile, *defined, end = Seatbelt().build_wrapper(layout, protected, "off")
    assert (program, option, profile, end) == ("/usr/bin/sandbox-exec", "-p", text, "--")
    assert defined == [f"-D{key}={value}" for key, value in parameters.items()]


def test_paths_are_named_as_the_kernel_sees_them(tmp_path: Path) -> None:
    """On macOS /tmp and /var are links into /private."""
    real = tmp_path / "private/tmp/code"
    real.mkdir(parents=True)
    (real / ".vscode").mkdir()
    (tmp_path / "tmp").symlink_to("private/tmp")
    (tmp_path / "private/var/home").mkdir(parents=True)
    (tmp_path / "var").symlink_to("private/var")
    env = {"HOME": str(tmp_path / "var/home"), "PATH": "/usr/bin"}
    config = SandboxConfig(tmp_path / "tmp/code", tmp_path / "var/home/.joey", env)
    layout = build_layout(config, tmp_path / "private/var/commands")
    found = ProtectedPathScanner(str(real)).scan()
    protected = find_visible_protected_paths(config, layout, found)
    _, parameters = build_profile(layout, protected, has_network=False)
    named = set(parameters.values())
    assert {str(real), str(real / ".vscode"), str(tmp_path / "private/var/home")} <= named
    assert not any(each.startswith((f"{tmp_path}/tmp", f"{tmp_path}/var")) for each in named)


segments = st.sampled_from(["a", "b", "c", "ab", "x y", ")", '"', "\\", "é", "\n"])
paths = st.lists(segments, max_size=5).map(lambda parts: Path("/", *parts))


@st.composite
def layouts(draw: st.DrawFn) -> FilesystemLayout:
    drawn = draw(st.dictionaries(paths, st.sampled_from(list(PathView)), max_size=8))
    views = {Path("/"): PathView.READ} | drawn
    ordered = {path: views[path] for path in sorted(views, key=lambda path: len(path.parts))}
    return FilesystemLayout(draw(paths), ordered, Path("/joey"))


@settings(max_examples=300, deadline=None)
@given(layouts(), st.lists(paths, min_size=10, max_size=20))
def test_the_profile_agrees_with_the_layout(layout: FilesystemLayout, asked: list[Path]) -> None:
    profile = make_profile(layout)
    for path in (*asked, *layout.views):
        view = layout.find_view(path)
        assert profile.allows("file-read-data", str(path)) is (view in VISIBLE_VIEWS)
        assert profile.allows("file-write-data", str(path)) is (view is PathView.WRITE)


# The choice, and the texts about it


def test_each_system_has_its_backends() -> None:
    assert [each.level for each in build_backends("darwin")] == ["seatbelt"]
    assert [each.level for each in build_backends("linux")] == ["full", "landlock"]


def test_a_mac_without_the_program_has_no_sandbox(tmp_path: Path) -> None:
    probe = CanaryProbe((Seatbelt(str(tmp_path / "sandbox-exec")),))
    assert probe.find_likely_level() is SandboxLevel.NONE
    report = probe.find_available().report
    assert report.level is SandboxLevel.NONE
    assert "is missing" in report.unavailable_reasons["seatbelt"]


def test_yes_says_what_confines_commands() -> None:
    assert "(bubblewrap or Landlock)" in describe_yes_flag("linux")
    assert "(Seatbelt, not yet tried on hardware)" in describe_yes_flag("darwin")
    assert "needs --no-sandbox" in describe_yes_flag("freebsd14")
    assert "Install bubblewrap" in describe_remedy("linux")
    assert "bubblewrap" not in describe_remedy("darwin")
    assert any("Not yet tried on hardware" in each for each in Seatbelt().gaps)


# Commands, with programs in the place of sandbox-exec


def make_program(directory: Path, script: str) -> str:
    path = directory / "sandbox-exec"
    path.write_text(f"#!/bin/bash\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


PASS_ON = 'while [ "$1" != -- ]; do shift; done; shift; exec "$@"'


def test_a_program_that_confines_nothing_is_not_used(tmp_path: Path) -> None:
    backend = Seatbelt(make_program(tmp_path, PASS_ON))
    assert probe_backend(backend) == "a command could write outside of its workspace"


def test_a_refused_profile_is_reported(tmp_path: Path) -> None:
    refused = "echo 'sandbox-exec: unbound variable: mach-host*' >&2; exit 65"
    backend = Seatbelt(make_program(tmp_path, refused))
    report = CanaryProbe((backend,)).find_available().report
    assert report.level is SandboxLevel.NONE
    assert "unbound variable" in report.unavailable_reasons["seatbelt"]


class FixedProbe:
    def __init__(self, backend: Seatbelt) -> None:
        self._backend = backend

    def find_likely_level(self) -> SandboxLevel:
        return self._backend.level

    def find_available(self) -> SandboxProbeResult:
        return SandboxProbeResult(SandboxReport(self._backend.level), self._backend)


def make_terminal(tmp_path: Path, script: str = PASS_ON) -> LocalTerminal:
    (tmp_path / "workspace").mkdir()
    config = SandboxConfig(tmp_path / "workspace", tmp_path / "home", os.environ)
    probe = FixedProbe(Seatbelt(make_program(tmp_path, script)))
    return LocalTerminal(sandbox=LocalSandbox(config, Settings(), lambda: probe))


async def test_a_command_runs_with_the_program_in_front(tmp_path: Path) -> None:
    log = tmp_path / "arguments"
    terminal = make_terminal(tmp_path, f"printf '%s\\0' \"$@\" > '{log}'; {PASS_ON}")
    running = await terminal.start("pwd; echo $TMPDIR; exit 3", tmp_path / "workspace", None)
    end = await running.wait()
    assert end is not None
    assert end.exit_code == 3
    cwd, temp = running.render_truncated(1000).splitlines()
    assert cwd == str(tmp_path / "workspace")
    option, profile, *rest = log.read_text(encoding="utf-8").split("\0")
    assert option == "-p"
    assert profile.startswith("(version 1)\n(deny default)\n")
    assert any(each.endswith(f"={temp}") for each in rest)
    await terminal.close()
    assert not await asyncio.to_thread(Path(temp).exists)


async def test_a_command_is_killed_with_its_children(tmp_path: Path) -> None:
    terminal = make_terminal(tmp_path)
    running = await terminal.start("sleep 300 & wait", tmp_path / "workspace", None)
    end = await running.kill()
    assert end.signal is not None
    assert not running.is_running
    await terminal.close()


async def test_a_server_left_behind_ends_with_the_terminal(tmp_path: Path) -> None:
    terminal = make_terminal(tmp_path)
    running = await terminal.start("sleep 300 &", tmp_path / "workspace", None)
    end = await running.wait()
    assert end is not None
    assert end.has_background_processes
    assert running.is_running
    await terminal.close()
    assert not running.is_running


def test_nothing_of_linux_is_loaded(tmp_path: Path) -> None:
    script = """
        import sys
        from joey.app.sandbox import build_backends
        from joey.execution.sandbox.probe import CanaryProbe, probe_backend
        from joey.execution.sandbox.seatbelt import Seatbelt
        build_backends("darwin")
        print(probe_backend(Seatbelt(sys.argv[1])))
        print([name for name in sys.modules if name.startswith("joey.execution.sandbox.")])
    """
    program = make_program(tmp_path, PASS_ON)
    said = subprocess.run(
        [sys.executable, "-c", dedent(script), program], capture_output=True, text=True, check=True
    ).stdout
    assert "could write outside" in said
    for name in ("forkserver_client", "supervisor_client", "kernel", "seccomp", "landlock"):
        assert f".{name}'" not in said, said
