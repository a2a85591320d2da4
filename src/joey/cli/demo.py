"""`joey demo`: a scripted model on loopback, and everything else as it always is."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import sys
import tempfile
from argparse import Namespace
from pathlib import Path

from msgspec import Struct
from rich.console import Console

from joey.app import make_options, open_engine
from joey.cli import demo_script as script
from joey.cli.exit_codes import ExitCode, UsageError, exit_code_of
from joey.cli.launch import short_id
from joey.cli.progress import describe_cost
from joey.cli.render import Renderer
from joey.cli.signals import interruptible
from joey.core.events import AskOpened
from joey.core.models import ToolProtocol
from joey.core.task import Answer, Response
from joey.engine.engine import Engine
from joey.engine.task import Task
from joey.testing.server import ModelServer

INTRODUCTION = """\
This is a demonstration: a scripted model answers on this machine, so nothing leaves it and
nothing costs anything. The client, the tools, the files and the histories are the real ones.
Where you would be asked, the demonstration answers, and says so."""
_KEPT_VARIABLES = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TZ")


class DemoPolicy:
    """Allows everything that the script asks for, which is known beforehand."""

    name = "demo"

    def answer(self, ask: AskOpened) -> Answer | None:
        return Answer(Response.YES)


class Place(Struct, frozen=True):
    """Where the demonstration leaves its files."""

    root: Path

    @property
    def workspace(self) -> Path:
        return self.root / "project"

    @property
    def home(self) -> Path:
        return self.root / "joey-home"


def run_demo(arguments: Namespace) -> ExitCode:
    place = _prepare(arguments.keep)
    return asyncio.run(_run(arguments, place))


def _prepare(keep: str | None) -> Place:
    """The folder of the task as the script expects it: a package.json and an empty `src`."""
    try:
        root = Path(keep).absolute() if keep else Path(tempfile.mkdtemp(prefix="joey-demo-"))
        place = Place(root)
        root.mkdir(parents=True, exist_ok=True)
        if any(root.iterdir()):
            raise UsageError(f"{root} is not empty; --keep wants a new or an empty folder")
        (place.workspace / "src").mkdir(parents=True)
        (place.workspace / "package.json").write_text(script.PACKAGE_JSON, encoding="utf-8")
    except OSError as error:
        where = error.filename or keep
        raise UsageError(f"{where} cannot be used: {error.strerror}") from error
    return place


async def _run(arguments: Namespace, place: Place) -> ExitCode:
    renderer = Renderer(Console(), echo=True)
    renderer.note(INTRODUCTION)
    is_xml = arguments.protocol == ToolProtocol.XML
    env = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    model = ModelServer(script.turns(xml=is_xml, fast=arguments.fast))
    with interruptible() as interruption:
        async with model, open_engine(home=place.home, env=env) as engine:
            task = await _start(engine, arguments, place, model.url, env)
            try:
                async for event in task.events():
                    renderer.show(event)
            except asyncio.CancelledError:
                await task.cancel()
            code = interruption.code or exit_code_of(await task.wait())
            folder = task.recorder.log.folder
    renderer.note(f"\n{describe_cost(task.usage)} (by the list price; nothing was spent)")
    _say_where(renderer, place, task, folder)
    return code


async def _start(
    engine: Engine, arguments: Namespace, place: Place, url: str, env: dict[str, str]
) -> Task:
    options = make_options(
        workspace=place.workspace,
        home=place.home,
        env=env,
        provider=arguments.wire,
        base_url=url if arguments.wire == "anthropic" else f"{url}/v1",
        model=script.MODEL,
        protocol=ToolProtocol(arguments.protocol),
        policy=DemoPolicy(),
    )
    return await engine.start(script.PROMPT, options=options)


def _say_where(renderer: Renderer, place: Place, task: Task, folder: Path) -> None:
    renderer.note(
        f"The workspace:         {place.workspace}\n"
        f"What you saw:          {folder / 'ui_messages.json'}\n"
        f"What the model saw:    {folder / 'api_conversation_history.json'}\n"
        f"To look at it again:   JOEY_HOME={shlex.quote(str(place.home))}"
        f" {this_program()} tasks show {short_id(task.id, ())}"
    )


def this_program() -> str:
    """How the joey that runs is called from here."""
    started = Path(sys.argv[0])
    if started.stem != "joey" or not started.exists():
        return f"{shlex.quote(sys.executable)} -m joey"
    found = shutil.which("joey")
    is_found = found is not None and Path(found).samefile(started)
    return "joey" if is_found else shlex.quote(str(started))
