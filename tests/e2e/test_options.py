"""What flags and the past of a task decide about its next run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec import structs

from joey.app import make_options, open_engine
from joey.core.settings import Limits, ModelRoute, Profile, Settings
from joey.engine.asks import Unattended
from joey.engine.engine import ResolvedTaskOptions, TaskOptions
from joey.engine.outcomes import Completed
from joey.errors import ConfigError
from joey.testing.script import Turn, call
from joey.testing.server import ModelServer

ELSEWHERE = {"ANTHROPIC_API_KEY": "somebody-else"}


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


@pytest.mark.contract("resume:continues")
async def test_a_resumed_task_stays_with_its_model_and_its_address(
    tmp_path: Path, work: Path
) -> None:
    done = Turn(call("attempt_completion", {"result": "ok"}))
    home = tmp_path / "home"
    async with ModelServer([done, done]) as server:
        async with open_engine(home=home, env=ELSEWHERE) as engine:
            options = make_options(
                workspace=work,
                home=home,
                env=ELSEWHERE,
                provider="openai",
                base_url=f"{server.url}/v1",
                model="local",
                policy=Unattended(),
            )
            task = await engine.start("one", options=options)
            assert await task.wait() == Completed("ok")
        async with open_engine(home=home, env=ELSEWHERE) as engine:
            resumed = TaskOptions(policy=Unattended())
            again = await engine.resume(task.id, "two", options=resumed)
            assert await again.wait() == Completed("ok")
            (known,) = engine.history()
        models = [request.body["model"] for request in server.requests]
    assert models == ["local", "local"]
    assert (known.provider, known.model) == ("openai", "local")


@pytest.mark.parametrize("env", [{}, ELSEWHERE], ids=["no key", "another key"])
@pytest.mark.parametrize(
    "given",
    [TaskOptions(), TaskOptions(settings=Settings()), TaskOptions(workspace=Path())],
    ids=["profile", "profile and settings", "profile and workspace"],
)
async def test_a_profile_that_a_program_gives_is_the_one_that_the_task_remembers(
    tmp_path: Path,
    work: Path,
    monkeypatch: pytest.MonkeyPatch,
    env: dict[str, str],
    given: TaskOptions,
) -> None:
    monkeypatch.chdir(work)
    done = Turn(call("attempt_completion", {"result": "ok"}))
    async with ModelServer([done]) as server:
        address = f"{server.url}/v1"
        profile = Profile(provider="openai", model="local", base_url=address, api_key="own")
        options = structs.replace(given, profile=profile, policy=Unattended())
        async with open_engine(home=tmp_path / "home", env=env) as engine:
            task = await engine.start("one", options=options)
            assert await task.wait() == Completed("ok")
    assert task.runtime.workspace == work
    assert task.runtime.route == ModelRoute(
        provider="openai", base_url=address, model="local", has_own_key=True
    )


def test_flags_move_a_resumed_task_to_another_model(work: Path) -> None:
    earlier = ModelRoute(provider="openai", base_url="http://127.0.0.1:1/v1", model="local")
    options = make_options(
        workspace=work, env=ELSEWHERE, provider="anthropic", model="claude", earlier=earlier
    )
    assert (options.profile.provider, options.profile.base_url) == ("anthropic", None)


def test_a_budget_that_cannot_be_kept_is_refused(work: Path) -> None:
    with pytest.raises(ConfigError, match="price of 'any' is not known"):
        make_options(
            workspace=work,
            env={},
            provider="openai",
            base_url="http://127.0.0.1:1/v1",
            model="any",
            limits=Limits(max_cost=1.0),
        )


def test_writes_can_be_allowed_without_allowing_commands(work: Path) -> None:
    options = make_options(workspace=work, env=ELSEWHERE, allow_writes=True)
    assert options.settings.always_allow_write
    assert not options.settings.always_allow_execute
    assert not options.settings.always_allow_write_outside_workspace


def test_an_address_from_the_environment_may_change_between_two_runs(work: Path) -> None:
    env = ELSEWHERE | {"ANTHROPIC_BASE_URL": "http://127.0.0.1:1"}
    first = make_options(workspace=work, env=env)
    moved = ELSEWHERE | {"ANTHROPIC_BASE_URL": "http://127.0.0.1:2"}
    again = make_options(workspace=work, env=moved, earlier=first.route)
    assert again.profile.base_url == "http://127.0.0.1:2"


def profiles(home: Path, active: str = "work", **named: dict[str, str]) -> Path:
    home.mkdir(exist_ok=True)
    document = {"active": active, "profiles": named}
    (home / "profiles.json").write_text(json.dumps(document), encoding="utf-8")
    return home


WORK = {"provider": "anthropic", "model": "claude", "apiKey": "of-work"}
OTHER = {"provider": "openai", "model": "gpt", "apiKey": "of-other"}
LOCAL = "http://127.0.0.1:1/v1"


def reached(options: ResolvedTaskOptions) -> tuple[str, str | None, str, str | None]:
    chosen = options.profile
    return chosen.provider, chosen.base_url, chosen.model, chosen.api_key


def test_a_task_begun_at_an_address_stays_there_while_a_profile_is_active(
    tmp_path: Path, work: Path
) -> None:
    home = profiles(tmp_path / "home", work=WORK)
    first = make_options(workspace=work, home=home, env={}, base_url=LOCAL, model="local")
    again = make_options(
        workspace=work, home=home, env={}, earlier=first.route, secrets=first.secrets
    )
    assert reached(first) == reached(again) == ("openai", LOCAL, "local", None)


def test_a_task_begun_with_a_profile_at_another_address_keeps_both(
    tmp_path: Path, work: Path
) -> None:
    home = profiles(tmp_path / "home", "other", other=OTHER, work=WORK)
    first = make_options(workspace=work, home=home, env={}, base_url=LOCAL, profile="work")
    again = make_options(
        workspace=work, home=home, env={}, earlier=first.route, secrets=first.secrets
    )
    assert reached(first) == reached(again) == ("anthropic", LOCAL, "claude", "of-work")


def test_an_address_whose_profile_is_gone_does_not_get_the_key_of_another(
    tmp_path: Path, work: Path
) -> None:
    home = profiles(tmp_path / "home", work=OTHER)
    first = make_options(workspace=work, home=home, env={}, base_url=LOCAL, profile="work")
    profiles(home, "other", other=OTHER)
    again = make_options(
        workspace=work, home=home, env={}, earlier=first.route, secrets=first.secrets
    )
    assert reached(again) == ("openai", LOCAL, "gpt", None)


def test_an_address_of_its_own_is_not_taken_for_a_profile_that_is_called_default(
    tmp_path: Path, work: Path
) -> None:
    home = profiles(tmp_path / "home", "default", default=OTHER)
    first = make_options(workspace=work, home=home, env={}, base_url=LOCAL, model="local")
    again = make_options(
        workspace=work, home=home, env={}, earlier=first.route, secrets=first.secrets
    )
    assert reached(first) == reached(again) == ("openai", LOCAL, "local", None)


def test_another_model_at_the_address_of_before(tmp_path: Path, work: Path) -> None:
    home = profiles(tmp_path / "home", work=WORK)
    first = make_options(workspace=work, home=home, env={}, base_url=LOCAL, model="local")
    again = make_options(
        workspace=work,
        home=home,
        env={},
        model="larger",
        earlier=first.route,
        secrets=first.secrets,
    )
    assert reached(again) == ("openai", LOCAL, "larger", None)
