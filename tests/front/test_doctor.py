from __future__ import annotations

import socket

import pytest

from joey.cli import probes
from joey.cli.probes import Status, probe_disk, probe_local_servers
from tests.front.binary import Joey


async def test_a_usable_place_passes(joey: Joey) -> None:
    env = {**joey.env, "ANTHROPIC_API_KEY": "secret-value"}
    done = await joey.run("doctor", env=env)
    assert done.code == 0
    assert "ANTHROPIC_API_KEY" in done.out
    assert "secret-value" not in done.out + done.err
    assert str(joey.home) in done.out
    for name in ("Python", "bash", "ripgrep", "git", "Disk", "Model"):
        assert name in done.out


async def test_without_a_model_it_fails_and_says_what_to_do(joey: Joey) -> None:
    done = await joey.run("doctor", "--json")
    assert done.code == 1
    assert done.json["ok"] is False
    findings = {finding["name"]: finding for finding in done.json["findings"]}
    assert findings["Model"]["status"] == "fail"
    assert "joey demo" in findings["Model"]["advice"]
    assert findings["Python"]["status"] == "ok"
    assert all(f["advice"] for f in findings.values() if f["status"] != "ok")


@pytest.mark.parametrize("name", ["settings.json", "profiles.json"])
async def test_a_broken_file_is_named(joey: Joey, name: str) -> None:
    joey.home.mkdir()
    (joey.home / name).write_text("{", encoding="utf-8")
    done = await joey.run("doctor", env={**joey.env, "ANTHROPIC_API_KEY": "k"})
    assert done.code == 1
    assert f"{name}, line 1" in done.out


async def test_a_home_that_cannot_be_written_fails(joey: Joey) -> None:
    env = {**joey.env, "JOEY_HOME": "/proc/joey", "ANTHROPIC_API_KEY": "k"}
    done = await joey.run("doctor", "--json", env=env)
    assert done.code == 1
    home = next(f for f in done.json["findings"] if f["name"] == "Home")
    assert home["status"] == "fail"
    assert "JOEY_HOME" in home["advice"]


@pytest.mark.requirement("config:local-model")
def test_a_model_server_that_listens_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        monkeypatch.setattr(probes, "LOCAL_SERVERS", (("mine", port), ("other", 1)))
        finding = probe_local_servers()
    assert finding.found == f"mine (port {port})"
    assert "--provider mine" in finding.advice


def test_too_little_room_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "ENOUGH_DISK", 1 << 62)
    assert probe_disk().status is Status.WARN
    monkeypatch.setattr(probes, "LITTLE_DISK", 1 << 62)
    assert probe_disk().status is Status.FAIL
