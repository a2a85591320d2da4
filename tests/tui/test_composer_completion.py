"""What is offered while a mention or a command is typed, and what taking it writes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joey.core.mentions import find_mentions
from joey.tui.app_services import CompletionItem
from joey.tui.widgets.completion import match_mentions
from tests.harness.tui.composer_harness import COMMANDS, open_composer


async def test_files_and_keywords_are_offered_after_an_at_sign() -> None:
    async with open_composer() as user:
        await user.write("see @")
        assert user.offered[:2] == ["@problems", "@terminal"]
        await user.write("app")
        assert user.offered == ["src/app.py"]
        await user.press("tab", "enter")
        assert user.sent == ["see @/src/app.py "]


async def test_the_list_is_walked_with_the_arrows() -> None:
    async with open_composer() as user:
        await user.write("@src")
        assert user.offered == ["src/", "src/app.py", "src/a b.py"]
        await user.press("down", "down", "up", "enter")
        assert (user.text, user.sent) == ("@/src/app.py ", [])


async def test_a_click_takes_the_line_under_the_mouse() -> None:
    async with open_composer() as user:
        await user.write("@src")
        await user.click_choice(1)
        assert (user.text, user.offered) == ("@/src/app.py ", [])
        await user.press("enter")
        await user.press("ctrl+r")
        await user.click_choice(1)  # the first line is the title
        assert user.text == "@/src/app.py "


async def test_tab_goes_into_a_directory_and_enter_takes_it() -> None:
    async with open_composer() as user:
        await user.write("@src")
        await user.press("tab")
        assert user.text == "@/src/"
        assert user.offered == ["src/app.py", "src/a b.py"]
        await user.press("backspace", "enter")  # before there is another list
        assert user.text == "@/src/ "


async def test_a_name_with_a_blank_is_written_as_mentions_want_it() -> None:
    async with open_composer() as user:
        await user.write("@b.p")
        await user.press("enter")
        assert user.text == "@/src/a\\ b.py "
        assert [one.subject for one in find_mentions(user.text)] == ["src/a b.py"]


@given(st.text(st.characters(exclude_categories=["C", "Zl", "Zp"]), min_size=1))
def test_every_offered_path_is_found_again_as_a_mention(name: str) -> None:
    path = f"x{name.replace('/', '')}"
    (choice,) = [one for one in match_mentions("/", [path]) if one.label == path]
    (mention,) = find_mentions(f"see {choice.inserted_text} and go on")
    assert mention.subject == path


async def test_escape_closes_the_list_until_something_else_is_typed() -> None:
    async with open_composer() as user:
        await user.write("@src")
        await user.press("escape")
        assert (user.offered, user.text, user.app.escaped) == ([], "@src", 0)
        await user.press("/")
        assert user.offered != []


@pytest.mark.parametrize("text", ["mail me@src", "@https://example.org/src", "@nothing", "a\\@src"])
async def test_nothing_is_offered_for(text: str) -> None:
    async with open_composer() as user:
        await user.write(text)
        assert user.offered == []


async def test_commands_are_offered_at_the_beginning_with_what_they_do() -> None:
    async with open_composer() as user:
        await user.press("/")
        assert user.offered == ["/help", "/new"]
        await user.press("n", "tab", "enter")
        assert user.sent == ["/new "]


async def test_enter_completes_a_command_and_sends_a_complete_one() -> None:
    async with open_composer() as user:
        await user.press("/", "h", "enter")
        assert (user.text, user.sent) == ("/help ", [])
        await user.press("enter")
        assert user.sent == ["/help "]
        await user.press(*"/help", "enter")
        assert user.sent == ["/help ", "/help"]


async def test_enter_sends_a_mention_that_is_complete() -> None:
    async with open_composer() as user:
        await user.write("@/src/app.py")
        assert user.offered == ["src/app.py"]
        await user.press("enter")
        assert user.sent == ["@/src/app.py"]


@pytest.mark.parametrize("text", ["see @/src/app.py", "what about @problems", "look @nowhere"])
async def test_a_mention_that_is_typed_at_once_with_enter_is_sent(text: str) -> None:
    async with open_composer() as user:
        await user.write("see @")
        user.composer.clear()
        await user.press(*text, "enter")
        assert user.sent == [text]


async def test_a_slash_in_the_middle_offers_nothing() -> None:
    async with open_composer() as user:
        await user.write("say /he")
        assert user.offered == []


async def test_a_recalled_command_does_not_open_the_list() -> None:
    async with open_composer() as user:
        await user.press(*"/help", "enter", *"first", "enter", "up", "up")
        assert (user.text, user.offered) == ("/help", [])
        await user.press("down")
        assert user.text == "first"


class Slow:
    """Finds nothing for `abc` before it is let."""

    def __init__(self) -> None:
        self.found = asyncio.Event()
        self.asked = asyncio.Event()

    def list_commands(self) -> Sequence[CompletionItem]:
        return COMMANDS

    async def find_files(self, typed: str) -> Sequence[str]:
        if typed == "abc":
            self.asked.set()
            await self.found.wait()
        return [f"{typed}.py"]


async def test_typing_goes_on_while_files_are_being_looked_for() -> None:
    offers = Slow()
    async with open_composer(offers=offers) as user, asyncio.timeout(20):
        user.press_without_waiting(*"@abc")
        await offers.asked.wait()
        assert user.text == "@abc"
        offers.found.set()
        await user.wait_until_idle()
        assert user.offered == ["abc.py"]


async def test_a_list_that_was_closed_is_not_opened_by_what_is_found_later() -> None:
    offers = Slow()
    async with open_composer(offers=offers) as user, asyncio.timeout(20):
        await user.press(*"@ab")
        user.press_without_waiting("c", "escape")
        await offers.asked.wait()
        offers.found.set()
        await user.wait_until_idle()
        assert (user.text, user.offered, user.app.escaped) == ("@abc", [], 0)
