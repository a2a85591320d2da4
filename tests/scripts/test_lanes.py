from __future__ import annotations

from importlib.util import find_spec

import pytest
from scripts.lanes import LANES, Step, main

from tests.harness.paths import ROOT

STEPS = [step for steps in LANES.values() for step in steps]


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_a_step_runs_what_exists(step: Step) -> None:
    assert find_spec(step.module[0]) is not None
    assert [name for name in step.module if name.startswith("tests/")] == [
        name for name in step.module if (ROOT / name).is_file() and name.endswith(".py")
    ]
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py")]
    for variable in step.env:
        assert any(f'environ.get("{variable}"' in source for source in sources), variable


def test_a_step_that_fails_is_reported_and_the_others_run(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    steps = (Step("wrong", ("json.tool", "--nonsense")), Step("right", ("json.tool", "--help")))
    monkeypatch.setitem(LANES, "soak", steps)
    assert main(["soak"]) == 1
    title, wrong, right = capfd.readouterr().out.splitlines()[-3:]
    assert title.split() == ["what", "result", "time"]
    assert wrong.split()[:3] == ["wrong", "failed", "2"]
    assert right.split()[:2] == ["right", "ok"]


@pytest.mark.parametrize("lanes", [[], ["nonsense"]])
def test_an_unknown_lane_is_refused(lanes: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(lanes) == 2
    assert "test,corpus,soak,bench" in capsys.readouterr().err
