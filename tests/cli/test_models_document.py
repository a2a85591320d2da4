from __future__ import annotations

from msgspec.structs import fields

from joey.core.settings import Profile
from joey.providers.catalog import PROVIDER_SPECS
from tests.harness.paths import ROOT

TEXT = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")


def test_every_provider_is_documented_with_its_keys_and_its_usual_model() -> None:
    rows = {line.split("`")[1]: line for line in TEXT.splitlines() if line.startswith("| `")}
    for kind in PROVIDER_SPECS:
        row = rows[kind.name]
        assert all(f"`{variable}`" in row for variable in kind.key_variables)
        assert f"`{kind.default_model}`" in row or not kind.default_model
        assert kind.base_url_variable is None or f"`{kind.base_url_variable}`" in TEXT


def test_every_key_of_a_profile_is_documented() -> None:
    names = {field.encode_name for field in fields(Profile)} - {"name"}
    assert {name for name in names if f"`{name}`" not in TEXT} == set()
