"""Images from a model that is a real server on loopback."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from joey.core.settings import Profile
from joey.errors import IgnoredPathError, ToolError
from joey.ports.tool_context import Capabilities, ToolContext
from joey.providers.http_client import HttpClient
from joey.providers.image_generation import ProfileImageGenerator
from joey.tools.base import Access, Outcome
from joey.tools.generate_image import GenerateImage
from tests.harness.tools.image_server import (
    PNG,
    URI,
    ImageServer,
    image_server,
    make_image_answer,
)
from tests.harness.tools.tool_context import make_context
from tests.harness.tools.xml_calls import only_call

__all__ = ["image_server"]


async def make(root: Path, url: str, **arguments: Any) -> tuple[Outcome, ToolContext]:
    http = HttpClient()
    profile = Profile(name="art", provider="openrouter", model="paint-1", base_url=url, api_key="k")
    ctx = make_context(
        root, capabilities=Capabilities(image_generator=ProfileImageGenerator(profile, http))
    )
    tool = GenerateImage()
    prepared = await tool.prepare(tool.parse(arguments), ctx)
    try:
        return await tool.run_prepared(prepared, ctx, None), ctx
    finally:
        await http.close()


@pytest.mark.contract("tool:generate_image:success")
async def test_an_image_is_made_and_written(
    tmp_path: Path, image_server: tuple[type[ImageServer], str]
) -> None:
    server, url = image_server
    server.answer = make_image_answer(URI)
    outcome, _ = await make(tmp_path, url, prompt="a kangaroo", path="art/roo")
    assert outcome.text == "The picture is in art/roo.png."
    assert outcome.rows == (("image", URI),)
    assert (tmp_path / "work/art/roo.png").read_bytes() == PNG
    path, body = server.request_bodies[0]
    assert path == "/v1/chat/completions"
    assert body["model"] == "paint-1"
    assert body["modalities"] == ["image", "text"]


async def test_an_image_can_be_made_from_another_one(
    tmp_path: Path, image_server: tuple[type[ImageServer], str]
) -> None:
    server, url = image_server
    server.answer = make_image_answer(URI)
    (tmp_path / "work").mkdir()
    (tmp_path / "work/old.png").write_bytes(PNG)
    await make(tmp_path, url, prompt="brighter", path="new.png", image="old.png")
    assert server.request_bodies[0][1]["messages"][0]["content"][1]["image_url"]["url"] == URI


@pytest.mark.contract("tool:generate_image:failure:refused")
@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ((200, {"choices": [{"message": {"content": "I can't draw that"}}]}), "can't draw that"),
        ((200, {"choices": []}), "has none"),
        ((200, {"error": {"message": "out of paint"}}), "out of paint"),
        ((200, b"<html>"), "not JSON"),
        ((429, {"error": {"message": "slow down"}}), "No image was generated"),
        (make_image_answer("https://example.org/x.png"), "not a PNG, JPEG or WebP"),
        (make_image_answer("data:image/png;base64,%%%"), "damaged"),
    ],
)
async def test_a_service_that_gives_no_image_is_reported_with_its_reason(
    tmp_path: Path,
    image_server: tuple[type[ImageServer], str],
    answer: tuple[int, Any],
    expected: str,
) -> None:
    server, url = image_server
    server.answer = answer
    with pytest.raises(ToolError, match=expected):
        await make(tmp_path, url, prompt="a kangaroo", path="roo.png")
    assert not (tmp_path / "work/roo.png").exists()


@pytest.mark.contract("tool:generate_image:approval")
async def test_the_row_and_the_claims_name_both_files(tmp_path: Path) -> None:
    profile = Profile(provider="openrouter", model="paint-1")
    ctx = make_context(
        tmp_path,
        capabilities=Capabilities(image_generator=ProfileImageGenerator(profile, HttpClient())),
    )
    tool = GenerateImage()
    given = {"prompt": "a roo", "path": "../out.png", "image": "in.png"}
    prepared = await tool.prepare(tool.parse(given), ctx)
    assert [claim.access for claim in prepared.claims] == [Access.WRITE, Access.READ]
    assert prepared.row["tool"] == "generateImage"
    assert prepared.row["isOutsideWorkspace"] is True
    assert prepared.row["inputImage"] == "in.png"


async def test_hidden_files_are_neither_written_nor_started_from(tmp_path: Path) -> None:
    profile = Profile(provider="openrouter", model="paint-1")
    ctx = make_context(
        tmp_path,
        capabilities=Capabilities(image_generator=ProfileImageGenerator(profile, HttpClient())),
    )
    (tmp_path / "work/.rooignore").write_text("secret*\n")
    tool = GenerateImage()
    for given in ({"path": "secret.png"}, {"path": "a.png", "image": "secret.png"}):
        with pytest.raises(IgnoredPathError):
            await tool.prepare(tool.parse({"prompt": "x", **given}), ctx)


async def test_without_a_model_for_images_it_says_which_setting_is_missing(
    tmp_path: Path,
) -> None:
    tool = GenerateImage()
    with pytest.raises(ToolError, match="imageProfile"):
        await tool.prepare(tool.parse({"prompt": "x", "path": "a.png"}), make_context(tmp_path))


@pytest.mark.contract("tool:generate_image:xml")
def test_it_is_understood_in_xml_too() -> None:
    call = only_call("<generate_image><prompt>a < b</prompt><path>a.png</path></generate_image>")
    assert GenerateImage().parse(call.input).prompt == "a < b"
