from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from scripts.llamacpp import LOCK, install, is_installed


@pytest.fixture(autouse=True)
def unreachable_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS"):
        monkeypatch.delenv(name, raising=False)


def test_an_unreachable_index_is_an_error(tmp_path: Path) -> None:
    assert "the package index cannot be reached" in install(tmp_path / "llamacpp")
    assert not is_installed(tmp_path / "llamacpp")


def test_it_is_installed_once(tmp_path: Path) -> None:
    shutil.copy(LOCK, tmp_path)
    assert install(tmp_path) == ""


def test_another_version_replaces_it(tmp_path: Path) -> None:
    (tmp_path / LOCK.name).write_text("xllamacpp==0.1\n")
    assert not is_installed(tmp_path)
