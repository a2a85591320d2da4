from __future__ import annotations

import asyncio
import shutil
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from joey.errors import WorkspaceError
from joey.workspace.environment import LocalEnvironment, format_time_zone
from joey.workspace.files import LocalFiles
from joey.workspace.search import LocalSearch


def environment(root: Path) -> LocalEnvironment:
    files = LocalFiles(root)
    return LocalEnvironment(files, LocalSearch(files))


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    root = tmp_path.resolve() / "engine"
    (root / "src").mkdir(parents=True)
    (root / "src" / "app.py").write_text("x = 1\n", encoding="utf-8")
    (root / "README.md").write_text("# Engine\n", encoding="utf-8")
    return root


def test_facts_name_the_machine_and_the_directory(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/ada")

    facts = environment(workspace).get_system_info()

    assert set(facts) == {"os", "shell", "home", "workspace"}
    assert facts["home"] == "/home/ada"
    assert facts["workspace"] == str(workspace)
    assert facts["shell"] == "bash"
    assert facts["os"]


def test_facts_do_not_change_while_a_task_runs(workspace: Path) -> None:
    here = environment(workspace)

    assert here.get_system_info() == here.get_system_info()


async def test_the_workspace_is_listed_with_everything_below(workspace: Path) -> None:
    listing = await environment(workspace).list_workspace(200)

    assert set(listing.entries) >= {"README.md", "src/app.py"}
    assert not listing.truncated


async def test_a_listing_that_is_expected_is_made_once_and_then_anew(workspace: Path) -> None:
    here = environment(workspace)
    here.prewarm_listing(200)
    expected = await here.list_workspace(200)
    (workspace / "later.py").touch()
    assert "README.md" in expected.entries
    assert "later.py" in (await here.list_workspace(200)).entries


async def test_a_listing_of_another_length_is_not_the_expected_one(workspace: Path) -> None:
    here = environment(workspace)
    here.prewarm_listing(1)
    assert len((await here.list_workspace(200)).entries) > 1
    await here.close()


async def test_a_listing_that_nobody_asks_for_ends_with_the_task(workspace: Path) -> None:
    here = environment(workspace)
    before = asyncio.all_tasks()
    here.prewarm_listing(200)
    await asyncio.sleep(0)
    await here.close()
    assert asyncio.all_tasks() == before


async def test_an_expected_listing_fails_when_it_is_asked_for(workspace: Path) -> None:
    here = environment(workspace)
    shutil.rmtree(workspace)
    here.prewarm_listing(200)
    with pytest.raises(WorkspaceError):
        await here.list_workspace(200)


async def test_a_long_listing_is_cut_and_says_so(workspace: Path) -> None:
    listing = await environment(workspace).list_workspace(1)

    assert len(listing.entries) == 1
    assert listing.truncated


async def test_a_limit_of_zero_lists_nothing(workspace: Path) -> None:
    assert (await environment(workspace).list_workspace(0)).entries == ()


async def test_a_home_directory_is_listed_without_what_lies_below(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(workspace))

    listing = await environment(workspace).list_workspace(200)

    assert set(listing.entries) == {"README.md", "src/"}
    assert listing.truncated


async def test_a_workspace_that_is_gone_is_an_error_for_the_user(workspace: Path) -> None:
    here = environment(workspace)
    shutil.rmtree(workspace)

    with pytest.raises(WorkspaceError, match="cannot list the workspace"):
        await here.list_workspace(200)


@pytest.mark.parametrize(
    ("minutes", "text"),
    [
        (0, "UTC+0:00"),
        (120, "UTC+2:00"),
        (-210, "UTC-3:30"),
        (345, "UTC+5:45"),
    ],
)
def test_the_zone_is_shown_with_its_offset(
    minutes: int, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    now = datetime(2026, 1, 6, tzinfo=timezone(timedelta(minutes=minutes)))

    assert format_time_zone(now) == f"Europe/Berlin, {text}"


def test_a_zone_without_a_name_still_has_its_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TZ", raising=False)

    assert format_time_zone(datetime(2026, 1, 6, tzinfo=UTC)).endswith(", UTC+0:00")


def test_the_zone_of_this_machine_is_known(workspace: Path) -> None:
    name, _, offset = environment(workspace).get_time_zone().partition(", ")

    assert name
    assert offset.startswith(("UTC+", "UTC-"))
