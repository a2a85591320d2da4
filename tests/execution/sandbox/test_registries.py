"""Registries that this machine is configured with, asked from the programs themselves."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from joey.core.permissions.network import RegistryFamily, RegistryHost
from joey.execution.registries import RegistryFinder
from joey.system import subprocess

needs_npm = pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")


def _build_env(home: Path, **more: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(home), **more}


async def _find(workspace: Path, env: dict[str, str], *writable: Path) -> set[RegistryHost]:
    return set(await RegistryFinder(workspace, env, writable).find_hosts())


def _write_program(path: Path, output: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\ntouch {path}.was-run\necho '{output}'\n")
    path.chmod(0o755)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    found = tmp_path / "workspace"
    found.mkdir()
    return found


@needs_npm
async def test_the_registry_that_npm_uses_is_found_and_that_of_a_workspace_is_not(
    tmp_path: Path, workspace: Path
) -> None:
    (tmp_path / ".npmrc").write_text("registry=http://127.0.0.1:4873/\n")
    (workspace / ".npmrc").write_text("registry=https://evil.example/\n")
    found = await _find(workspace, _build_env(tmp_path))
    assert RegistryHost("127.0.0.1:4873", RegistryFamily.NPM) in found
    assert "evil.example" not in {each.host for each in found}


async def test_variables_name_registries_without_their_passwords(
    tmp_path: Path, workspace: Path
) -> None:
    env = {
        "PATH": "/nowhere",
        "PIP_INDEX_URL": "https://user:secret@Packages.Example:8443/simple",
        "PIP_EXTRA_INDEX_URL": "https://one.example/x https://two.example/y",
        "UV_DEFAULT_INDEX": "internal=https://three.example/simple",
        "GOPROXY": "https://go.example,direct",
        "CARGO_REGISTRIES_OWN_INDEX": "sparse+https://crates.example/index/",
        "npm_config_registry": "http://verdaccio:4873/",
        "OTHER_URL": "https://evil.example/",
    }
    assert {(each.host, each.family) for each in await _find(workspace, env)} == {
        ("packages.example:8443", RegistryFamily.PIP),
        ("one.example", RegistryFamily.PIP),
        ("two.example", RegistryFamily.PIP),
        ("three.example", RegistryFamily.PIP),
        ("go.example", RegistryFamily.GO),
        ("crates.example", RegistryFamily.CARGO),
    }


async def test_git_remotes_of_the_workspace_are_found_as_git_rewrites_them(
    tmp_path: Path, workspace: Path
) -> None:
    env = _build_env(tmp_path)
    (tmp_path / ".gitconfig").write_text(
        '[url "https://mirror.example/"]\n\tinsteadOf = https://origin.example/\n'
    )
    script = """
        git init -q
        git remote add origin https://token@origin.example/one.git
        git remote add mirrored https://origin.example/two.git
        git remote add by-ssh git@ssh.example:three.git
    """
    await subprocess.run(("/bin/sh", "-ec", script), cwd=workspace, env=env)
    found = await _find(workspace, env)
    git = {each.host for each in found if each.family is RegistryFamily.GIT}
    assert git == {"origin.example", "mirror.example"}


@pytest.mark.parametrize("place", ["workspace/bin", "linked", "added", "."])
async def test_a_program_that_commands_could_have_written_is_not_run(
    tmp_path: Path, workspace: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`PATH` may name a directory of the workspace, such as that of a virtual environment."""
    (tmp_path / "linked").symlink_to(workspace / "bin")
    where = {"linked": "workspace/bin", ".": "workspace"}.get(place, place)
    program = tmp_path / where / "npm"
    _write_program(program, "https://evil.example/")
    monkeypatch.chdir(workspace)
    entry = place if place == "." else str(tmp_path / place)
    env = {"PATH": f"{entry}:/usr/bin:/bin", "HOME": str(tmp_path)}
    found = await _find(workspace, env, tmp_path / "added")
    assert "evil.example" not in {each.host for each in found}
    assert not (tmp_path / where / "npm.was-run").exists()


async def test_a_link_to_a_program_in_the_workspace_is_not_run(
    tmp_path: Path, workspace: Path
) -> None:
    _write_program(workspace / "npm", "https://evil.example/")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "npm").symlink_to(workspace / "npm")
    assert not await _find(workspace, {"PATH": str(tmp_path / "bin")})
    assert not (workspace / "npm.was-run").exists()


async def test_the_default_index_of_pip_is_found(tmp_path: Path, workspace: Path) -> None:
    (tmp_path / "pip.conf").write_text(
        "[global]\nindex-url = https://index.example/simple\n"
        "extra-index-url = https://extra.example/simple\n"
    )
    if not (python := shutil.which("python3")):
        pytest.skip("there is no python3")
    (tmp_path / "bin").mkdir()
    pip = tmp_path / "bin" / "pip"
    pip.write_text(f'#!/bin/sh\nexec {python} -m pip "$@"\n')
    pip.chmod(0o755)
    (tmp_path / ".config/pip").mkdir(parents=True)
    (tmp_path / "pip.conf").rename(tmp_path / ".config/pip/pip.conf")
    found = await _find(workspace, {"PATH": f"{pip.parent}:/usr/bin:/bin", "HOME": str(tmp_path)})
    pip_hosts = {each.host for each in found if each.family is RegistryFamily.PIP}
    assert pip_hosts == {"index.example", "extra.example"}
