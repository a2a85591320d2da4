"""YAML that others wrote: text, lists and mappings, and nothing that can run or explode.

Every value is text, as YAML's base schema has it: nothing is guessed from how a word looks, no
tag makes an object, and merge keys mean nothing. The C parser would crash on deep nesting, so
that the events are counted before anything is built of them.
"""

from __future__ import annotations

from typing import Any

DEEPEST = 50
MOST_PARTS = 20_000


class YamlError(ValueError):
    """The text says what is wrong, and in which line."""


def read_yaml(text: str) -> Any:
    """Raises YamlError."""
    import yaml

    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        _check_size(text, yaml, loader)
        return yaml.load(text, Loader=loader)
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise YamlError(f"{line}{error.problem or error.context or 'not valid YAML'}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise YamlError(str(error).partition("\n")[0] or "not valid YAML") from error


def _check_size(text: str, yaml: Any, loader: Any) -> None:
    depth = 0
    for number, event in enumerate(yaml.parse(text, Loader=loader)):
        if number > MOST_PARTS:
            raise YamlError(f"line {event.start_mark.line + 1}: there are too many entries")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > DEEPEST:
            raise YamlError(f"line {event.start_mark.line + 1}: nested too deeply")
