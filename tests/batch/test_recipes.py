"""Recipes for workers on other systems: their files are valid, and their commands drive a batch."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from joey.cli.command_line import parse_command_line
from tests.harness.batch.fleet import Fleet, judge, open_fleet, steps
from tests.harness.paths import ROOT

RECIPES = ROOT / "examples" / "batch"


def load_job() -> dict[str, Any]:
    return dict(yaml.safe_load((RECIPES / "kubernetes-job.yaml").read_text()))


def read_service_command() -> str:
    found = re.search(r"^ExecStart=(.+)$", (RECIPES / "joey-worker.service").read_text(), re.M)
    assert found is not None
    return found[1]


async def start(fleet: Fleet, *command: str, **variables: str) -> asyncio.subprocess.Process:
    programs = Path(sys.executable).parent
    env = {**fleet.env, "JOEY_BATCH_STORE": str(fleet.out), **variables}
    env["PATH"] = f"{programs}{os.pathsep}{env['PATH']}"
    return await asyncio.create_subprocess_exec(
        *command, env=env, stdin=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
    )


async def test_the_commands_of_all_recipes_drive_one_batch(tmp_path: Path) -> None:
    async with open_fleet(tmp_path, steps(2, pause_s=0.2)) as fleet:
        settings = {"autoApprovalEnabled": True, "alwaysAllowExecute": True}
        fleet.home.mkdir(parents=True, exist_ok=True)
        (fleet.home / "settings.json").write_text(
            json.dumps({**settings, "allowedCommands": ["*"]})
        )
        await fleet.batch(fleet.write_plain_items(8), "--no-wait", "--width", "1")
        (container,) = load_job()["spec"]["template"]["spec"]["containers"]
        store = str(fleet.out)
        job = [word.replace("$(JOEY_BATCH_STORE)", store) for word in container["command"]]
        service = shlex.split(read_service_command().replace("${JOEY_BATCH_STORE}", store))
        array = ["bash", str(RECIPES / "slurm-array.sh")]
        keeping = await start(fleet, *service)
        ending = [
            await start(fleet, *job),
            *[await start(fleet, *array, SLURM_ARRAY_TASK_ID=n) for n in "12"],
        ]
        for process in ending:
            _, err = await process.communicate()
            assert process.returncode == 0, err.decode()
        keeping.terminate()
        await keeping.communicate()
        assert keeping.returncode == 143
        assert judge(fleet, 8, 2, interrupted=0) == []


async def test_a_slurm_job_that_is_ended_hands_its_items_over(tmp_path: Path) -> None:
    async with open_fleet(tmp_path, steps(3, pause_s=0.5)) as fleet:
        await fleet.batch(fleet.write_plain_items(1), "--no-wait")
        array = ("bash", str(RECIPES / "slurm-array.sh"))
        first = await start(fleet, *array)
        await fleet.until(lambda: len(fleet.server.requests) >= 2)
        first.terminate()
        await first.communicate()
        assert first.returncode == 143
        second = await start(fleet, *array)
        await second.communicate()
        assert second.returncode == 0
        assert judge(fleet, 1, 3, interrupted=1) == []


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_the_unit_is_valid(tmp_path: Path) -> None:
    unit = shutil.copy(RECIPES / "joey-worker.service", tmp_path)
    ended = subprocess.run(
        ["systemd-analyze", "verify", "--user", unit],
        capture_output=True, text=True, check=False,
        env=os.environ | {"XDG_RUNTIME_DIR": str(tmp_path)},
    )  # fmt: skip
    assert "joey-worker.service" not in ended.stderr, ended.stderr


def test_the_job_fits_the_schema() -> None:
    schema = json.loads((Path(__file__).parent / "job_schema.json").read_text())
    jsonschema.validate(load_job(), schema)
    broken = load_job()
    broken["spec"]["template"]["spec"]["restartPolicy"] = "Always"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(broken, schema)


def test_the_services_of_the_compose_file_refer_to_each_other() -> None:
    document = yaml.safe_load((RECIPES / "compose.yaml").read_text())
    services = document["services"]
    for service in services.values():
        assert set(service.get("depends_on", {})) <= set(services)
        named = [each.split(":")[0] for each in service.get("volumes", ())]
        assert set(named) <= set(document["volumes"])
    assert "healthcheck" in services["postgres"]
    arguments = parse_command_line([str(word) for word in services["worker"]["command"]])
    assert arguments.may == "all"


def test_the_ray_recipe_is_a_program() -> None:
    source = RECIPES / "ray_workers.py"
    compile(source.read_text(), str(source), "exec")


def test_the_documents_list_each_recipe() -> None:
    text = (ROOT / "docs" / "batch.md").read_text()
    recipes = [each.name for each in RECIPES.iterdir() if each.suffix != ".jsonl"]
    assert [name for name in recipes if f"batch/{name}" not in text] == []
