"""First steps of the app: onboarding, opening the task of the command line, sending its prompt.

Without a key and a profile, onboarding asks for a provider, a key and a model before anything else.
If a named task cannot be opened, the app ends: the user did not mean another one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from rich.text import Text

from joey import __version__
from joey.client.session import Session
from joey.errors import UserError
from joey.presentation.slash_commands import COMMANDS_BY_NAME
from joey.tui.app_services import PickerEntry, ProviderOption
from joey.tui.blocks.text import TransientErrorBlock
from joey.tui.widgets.dialog_area import LinePrompt, ListPicker

if TYPE_CHECKING:
    from joey.tui.app import JoeyApp


class SetupErrors:
    """The errors of setting up one provider; choosing another one removes them."""

    def __init__(self, app: JoeyApp) -> None:
        self._conversation = app.conversation
        self._blocks: list[TransientErrorBlock] = []

    def show(self, text: str) -> None:
        self._blocks.append(TransientErrorBlock(text))
        self._conversation.add_or_refresh_block(self._blocks[-1])

    def clear(self) -> None:
        for block in self._blocks:
            block.hide()
            self._conversation.add_or_refresh_block(block)
        self._blocks.clear()


class Startup(Struct, frozen=True, kw_only=True):
    prompt: str = ""
    images: tuple[str, ...] = ()
    task_id: str | None = None
    should_fork: bool = False
    should_choose_task: bool = False

    async def run(self, app: JoeyApp) -> None:
        """Raises UserError."""
        if app.host.needs_model and not await run_onboarding(app):
            app.exit(0)
            return
        app.refresh_status()
        if self.task_id is None:
            app.conversation.show_rich_text(render_banner(app.host.describe_price()))
        else:
            open_task = app.host.fork_task if self.should_fork else app.host.open_task
            try:
                app.controller.show_session(await open_task(self.task_id))
            except UserError as error:
                app.startup_error = error
                app.exit()
                return
        if self.should_choose_task and not await self._choose_task(app):
            app.composer.set_text(self.prompt)
            return
        if not self.prompt:
            return
        try:
            await app.send_message(self.prompt, self.images)
        except UserError:
            app.composer.set_text(self.prompt)
            raise

    async def _choose_task(self, app: JoeyApp) -> bool:
        """Let the user choose a task; False if they did not."""
        await app.command_runner.run(COMMANDS_BY_NAME["resume"], "")
        if app.controller.session is None:
            return False
        if self.should_fork:
            await app.command_runner.run(COMMANDS_BY_NAME["fork"], "")
        return True


WELCOME_TITLE = "Welcome to joey."
WELCOME_TEXT = """\
It needs a model to talk to. There are three ways to continue:
  1. choose a service below and paste a key; it is checked with one free request;
  2. start a model server on this machine (Ollama, LM Studio, llama.cpp, vLLM) and choose it;
  3. leave with Esc and run `joey demo`, which needs neither key nor network.
The choice is kept in profiles.json, which only you can read."""


async def run_onboarding(app: JoeyApp) -> bool:
    """Run onboarding; return whether a model can be used now."""
    app.conversation.show_rich_text(Text.assemble((WELCOME_TITLE, "bold"), f"\n{WELCOME_TEXT}"))
    return await set_up_provider(app) is not None


async def set_up_provider(app: JoeyApp) -> str | None:
    """Let the user choose a provider, its key and a model, and save them as a profile; return its
    key for `switch_model`, or None if the user left."""
    errors = SetupErrors(app)
    while (chosen := await _choose_provider(app, await app.host.list_providers())) is not None:
        errors.clear()
        provider, model = chosen
        if provider is OTHER_ADDRESS:
            if (named := await _enter_address(app, errors)) is None:
                continue
            provider = named
        if provider.start_hint:
            app.conversation.show_note(f"{provider.start_hint} Then choose it again.")
            continue
        key, listed = "", provider.models
        if provider.needs_key:
            if (entered := await _find_key(app, provider, errors)) is None:
                continue
            key, listed = entered
        where = f"at {provider.base_url}" if provider.base_url else f"of {provider.name}"
        if not (model := model or await _choose_model(app, f"Model {where}", listed) or ""):
            continue
        try:
            profile = await app.host.save_provider_choice(provider, key, model)
        except UserError as error:
            errors.show(str(error))
            continue
        app.conversation.show_note(f"joey talks to {model} {where}. /model changes that.")
        if provider.local_url and (advice := await app.host.describe_small_window(profile)):
            app.conversation.show_error(advice)
        return profile
    return None


OTHER_ADDRESS = ProviderOption("another address", needs_key=True)


async def _choose_provider(
    app: JoeyApp, providers: tuple[ProviderOption, ...]
) -> tuple[ProviderOption, str] | None:
    """Choose a local model with one key press, or a provider."""
    choices = {
        PickerEntry(f"{each.name} {model}", model, f"{each.name}, running here"): (each, model)
        for each in providers
        if each.local_url
        for model in each.models
    }
    choices |= {
        PickerEntry(each.name, each.name, _describe_provider(each)): (each, "")
        for each in _insert_other_address(providers)
        if not (each.local_url and each.models)
    }
    chosen = await app.dialog_area.pick(ListPicker("Where is your model?", list(choices)))
    return None if chosen is None else choices[chosen]


def _insert_other_address(providers: tuple[ProviderOption, ...]) -> list[ProviderOption]:
    """Insert the entry for an address after that of OpenAI, whose protocol is spoken there."""
    names = [each.name for each in providers]
    options = list(providers)
    options.insert(names.index("openai") + 1, OTHER_ADDRESS)
    return options


def _describe_provider(provider: ProviderOption) -> str:
    if provider is OTHER_ADDRESS:
        return "custom URL of an OpenAI-compatible server or gateway"
    if provider.local_url:
        return f"running here, at {provider.local_url}, without a model"
    if provider.key_variable:
        return f"key in {provider.key_variable}"
    return "needs a key" if provider.needs_key else "on this machine; not running"


async def _enter_address(app: JoeyApp, errors: SetupErrors) -> ProviderOption | None:
    hint = "such as http://192.168.0.5:8000/v1, Enter · Esc goes back"
    while (text := await app.dialog_area.pick(LinePrompt("Address", hint))) is not None:
        try:
            return app.host.describe_address(text)
        except UserError as error:
            errors.show(str(error))
    return None


async def _find_key(
    app: JoeyApp, provider: ProviderOption, errors: SetupErrors
) -> tuple[str, tuple[str, ...]] | None:
    """Find a key like `enter_key`; an empty one if a variable has a valid one."""
    if (
        provider.key_variable
        and (listed := await _check_key(app, provider, "", errors)) is not None
    ):
        return "", listed
    return await enter_key(app, provider, errors, is_optional=provider.base_url is not None)


async def enter_key(
    app: JoeyApp, provider: ProviderOption, errors: SetupErrors, *, is_optional: bool = False
) -> tuple[str, tuple[str, ...]] | None:
    """Ask for a key that the service accepts, and return it with the models to choose from; None if
    the user left."""
    where = f" · create a key at {provider.key_page}" if provider.key_page else ""
    none = " (Enter alone: no key)" if is_optional else ""
    hint = f"paste it, then Enter{none} · it is not shown · Esc goes back{where}"
    while True:
        title = f"Key for {provider.base_url or provider.name}"
        prompt = LinePrompt(title, hint, secret=True, allow_empty=is_optional)
        if (key := await app.dialog_area.pick(prompt)) is None:
            return None
        if (listed := await _check_key(app, provider, key, errors)) is not None:
            return key, listed


async def _check_key(
    app: JoeyApp, provider: ProviderOption, key: str, errors: SetupErrors
) -> tuple[str, ...] | None:
    """Return the models to choose from; None if the service rejects the key. An empty one means a
    variable's, or none at all."""
    app.status_line.set_activity("checking the key")
    try:
        checked = await app.host.check_key(provider, key)
    except UserError as error:
        errors.show(str(error))
        return None
    finally:
        app.status_line.set_activity("")
    if checked.message:
        errors.show(checked.message)
    elif key or provider.key_variable:
        where = "" if key else f" in {provider.key_variable}"
        app.conversation.show_note(f"The key{where} is accepted.")
    if checked.is_refused:
        return None
    return tuple(dict.fromkeys((*provider.models, *checked.models)))


async def replace_refused_key(app: JoeyApp, failed: Session) -> None:
    """Replace the key that the service of a task rejected, and send the request again."""
    owner = app.host.find_key_owner(failed)
    if not owner.needs_key:
        raise UserError(f"{owner.name} takes no key. Log in again, and retry.")
    if (entered := await enter_key(app, owner, SetupErrors(app))) is None:
        return
    session = app.controller.session or failed
    app.controller.show_session(await app.host.replace_key(failed, session, entered[0]))
    app.conversation.show_note("The key is stored in profiles.json.")
    app.refresh_status()


async def _choose_model(app: JoeyApp, title: str, models: tuple[str, ...]) -> str | None:
    """Choose a model from the list, or by name."""
    if not models:
        return await app.dialog_area.pick(LinePrompt(title, "its name, Enter · Esc goes back"))
    entries = [PickerEntry(name, name) for name in models]
    hint = "or write the name of another one · Esc goes back"
    chosen = await app.dialog_area.pick(ListPicker(title, entries, hint, allow_free_text=True))
    return None if chosen is None else chosen.key


def render_banner(price: str) -> Text:
    text = Text().append("joey", "bold cyan").append(f" {__version__}", "dim")
    text.append("\nDescribe a task. ", "dim")
    for key, about in (("?", "shows the keys, "), ("/", "the commands, "), ("@", "names files.")):
        text.append(key, "cyan").append(f" {about}", "dim")
    return text.append(f"\n{price}", "dim") if price else text
