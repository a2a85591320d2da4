"""What the page asks before it deletes, says about links, keeps of images, and forbids itself."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from joey.testing.script import Turn, call, say
from tests.harness.server.browsing import (
    DESKTOP,
    PHONE,
    Browser,
    capture_view,
    expect,
    needs_browser,
    status,
    visit,
)

if TYPE_CHECKING:
    from playwright.async_api import FilePayload

pytestmark = [needs_browser, pytest.mark.asyncio(loop_scope="session")]

DONE = Turn(call("attempt_completion", {"result": "Done."}))
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


async def test_a_profile_and_its_key_are_deleted_only_after_a_second_answer(
    browser: Browser, tmp_path: Path
) -> None:
    home = tmp_path / "joey-home"
    home.mkdir()
    profiles = {"kept": {"provider": "anthropic", "apiKey": "k"}}
    (home / "profiles.json").write_text(
        json.dumps({"active": "kept", "profiles": profiles}), encoding="utf-8"
    )
    (home / "profiles.json").chmod(0o600)
    async with visit(browser, tmp_path, []) as at:
        page = at.page
        await page.get_by_role("button", name="Settings").click()
        delete = page.get_by_role("button", name="Delete profile kept")
        await delete.click()
        question = page.get_by_role("alertdialog", name="Delete the profile kept?")
        await expect(question).to_contain_text("API key")
        await page.keyboard.press("Enter")
        await expect(question).to_have_count(0)
        assert "kept" in (home / "profiles.json").read_text()
        await delete.click()
        await capture_view(page, tmp_path / "delete.png")
        await question.get_by_role("button", name="Delete profile").click()
        await expect(delete).to_have_count(0)
        assert "kept" not in (home / "profiles.json").read_text()


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
async def test_a_task_is_deleted_after_a_question_on_a_phone_too(
    browser: Browser, tmp_path: Path, size: tuple[int, int]
) -> None:
    async with visit(browser, tmp_path, [DONE], "Be done", size) as at:
        page = at.page
        await status(page).to_contain_text("Result ready")
        delete = page.get_by_role("button", name="Delete", exact=True)
        await delete.click()
        question = page.get_by_role("alertdialog", name="Delete this task?")
        await question.get_by_role("button", name="Cancel").click()
        await status(page).to_contain_text("Result ready")
        await delete.click()
        await question.get_by_role("button", name="Delete task").click()
        await expect(page.locator(".entry")).to_have_count(0)


async def test_a_link_whose_text_names_another_host_shows_where_it_leads(
    browser: Browser, tmp_path: Path
) -> None:
    text = (
        "[https://bank.example/login](https://evil.example/x) [the docs](https://docs.example/)"
        " [docs.example](https://docs.example/) https://plain.example/a\n\n"
        "| Function | Count |\n|---|---:|\n| parse_everything | 12 |\n\nשלום"
    )
    async with visit(browser, tmp_path, [Turn(say(text), *DONE.steps)], "Link") as at:
        page = at.page
        shown = page.locator(".markdown p", has_text="the docs")
        await expect(shown).to_have_text(
            "https://bank.example/login (evil.example) the docs docs.example"
            " https://plain.example/a"
        )
        await expect(page.locator("td").nth(1)).to_have_css("text-align", "right")
        await expect(page.locator("p", has_text="שלום")).to_have_css("direction", "rtl")


async def test_all_images_that_were_chosen_are_attached_and_stay_with_the_message(
    browser: Browser, tmp_path: Path
) -> None:
    async with visit(browser, tmp_path, [DONE, DONE]) as at:
        page = at.page
        images: list[FilePayload] = [
            {"name": f"{n}.png", "mimeType": "image/png", "buffer": PNG} for n in range(2)
        ]
        await page.locator("input[type=file]").set_input_files(images)
        await expect(page.locator(".editor img")).to_have_count(2)
        await page.get_by_label("The new task").fill("Look at both")
        await page.get_by_role("button", name="Start").click()
        await status(page).to_contain_text("Result ready")
        await page.get_by_role("button", name="Go back to this message").click()
        dialog = page.get_by_role("dialog")
        await expect(dialog.locator("img")).to_have_count(2)
        await dialog.get_by_label("Your message").fill("Look again")
        await dialog.get_by_role("button", name="Send this instead").click()
        await expect(page.locator(".person", has_text="Look again")).to_be_visible()
        await expect(page.locator(".person img")).to_have_count(2)


async def test_the_page_may_use_no_device_and_make_no_markup(
    browser: Browser, tmp_path: Path
) -> None:
    async with visit(browser, tmp_path, []) as at:
        answer = await at.page.request.get(at.server.url)
        assert "camera=()" in answer.headers["permissions-policy"]
        policy = answer.headers["content-security-policy"]
        assert "require-trusted-types-for 'script'" in policy
        refused = await at.page.evaluate(
            """() => { try { document.createElement('p').innerHTML = '<b>x</b>'; return false }
                       catch (error) { return error instanceof TypeError } }"""
        )
        assert refused
        at.watched.errors.clear()
