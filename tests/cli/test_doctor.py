"""`joey doctor`: things are really broken, and it says so and what to do."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from joey.cli.commands import doctor_checks
from joey.cli.commands.doctor import HEALTH_CHECKS, run_checks
from joey.cli.commands.doctor_checks import Finding, FindingStatus, HealthCheck, check_disk_space
from tests.harness.cli.binary import Joey
from tests.harness.cli.local_server import local_model_server
from tests.harness.cli.served_models import show_ollama
from tests.harness.cli.small_web import OLLAMA, OPENAI, small_web
from tests.harness.cli.terminal import terminal

KEY = "sk-ant-canary-0123456789abcdefwxyz"
NOBODY = "http://127.0.0.1:9"


async def findings(joey: Joey, *flags: str, **env: str) -> dict[str, dict[str, Any]]:
    done = await joey.run("doctor", "--json", *flags, env={**joey.env, **env})
    assert KEY not in done.out + done.err
    return {finding["name"]: finding for finding in done.json["findings"]}


async def test_a_usable_place_passes(joey: Joey) -> None:
    async with small_web({"/v1/models?limit=100": {"data": []}}) as web:
        env = {**joey.env, "ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": web.url}
        done = await joey.run("doctor", env=env)
    assert done.code == 0, done.out
    assert "ANTHROPIC_API_KEY" in done.out
    assert KEY not in done.out + done.err
    assert str(joey.home) in done.out
    assert "anthropic answers (200)" in done.out
    for probe in HEALTH_CHECKS:
        assert probe.name in done.out


async def test_without_a_model_it_fails_and_says_what_to_do(joey: Joey) -> None:
    done = await joey.run("doctor", "--json")
    assert done.code == 1
    assert done.json["ok"] is False
    found = {finding["name"]: finding for finding in done.json["findings"]}
    assert found["Model"]["status"] == "fail"
    assert "joey demo" in found["Model"]["advice"]
    assert found["Python"]["status"] == "ok"
    assert all(f["advice"] for f in found.values() if f["status"] in ("warn", "fail"))


async def test_what_is_not_there_and_not_needed_has_no_tick(joey: Joey) -> None:
    done = await joey.run("doctor")
    for line in ("- Profiles: none", "- Connection: not tried: no model is chosen yet"):
        assert line in done.out.splitlines()


@pytest.mark.parametrize("name", ["settings.json", "profiles.json"])
async def test_a_broken_file_is_named(joey: Joey, name: str) -> None:
    joey.home.mkdir()
    (joey.home / name).write_text("{", encoding="utf-8")
    done = await joey.run("doctor", "--offline", env={**joey.env, "ANTHROPIC_API_KEY": "k"})
    assert done.code == 1
    assert f"{name}, line 1" in done.out


async def test_a_home_that_cannot_be_written_fails(joey: Joey) -> None:
    home = (await findings(joey, "--offline", JOEY_HOME="/proc/joey"))["Home"]
    assert home["status"] == "fail"
    assert "JOEY_HOME" in home["advice"]


@pytest.mark.contract("local:first-contact")
async def test_a_model_server_of_this_machine_is_found_with_the_flags_to_use_it(
    joey: Joey,
) -> None:
    async with small_web(OLLAMA) as web:
        found = await findings(joey, OLLAMA_HOST=web.url)
    local = found["Local models"]
    assert local["found"].splitlines() == [
        "1 server",
        f"ollama at {web.url}/v1",
        "  qwen3-coder:30b: window unknown",
        "  llama4:8b: window unknown",
        "  To use it: joey --provider ollama -m qwen3-coder:30b",
    ]


UNUSABLE = {
    "window": (
        {
            **OLLAMA,
            "/api/show": show_ollama(4096),
            "/api/ps": {"models": []},
        },
        "is too small for joey",
    ),
    "no-model": ({**OLLAMA, "/api/tags": {"models": []}}, "get one with `ollama pull NAME`"),
}


@pytest.mark.parametrize("kind", UNUSABLE)
async def test_a_server_that_cannot_be_used_as_it_runs_is_not_offered(
    joey: Joey, kind: str
) -> None:
    pages, reason = UNUSABLE[kind]
    async with local_model_server(pages) as server:
        found = await findings(joey, OLLAMA_HOST=server.url)
    assert "To use it" not in found["Local models"]["found"]
    assert found["Model"]["status"] == "fail"
    assert "the local server that runs is not ready" in found["Model"]["found"]
    assert reason in found["Model"]["advice"]
    assert "start a model server" not in found["Model"]["advice"]


def test_too_little_disk_space_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_checks, "LOW_DISK_BYTES", 1 << 62)
    assert check_disk_space().status is FindingStatus.WARN
    monkeypatch.setattr(doctor_checks, "CRITICAL_DISK_BYTES", 1 << 62)
    assert check_disk_space().status is FindingStatus.FAIL


def test_a_probe_that_breaks_is_a_finding_and_harms_no_other() -> None:
    def broken() -> Finding:
        raise RuntimeError("out of order")

    found = run_checks(
        [
            HealthCheck("One", broken),
            HealthCheck("Two", lambda: Finding("Two", FindingStatus.OK, "fine")),
        ]
    )
    assert [(each.name, each.status) for each in found] == [
        ("One", FindingStatus.WARN),
        ("Two", FindingStatus.OK),
    ]
    assert "RuntimeError: out of order" in found[0].observation


# Keys and connections -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variable", "value", "why"),
    [
        ("OPENAI_API_KEY", f"{KEY}", "it looks like a key of anthropic"),
        ("ANTHROPIC_API_KEY", f"{KEY}\n", "it has spaces or a line break around it"),
        ("ANTHROPIC_API_KEY", f'"{KEY}"', "it has quotes around it"),
        ("ANTHROPIC_API_KEY", "your-key-here", "it looks like a placeholder"),
        ("ANTHROPIC_API_KEY", "sk-ä", "it has characters that are not allowed in keys"),
    ],
)
async def test_a_key_that_cannot_be_right_is_named_and_not_shown(
    joey: Joey, variable: str, value: str, why: str
) -> None:
    keys = (await findings(joey, "--offline", **{variable: value}))["Keys"]
    assert keys["status"] == "warn"
    assert f"{variable}: {why}" in keys["advice"]


async def test_keys_of_profiles_are_named(joey: Joey) -> None:
    joey.home.mkdir()
    profiles = {"profiles": {"work": {"provider": "openai", "apiKey": KEY[7:]}}}
    (joey.home / "profiles.json").write_text(json.dumps(profiles))
    assert (await findings(joey, "--offline"))["Keys"]["found"] == "profile work"


async def test_a_server_that_does_not_answer_is_reported_with_what_to_do(joey: Joey) -> None:
    found = await findings(joey, OPENAI_API_KEY="k" * 20, OPENAI_BASE_URL=NOBODY)
    assert found["Connection"]["status"] == "fail"
    assert "Nothing answers at 127.0.0.1:9 (connection refused)" in found["Connection"]["advice"]
    offline = await findings(joey, "--offline", OPENAI_API_KEY="k" * 20, OPENAI_BASE_URL=NOBODY)
    assert "Connection" not in offline
    assert "Local models" not in offline


@pytest.mark.contract("cli:doctor")
@pytest.mark.parametrize(
    ("status", "verdict", "advice"),
    [
        (401, "fail", "rejects the key"),
        (503, "warn", "try again later"),
        (200, "ok", ""),
    ],
)
async def test_what_the_service_answers_is_judged(
    joey: Joey, status: int, verdict: str, advice: str
) -> None:
    async with small_web(OPENAI, status=status) as web:
        url = f"{web.url}/v1"
        found = await findings(joey, OPENAI_API_KEY="k" * 20, OPENAI_BASE_URL=url)
    assert found["Connection"]["status"] == verdict
    assert advice in found["Connection"].get("advice", "")


@pytest.mark.parametrize("variable", ["ANTHROPIC", "OPENAI"])
async def test_a_wrong_address_is_reported_with_what_to_check(joey: Joey, variable: str) -> None:
    async with small_web(OPENAI) as web:
        env = {f"{variable}_API_KEY": "k" * 20, f"{variable}_BASE_URL": f"{web.url}/wrong"}
        connection = (await findings(joey, **env))["Connection"]
    assert connection["status"] == "warn"
    assert "answers, but does not list its models (404)" in connection["found"]
    assert (
        f"It may still work: a task sends its requests to {web.url}/wrong/" in connection["advice"]
    )
    assert "nothing" not in connection["advice"]


async def test_a_service_without_a_list_of_models_is_not_taken_for_a_wrong_address(
    joey: Joey,
) -> None:
    async with small_web({"/v1/chat/completions": {"error": "POST"}}, status=405) as web:
        url = f"{web.url}/v1"
        found = await findings(joey, OPENAI_API_KEY="k" * 20, OPENAI_BASE_URL=url)
    assert found["Connection"]["status"] == "ok"


async def test_a_server_that_says_nothing_is_not_waited_for_long(joey: Joey) -> None:
    async with small_web({}, silent=True) as web:
        found = await findings(joey, OPENAI_API_KEY="k" * 20, OPENAI_BASE_URL=web.url)
    assert "did not answer within 3 seconds" in found["Connection"]["advice"]


async def test_a_service_that_speaks_no_tls_is_reported(joey: Joey) -> None:
    async with small_web(OPENAI) as web:
        url = web.url.replace("http", "https")
        found = await findings(joey, OPENAI_API_KEY="k" * 20, OPENAI_BASE_URL=url)
    assert found["Connection"]["status"] == "fail"
    assert found["Connection"]["advice"]


# What is kept -------------------------------------------------------------------------------------


def task_directory(joey: Joey, name: str, journal: bytes | None = None) -> Path:
    directory = joey.home / "tasks" / f"task_{name}"
    directory.mkdir(parents=True)
    directory.chmod(0o700)
    if journal is not None:
        (directory / "journal.jsonl").write_bytes(journal)
    return directory


async def test_files_that_other_users_can_read_are_reported_and_fixed(joey: Joey) -> None:
    joey.settings(mode="code")
    joey.home.chmod(0o755)
    (joey.home / "settings.json").chmod(0o644)
    privacy = (await findings(joey, "--offline"))["Privacy"]
    assert privacy["status"] == "warn"
    assert f"{joey.home} can be read by others (0755)" in privacy["found"]
    assert "--fix" in privacy["advice"]
    privacy = (await findings(joey, "--offline", "--fix"))["Privacy"]
    assert privacy["status"] == "ok"
    assert f"{joey.home / 'settings.json'} is now 0600" in privacy["fixed"]
    assert joey.home.stat().st_mode & 0o777 == 0o700


async def test_a_stale_lock_and_an_unfinished_copy_are_reported_and_removed(joey: Joey) -> None:
    directory = task_directory(joey, "0198a1b2", b"")
    (directory / "task_metadata.json").write_text('{"id": "0198a1b2"}')
    (directory / "journal.jsonl").unlink()
    gone = await asyncio.create_subprocess_exec(sys.executable, "-c", "pass")
    await gone.wait()
    (directory / "lock").write_text(json.dumps({"pid": gone.pid, "since": 1}))
    left = joey.home / "tasks/.fork-abc"
    left.mkdir()
    os.utime(left, (time.time() - 3600,) * 2)
    tasks = (await findings(joey, "--offline"))["Tasks"]
    assert "task_0198a1b2 is locked by a process that no longer exists" in tasks["found"]
    assert ".fork-abc is an unfinished copy" in tasks["found"]
    tasks = (await findings(joey, "--offline", "--fix"))["Tasks"]
    assert tasks["status"] == "ok"
    assert not left.exists()
    assert (directory / "lock").read_text() == ""


@pytest.mark.contract("cli:doctor")
@pytest.mark.parametrize(
    ("journal", "why"),
    [(b"", "its journal is empty"), (b"not json\nat all\n", "cannot be read")],
)
async def test_a_broken_task_is_named(joey: Joey, journal: bytes, why: str) -> None:
    task_directory(joey, "0198a1b2", journal)
    tasks = (await findings(joey, "--offline"))["Tasks"]
    assert tasks["status"] == "warn"
    assert "task_0198a1b2" in tasks["found"]
    assert why in tasks["found"]


async def test_a_damaged_index_is_reported_and_removed(joey: Joey) -> None:
    joey.home.mkdir(mode=0o700)
    (joey.home / "index.sqlite").write_bytes(b"no database" * 100)
    index = (await findings(joey, "--offline"))["Index of tasks"]
    assert index["status"] == "warn"
    index = (await findings(joey, "--offline", "--fix"))["Index of tasks"]
    assert index["status"] == "ok"
    assert not (joey.home / "index.sqlite").exists()


async def test_slips_in_settings_and_servers_are_named(joey: Joey) -> None:
    joey.settings(sandbx="off")
    (joey.home / "mcp.json").write_text("{")
    found = await findings(joey, "--offline")
    assert "Did you mean `sandbox`?" in found["Settings"]["found"]
    assert found["MCP servers"]["status"] == "warn"
    assert "mcp.json" in found["MCP servers"]["found"]


async def test_what_the_directory_would_run_is_named(joey: Joey) -> None:
    (joey.workspace / ".roo").mkdir()
    servers = {"mcpServers": {"theirs": {"command": "touch", "args": ["x"]}}}
    (joey.workspace / ".roo/mcp.json").write_text(json.dumps(servers))
    directory = (await findings(joey, "--offline"))["This folder"]
    assert directory["status"] == "warn"
    assert "theirs" in directory["found"]
    assert "joey trust" in directory["advice"]


# The machine --------------------------------------------------------------------------------------


def programs(tmp_path: Path, *names: str) -> str:
    """A path with these programs alone."""
    directory = tmp_path / "programs"
    directory.mkdir()
    for name in names:
        found = shutil.which(name)
        assert found is not None
        (directory / name).symlink_to(found)
    return str(directory)


async def test_missing_programs_are_named_with_how_to_get_them(joey: Joey, tmp_path: Path) -> None:
    found = await findings(joey, "--offline", PATH=programs(tmp_path, "env"))
    assert found["bash"]["status"] == "fail"
    assert "apt install bash" in found["bash"]["advice"]
    assert found["git"]["status"] == "warn"
    assert "apt install git" in found["git"]["advice"]


@pytest.mark.parametrize(
    ("said", "advice"), [("git version 2.1.4", "Install git 2.17"), ("hello", "Reinstall git")]
)
async def test_an_old_or_broken_git_is_reported(
    joey: Joey, tmp_path: Path, said: str, advice: str
) -> None:
    path = programs(tmp_path, "bash", "sh")
    (tmp_path / "programs/git").write_text(f"#!/bin/sh\necho {said}\n")
    (tmp_path / "programs/git").chmod(0o755)
    git = (await findings(joey, "--offline", PATH=path))["git"]
    assert git["status"] == "warn"
    assert advice in git["advice"]


async def test_a_browser_that_cannot_be_run_is_reported(joey: Joey) -> None:
    browser = (await findings(joey, "--offline", JOEY_CHROMIUM="/no/such/browser"))["Browser"]
    assert browser["status"] == "warn"
    assert "JOEY_CHROMIUM" in browser["advice"]


async def test_on_a_terminal_progress_is_shown_and_wiped_away(joey: Joey) -> None:
    async with terminal(joey, "doctor", "--offline", columns=80) as screen:
        await screen.until("checking: ")
        await screen.ended()
        lines = screen.lines
    assert not any("checking:" in line for line in lines)
    assert max(map(len, lines)) <= 80


async def test_a_proxy_that_is_badly_written_is_reported_without_its_password(joey: Joey) -> None:
    proxy = "http://me:canary/1122@proxy.example:8080"
    found = await findings(joey, OPENAI_API_KEY="k" * 20, HTTPS_PROXY=proxy)
    assert "The proxy (HTTPS_PROXY) is not an http://" in found["Connection"]["advice"]
    assert "canary" not in json.dumps(found)


async def test_a_file_in_place_of_the_tasks_is_reported(joey: Joey) -> None:
    joey.home.mkdir()
    (joey.home / "tasks").write_text("x", encoding="utf-8")
    found = (await findings(joey, "--offline"))["Home"]
    assert found["status"] == "fail"
    assert "tasks: Not a directory" in found["found"]


@pytest.mark.parametrize("gone", ["folder", "home"])
async def test_what_is_not_there_is_no_defect(joey: Joey, gone: str) -> None:
    if gone == "home":
        joey.home.write_text("x", encoding="utf-8")
    doctor = f"{sys.executable} -m joey doctor --offline --json"
    leaving = "" if gone == "home" else "mkdir x && cd x && rmdir ../x &&"
    process = await asyncio.create_subprocess_shell(
        f"{leaving} {doctor}", cwd=joey.workspace, env=joey.env, stdout=asyncio.subprocess.PIPE
    )
    reported = json.loads((await process.communicate())[0])["findings"]
    assert not [each for each in reported if "defect" in each.get("advice", "")]
    failed = {
        each["name"]: each["found"] for each in reported if each["status"] in ("warn", "fail")
    }
    if gone == "home":
        assert "Not a directory" in failed["Home"]
    else:
        assert "the current folder no longer exists" in failed["This folder"]
