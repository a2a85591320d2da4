"""Workspaces that the user trusts."""

from __future__ import annotations

import json
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from joey.config.trust import Trusted, TrustStore, Untrusted
from joey.errors import ConfigError

WANTED = {"mcp:a": b"one", "mcp:b": b"two"}


@pytest.mark.contract("trust:bytes")
def test_nothing_is_trusted_before_it_is_granted(tmp_path: Path) -> None:
    assert TrustStore(tmp_path).check(tmp_path, WANTED) == Untrusted(new_names=("mcp:a", "mcp:b"))
    assert TrustStore(tmp_path).check(tmp_path, {}) == Trusted()


@pytest.mark.contract("trust:bytes")
def test_trust_holds_for_the_same_bytes_and_no_others(tmp_path: Path) -> None:
    trust = TrustStore(tmp_path)
    trust.grant(tmp_path, WANTED)
    assert trust.check(tmp_path, WANTED) == Trusted()
    assert trust.check(tmp_path, {"mcp:a": b"one"}) == Trusted()
    other = {"mcp:a": b"one ", "mcp:b": b"two", "mcp:c": b"one"}
    assert trust.check(tmp_path, other) == Untrusted(new_names=("mcp:c",), changed_names=("mcp:a",))


@given(st.dictionaries(st.text(max_size=6), st.binary(max_size=6), min_size=1), st.data())
@settings(max_examples=50)
def test_any_other_byte_anywhere_is_not_trusted(
    tmp_path_factory: pytest.TempPathFactory, wanted: dict[str, bytes], data: st.DataObject
) -> None:
    home = tmp_path_factory.mktemp("home")
    trust = TrustStore(home)
    trust.grant(home, wanted)
    name = data.draw(st.sampled_from(sorted(wanted)))
    content = data.draw(st.binary(max_size=6).filter(lambda found: found != wanted[name]))
    assert trust.check(home, {**wanted, name: content}) == Untrusted(changed_names=(name,))


@pytest.mark.contract("trust:bytes")
def test_trust_belongs_to_the_real_path_of_the_directory(tmp_path: Path) -> None:
    real, other = tmp_path / "real", tmp_path / "other"
    real.mkdir()
    other.mkdir()
    (tmp_path / "link").symlink_to(real)
    trust = TrustStore(tmp_path)
    trust.grant(tmp_path / "link", WANTED)
    assert trust.check(real, WANTED) == Trusted()
    assert isinstance(trust.check(other, WANTED), Untrusted)
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to(other)
    assert isinstance(trust.check(tmp_path / "link", WANTED), Untrusted)


def test_a_new_grant_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    trust = TrustStore(tmp_path)
    trust.grant(tmp_path, WANTED)
    trust.grant(tmp_path, {"mcp:a": b"new"})
    assert trust.check(tmp_path, WANTED) == Untrusted(
        new_names=("mcp:b",), changed_names=("mcp:a",)
    )


@pytest.mark.contract("trust:bytes")
def test_trust_can_be_taken_back_without_touching_other_directories(tmp_path: Path) -> None:
    trust, other = TrustStore(tmp_path), tmp_path / "other"
    other.mkdir()
    trust.grant(tmp_path, WANTED)
    trust.grant(other, WANTED)
    assert trust.revoke(tmp_path)
    assert not trust.revoke(tmp_path)
    assert isinstance(trust.check(tmp_path, WANTED), Untrusted)
    assert trust.check(other, WANTED) == Trusted()


@pytest.mark.contract("trust:bytes")
def test_the_file_is_private_and_holds_no_content(tmp_path: Path) -> None:
    TrustStore(tmp_path).grant(tmp_path, {"mcp:a": b"password"})
    file = tmp_path / "trust.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "password" not in file.read_text()
    assert list(json.loads(file.read_text())["workspaces"]) == [str(tmp_path.resolve())]


@pytest.mark.contract("trust:bytes")
@pytest.mark.parametrize("text", ["{", "[]", '{"workspaces": {"x": {"y": 3}}}'])
def test_a_file_that_cannot_be_understood_is_an_error_and_no_trust(
    tmp_path: Path, text: str
) -> None:
    (tmp_path / "trust.json").write_text(text)
    with pytest.raises(ConfigError, match=r"trust\.json"):
        TrustStore(tmp_path).check(tmp_path, WANTED)


def test_workspaces_that_are_trusted_at_once_are_all_trusted(
    tmp_path: Path, eager_threads: None
) -> None:
    directories, together = [tmp_path / str(number) for number in range(8)], Barrier(8)

    def grant(directory: Path) -> None:
        together.wait()
        TrustStore(tmp_path).grant(directory, WANTED)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(grant, directories))
    assert {TrustStore(tmp_path).check(directory, WANTED) for directory in directories} == {
        Trusted()
    }


def test_trust_that_is_taken_back_stays_so_whoever_else_is_trusted_at_once(
    tmp_path: Path, eager_threads: None
) -> None:
    directories, together = [tmp_path / str(number) for number in range(8)], Barrier(8)
    for directory in directories:
        TrustStore(tmp_path).grant(directory, WANTED)

    def revoke(directory: Path) -> None:
        together.wait()
        TrustStore(tmp_path).revoke(directory)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(revoke, directories))
    assert Trusted() not in {
        TrustStore(tmp_path).check(directory, WANTED) for directory in directories
    }
