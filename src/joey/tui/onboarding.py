"""First steps of the app: onboarding, opening the task of the command line, sending its prompt.

Without a key and a profile, onboarding asks for a provider, a key and a model before anything
else. A task that was named but cannot be opened ends the app: the user did not mean another one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from rich.text import Text

from joey import __version__
from joey.errors import UserError
from joey.tui.app_services import PickerEntry, ProviderOption
from joey.tui.widgets.dialog_area import LinePrompt, ListPicker

if TYPE_CHECKING:
    from joey.tui.app import JoeyApp


class Startup(Struct, frozen=True, kw_only=True):
    prompt: str = ""
    images: tuple[str, ...] = ()
    task_id: str | None = None
    should_fork: bool = False

    async def run(self, app: JoeyApp) -> None:
        """Raises UserError."""
        if app.host.needs_model and not await run_onboarding(app):
            app.exit(0)
            return
        app.refresh_status()
        if self.task_id is None:
            app.conversation.show_rich_text(render_banner())
        else:
            open_task = app.host.fork_task if self.should_fork else app.host.open_task
            try:
                app.controller.show_session(await open_task(self.task_id))
            except UserError as error:
                app.startup_error = error
                app.exit()
                return
        if not self.prompt:
            return
        try:
            await app.send_message(self.prompt, self.images)
        except UserError:
            app.composer.set_text(self.prompt)
            raise


WELCOME_TITLE = "Welcome to joey."
WELCOME_TEXT = (
    "It needs a model to talk to. Choose where it is; this is kept in profiles.json, which only you"
    " can read. Nothing is sent anywhere before you have said what shall be done."
)


async def run_onboarding(app: JoeyApp) -> bool:
    """Whether there is somebody to talk to now."""
    app.conversation.show_rich_text(Text.assemble((WELCOME_TITLE, "bold"), f"\n{WELCOME_TEXT}"))
    providers = await app.host.list_providers()
    while (chosen := await _choose_provider(app, providers)) is not None:
        provider, model = chosen
        key = ""
        if provider.needs_key:
            hint = "paste it, Enter · it is not shown · Esc goes back"
            prompt = LinePrompt(f"Key for {provider.name}", hint, secret=True)
            if not (key := await app.dialog_area.pick(prompt) or ""):
                continue
        if not (model := model or await _choose_model(app, provider) or ""):
            continue
        try:
            await app.host.save_provider_choice(provider, key, model)
        except UserError as error:
            app.conversation.show_error(str(error))
            continue
        app.conversation.show_note(
            f"joey talks to {model} of {provider.name}. /model changes that."
        )
        return True
    return False


async def _choose_provider(
    app: JoeyApp, providers: tuple[ProviderOption, ...]
) -> tuple[ProviderOption, str] | None:
    """A model that runs on this machine, which is one key away; else a provider."""
    choices = {
        PickerEntry(f"{each.name} {model}", model, f"{each.name}, running here"): (each, model)
        for each in providers
        if each.local_url
        for model in each.models
    }
    choices |= {
        PickerEntry(each.name, each.name, _describe_provider(each)): (each, "")
        for each in providers
        if not (each.local_url and each.models)
    }
    chosen = await app.dialog_area.pick(ListPicker("Where is your model?", list(choices)))
    return None if chosen is None else choices[chosen]


def _describe_provider(provider: ProviderOption) -> str:
    if provider.local_url:
        return f"running here, at {provider.local_url}"
    return "needs a key" if provider.needs_key else "on this machine; not found running"


async def _choose_model(app: JoeyApp, provider: ProviderOption) -> str | None:
    """From the list, or by its name."""
    title = f"Model of {provider.name}"
    if not provider.models:
        return await app.dialog_area.pick(LinePrompt(title, "its name, Enter · Esc goes back"))
    entries = [PickerEntry(name, name) for name in provider.models]
    hint = "or write the name of another one · Esc goes back"
    chosen = await app.dialog_area.pick(ListPicker(title, entries, hint, allow_free_text=True))
    return None if chosen is None else chosen.key


def render_banner() -> Text:
    text = Text().append("joey", "bold cyan").append(f" {__version__}", "dim")
    text.append("\nWrite what shall be done. ", "dim")
    for key, about in (("?", "shows the keys, "), ("/", "the commands, "), ("@", "names files.")):
        text.append(key, "cyan").append(f" {about}", "dim")
    return text
