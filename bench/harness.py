"""What a whole run costs, beside the floor: the smallest loop that plays the same scenarios.

The model answers at once, so everything that is measured is the harness. Medians; CPU is steadier
than time on a busy machine. *cold*: process start to first request. *turn*: last byte of an answer
to the next request. *write*: one call with 200,000 bytes of arguments in 20-byte chunks. *text*:
one answer of 5,000 chunks. CPU of *write* and *text* is what they add to an empty run.
"""

from __future__ import annotations

from statistics import median

from msgspec import Struct

from bench.runs import MeasuredRun, ModelProcess, measure, running_model
from bench.tables import table, verdict

ROUNDS = 5
TURNS = 40
LONG_RUN_TURNS = 205
WRITE_BYTES = 200_000
TEXT_CHUNKS = 5_000


class OverheadFigures(Struct, frozen=True):
    cold: float
    read_turn: float
    cpu_turn: float
    shell_turn: float
    turn_10: float
    turn_200: float
    memory: float
    write_cpu: float
    write_after: float
    text_cpu: float
    exit: float

    @property
    def growth(self) -> float:
        return self.turn_200 - self.turn_10


GOALS = OverheadFigures(
    cold=200,
    read_turn=6,
    cpu_turn=5,
    shell_turn=10,
    turn_10=0,
    turn_200=5,
    memory=65,
    write_cpu=0.25,
    write_after=150,
    text_cpu=0.17,
    exit=50,
)


def main() -> None:
    with running_model() as model:
        for who in ("floor", "joey"):
            measure(model, who, "read", 1)
        figures = {who: figures_of(model, who) for who in ("floor", "joey")}
        paced = measure(model, "joey", "paced", WRITE_BYTES).turns[0] * 1000
    floor, joey = figures["floor"], figures["joey"]
    show(floor, joey, paced)
    compare(floor, joey)


def figures_of(model: ModelProcess, who: str) -> OverheadFigures:
    empty = [measure(model, who, "done") for _ in range(ROUNDS)]
    read = [measure(model, who, "read", TURNS) for _ in range(3)]
    shell = [measure(model, who, "shell", TURNS // 2) for _ in range(3)]
    long = measure(model, who, "read", LONG_RUN_TURNS)
    write = [measure(model, who, "write", WRITE_BYTES) for _ in range(3)]
    text = [measure(model, who, "text", TEXT_CHUNKS) for _ in range(3)]
    base = cpu(empty)
    return OverheadFigures(
        cold=median(run.cold for run in empty) * 1000,
        read_turn=median(turn for run in read for turn in run.turns) * 1000,
        cpu_turn=(cpu(read) - base) / TURNS * 1000,
        shell_turn=median(turn for run in shell for turn in run.turns) * 1000,
        turn_10=median(long.turns[5:15]) * 1000,
        turn_200=median(long.turns[195:205]) * 1000,
        memory=median(run.peak for run in read),
        write_cpu=cpu(write) - base,
        write_after=median(run.turns[0] for run in write) * 1000,
        text_cpu=cpu(text) - base,
        exit=median(run.exit for run in empty) * 1000,
    )


def cpu(runs: list[MeasuredRun]) -> float:
    """The least of them: what others do to the processor only ever adds to it."""
    return min(run.cpu for run in runs)


def show(floor: OverheadFigures, joey: OverheadFigures, paced: float) -> None:
    heads = [
        *("", "cold ms", "read turn ms", "CPU ms/turn", "shell turn ms", "turn 10 → 200 ms"),
        *("RSS MB", "write CPU s", "after last byte ms", "text CPU s", "exit ms"),
    ]
    judged = [
        *(verdict(joey.cold, GOALS.cold), verdict(joey.read_turn, GOALS.read_turn)),
        *(verdict(joey.cpu_turn, GOALS.cpu_turn), verdict(joey.shell_turn, GOALS.shell_turn)),
        *(verdict(joey.growth, GOALS.growth), verdict(joey.memory, GOALS.memory)),
        *(verdict(joey.write_cpu, GOALS.write_cpu), verdict(joey.write_after, GOALS.write_after)),
        *(verdict(joey.text_cpu, GOALS.text_cpu), verdict(joey.exit, GOALS.exit)),
    ]
    rows = [heads, ["floor", *cells(floor)], ["joey", *cells(joey)], ["goal", *cells(GOALS)]]
    rows[3][5] = f"+{GOALS.growth:.0f}"
    table("A run against the floor", [*rows, ["", *judged]])
    print(f"  after the last byte of a write that streams at 2,000 chunks a second: {paced:.0f} ms")
    print(f"  (goal 20: {verdict(paced, 20)})")


def cells(figures: OverheadFigures) -> list[str]:
    return [
        f"{figures.cold:.0f}",
        f"{figures.read_turn:.1f}",
        f"{figures.cpu_turn:.1f}",
        f"{figures.shell_turn:.1f}",
        f"{figures.turn_10:.1f} → {figures.turn_200:.1f}",
        f"{figures.memory:.0f}",
        f"{figures.write_cpu:.2f}",
        f"{figures.write_after:.0f}",
        f"{figures.text_cpu:.2f}",
        f"{figures.exit:.0f}",
    ]


def compare(floor: OverheadFigures, joey: OverheadFigures) -> None:
    rows = [["joey in floors", "measured", "goal", ""]]
    for name, ratio, goal in (
        ("cold", joey.cold / floor.cold, 6.0),
        ("memory", joey.memory / floor.memory, 4.0),
        ("write", joey.write_cpu / floor.write_cpu, 3.0),
        ("text", joey.text_cpu / floor.text_cpu, 3.5),
    ):
        rows.append([name, f"{ratio:.1f}x", f"{goal:g}x", verdict(ratio, goal)])
    overhead = joey.read_turn - floor.read_turn
    rows.append(["turn", f"+{overhead:.1f} ms", "+6 ms", verdict(overhead, 6)])
    table("Against the floor of the same run", rows)


if __name__ == "__main__":
    main()
