"""What programs may import from `joey`: a decision, not an accident."""

from __future__ import annotations

import subprocess
import sys

import joey

DECIDED = {
    "__version__",
    # Opening and running
    *("open_engine", "make_options", "Engine", "Task", "TaskOptions", "Unattended"),
    # Settings
    *("Settings", "Limits", "Profile"),
    # Listening and answering
    *("Event", "Answer", "AskKind", "Response"),
    # Endings
    *("Ending", "Completed", "Failed", "Aborted"),
    # Errors
    *("JoeyError", "UserError", "ConfigError", "ProviderError", "StoreError"),
}


def test_the_public_names_are_those_decided_on() -> None:
    assert set(joey.__all__) == DECIDED
    assert list(joey.__all__) == sorted(joey.__all__)


def test_every_public_name_can_be_used() -> None:
    for name in joey.__all__:
        assert getattr(joey, name) is not None


def test_a_name_that_is_not_public_is_an_attribute_error() -> None:
    assert not hasattr(joey, "Manager")


def test_importing_joey_imports_none_of_its_parts() -> None:
    program = "import sys, joey; print([m for m in sys.modules if m.startswith('joey.')])"
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "[]"
