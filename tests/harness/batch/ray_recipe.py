"""The Ray recipe on a real Ray (`make ray`): workers start, and drive a batch to its end.

Ray is installed into an environment of its own in `.cache`, since it is large and pins much.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.batch.fleet import judge, open_fleet, steps
from tests.harness.paths import ROOT

ENVIRONMENT = ROOT / ".cache" / "ray"
RAY = "ray==2.60.*"


def install_ray() -> Path:
    programs = ENVIRONMENT / "bin"
    if not (programs / "ray").exists():
        subprocess.run([sys.executable, "-m", "venv", str(ENVIRONMENT)], check=True)
        pip = [str(programs / "python"), "-m", "pip", "install", "--quiet", RAY]
        subprocess.run(pip, check=True)
    return programs


def find_free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.fixture
def ray_directory() -> Iterator[str]:
    """A short path, since Ray has sockets there."""
    with tempfile.TemporaryDirectory(
        prefix="joey-ray-", dir="/tmp", ignore_cleanup_errors=True
    ) as directory:
        yield directory


@pytest.mark.timeout(900)
async def test_ray_starts_workers_that_drive_a_batch(tmp_path: Path, ray_directory: str) -> None:
    programs = install_ray()
    port = find_free_port()
    env = os.environ | {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ADDRESS": f"127.0.0.1:{port}"}
    head = [
        *(str(programs / "ray"), "start", "--head", "--node-ip-address", "127.0.0.1"),
        *("--port", str(port), "--include-dashboard=false", "--num-cpus", "4"),
        *("--object-store-memory", "100000000", "--temp-dir", ray_directory),
    ]
    async with open_fleet(tmp_path, steps(2)) as fleet:
        await fleet.batch(fleet.write_plain_items(6), "--no-wait")
        variables = {"JOEY_BATCH_STORE": str(fleet.out), "ANTHROPIC_BASE_URL": fleet.server.url}
        starting = await fleet.start_program(*head, env=env | fleet.env | variables)
        out, err = await starting.communicate()
        assert starting.returncode == 0, (out + err).decode()
        try:
            recipe = ROOT / "examples" / "batch" / "ray_workers.py"
            joey = Path(sys.executable).parent / "joey"
            process = await fleet.start_program(
                str(programs / "python"), str(recipe), "--workers", "2", "--joey", str(joey),
                env=env | fleet.env | variables,
            )  # fmt: skip
            out, err = await process.communicate()
            assert process.returncode == 0, (out + err).decode()
            assert judge(fleet, 6, 2, interrupted=0) == []
        finally:
            stopping = await fleet.start_program(str(programs / "ray"), "stop", "--force", env=env)
            await stopping.communicate()
