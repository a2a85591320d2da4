"""docs/settings.md lists every key as the code defines it. After a change that is meant,
`JOEY_RENEW=1 python -m pytest tests/test_settings_document.py` writes the tables anew."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pytest

from joey.config.config_keys import ConfigKey, describe_profile_keys, describe_setting_keys
from joey.config.roo_settings import UNUSED_KEYS
from tests.harness.document_tables import hold
from tests.harness.paths import ROOT

DOCUMENT = ROOT / "docs" / "settings.md"
THIS = "tests/test_settings_document.py"


def shown(value: object) -> str:
    if value in (None, ""):
        return ""
    return f"`{value if isinstance(value, str) else json.dumps(value)}`"


def kind(key: ConfigKey) -> str:
    """Choices are words to be written, kinds are not."""
    parts = key.type_description.split(" or ")
    return " or ".join(f"`{each}`" if each in key.choices else each for each in parts)


def table(keys: Iterable[ConfigKey], *, with_project: bool) -> str:
    project = " a project |" if with_project else ""
    lines = [f"| key | may be | default | what it means |{project}"]
    lines.append("|---|---|---|---|" + ("---|" if with_project else ""))
    for key in keys:
        about = key.description.replace("|", "\\|")
        last = f" {key.project_permission} |" if with_project else ""
        lines.append(f"| `{key.name}` | {kind(key)} | {shown(key.default)} | {about} |{last}")
    return "\n".join(lines) + "\n"


def unused_table() -> str:
    reasons: dict[str, list[str]] = {}
    for key, reason in UNUSED_KEYS.items():
        reasons.setdefault(reason, []).append(f"`{key}`")
    rows = [f"| {', '.join(keys)} | {reason} |" for reason, keys in reasons.items()]
    return "\n".join(["| keys | why |", "|---|---|", *rows]) + "\n"


@pytest.mark.parametrize(
    ("mark", "made"),
    [
        ("", table(describe_setting_keys().values(), with_project=True)),
        (" profiles", table(describe_profile_keys().values(), with_project=False)),
        (" unused", unused_table()),
    ],
    ids=["settings", "profiles", "unused"],
)
def test_the_document_lists_every_key_as_it_is(mark: str, made: str) -> None:
    begin, end = (f"<!-- {word}{mark}: made by {THIS} -->\n" for word in ("begin", "end"))
    hold(DOCUMENT, begin, end, made, THIS)
