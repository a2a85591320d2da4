"""What the server counts about itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping


class Counters:
    def __init__(self) -> None:
        self.commands: Counter[tuple[str, str]] = Counter()
        """By name and outcome."""
        self.events = 0
        self.resyncs = 0
        self.refused = 0
        self.accepted = 0

    def metrics(self, **gauges: int) -> str:
        """In the text format of Prometheus."""
        lines = [
            *_metric("joey_events_total", "counter", {"": self.events}),
            *_metric("joey_resyncs_total", "counter", {"": self.resyncs}),
            *_metric("joey_refused_total", "counter", {"": self.refused}),
            *_metric("joey_accepted_total", "counter", {"": self.accepted}),
        ]
        for name, value in gauges.items():
            lines += _metric(f"joey_{name}", "gauge", {"": value})
        by_name = {
            f'{{command="{name}",outcome="{outcome}"}}': count
            for (name, outcome), count in sorted(self.commands.items())
        }
        lines += _metric("joey_commands_total", "counter", by_name)
        return "\n".join([*lines, ""])


def _metric(name: str, kind: str, values: Mapping[str, int]) -> Iterator[str]:
    yield f"# TYPE {name} {kind}"
    for labels, value in values.items():
        yield f"{name}{labels} {value}"
