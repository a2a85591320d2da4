from __future__ import annotations

import pytest

from joey.core.redaction import remove_secrets


@pytest.mark.parametrize(
    "name",
    ["apiKey", "openAiApiKey", "awsSecretKey", "githubToken", "vertexCredentials", "clientSecret"],
)
def test_secrets_are_left_out_at_any_depth(name: str) -> None:
    assert remove_secrets({name: "x", "a": [{name: "x", "b": 1}]}) == {"a": [{"b": 1}]}


def test_what_only_looks_like_a_secret_stays() -> None:
    value = {"maxTokens": 5, "keyboard": "de", "modelMaxTokens": 3, "model": "m"}
    assert remove_secrets(value) == value


def test_headers_keep_their_names_and_addresses_lose_their_passwords() -> None:
    value = {"openAiHeaders": {"X-A": "s"}, "baseUrl": "https://me:word@host/v1"}
    assert remove_secrets(value) == {"openAiHeaders": ["X-A"], "baseUrl": "https://host/v1"}
