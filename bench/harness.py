"""What a whole run costs, beside the floor: the smallest loop that plays the same scenarios.

The model answers at once, so everything that is measured is the harness. Medians; CPU is steadier
than time on a busy machine. *cold*: process start to first request. *turn*: last byte of an answer
to the next request. *write*: one call with 200,000 bytes of arguments in 20-byte chunks. *text*:
one answer of 5,000 chunks. CPU of *write* and *text* is what they add to an empty run.
"""

from __future__ import annotations

from statistics import median

from msgspec import Struct

from bench.runs import MeasuredRun, ModelProcess, measure, start_model
from bench.tables import format_verdict, print_table

ROUNDS = 5
TURNS = 40
LONG_RUN_TURNS = 205
WRITE_BYTES = 200_000
TEXT_CHUNKS = 5_000


class OverheadFigures(Struct, frozen=True):
    cold_start_ms: float
    read_turn_ms: float
    cpu_per_turn_ms: float
    shell_turn_ms: float
    turn_10_ms: float
    turn_200_ms: float
    peak_memory_mb: float
    write_cpu_s: float
    write_tail_ms: float
    text_cpu_s: float
    exit_ms: float

    @property
    def turn_growth_ms(self) -> float:
        return self.turn_200_ms - self.turn_10_ms


GOALS = OverheadFigures(
    cold_start_ms=200,
    read_turn_ms=6,
    cpu_per_turn_ms=5,
    shell_turn_ms=10,
    turn_10_ms=0,
    turn_200_ms=5,
    peak_memory_mb=65,
    write_cpu_s=0.25,
    write_tail_ms=150,
    text_cpu_s=0.17,
    exit_ms=50,
)


def main() -> None:
    with start_model() as model:
        for program in ("floor", "joey"):
            measure(model, program, "read", 1)
        figures = {program: measure_figures(model, program) for program in ("floor", "joey")}
        paced_tail_ms = measure(model, "joey", "paced", WRITE_BYTES).turn_durations_s[0] * 1000
    floor, joey = figures["floor"], figures["joey"]
    print_figures(floor, joey, paced_tail_ms)
    print_ratios(floor, joey)


def measure_figures(model: ModelProcess, program: str) -> OverheadFigures:
    empty = [measure(model, program, "done") for _ in range(ROUNDS)]
    read = [measure(model, program, "read", TURNS) for _ in range(3)]
    shell = [measure(model, program, "shell", TURNS // 2) for _ in range(3)]
    long = measure(model, program, "read", LONG_RUN_TURNS)
    write = [measure(model, program, "write", WRITE_BYTES) for _ in range(3)]
    text = [measure(model, program, "text", TEXT_CHUNKS) for _ in range(3)]
    base = find_min_cpu_s(empty)
    return OverheadFigures(
        cold_start_ms=median(run.cold_start_s for run in empty) * 1000,
        read_turn_ms=median(turn for run in read for turn in run.turn_durations_s) * 1000,
        cpu_per_turn_ms=(find_min_cpu_s(read) - base) / TURNS * 1000,
        shell_turn_ms=median(turn for run in shell for turn in run.turn_durations_s) * 1000,
        turn_10_ms=median(long.turn_durations_s[5:15]) * 1000,
        turn_200_ms=median(long.turn_durations_s[195:205]) * 1000,
        peak_memory_mb=median(run.peak_memory_mb for run in read),
        write_cpu_s=find_min_cpu_s(write) - base,
        write_tail_ms=median(run.turn_durations_s[0] for run in write) * 1000,
        text_cpu_s=find_min_cpu_s(text) - base,
        exit_ms=median(run.exit_s for run in empty) * 1000,
    )


def find_min_cpu_s(runs: list[MeasuredRun]) -> float:
    """The least of them: what others do to the processor only ever adds to it."""
    return min(run.cpu_s for run in runs)


def print_figures(floor: OverheadFigures, joey: OverheadFigures, paced_tail_ms: float) -> None:
    heads = [
        *("", "cold ms", "read turn ms", "CPU ms/turn", "shell turn ms", "turn 10 → 200 ms"),
        *("RSS MB", "write CPU s", "after last byte ms", "text CPU s", "exit ms"),
    ]
    judged = [
        *(
            format_verdict(joey.cold_start_ms, GOALS.cold_start_ms),
            format_verdict(joey.read_turn_ms, GOALS.read_turn_ms),
        ),
        *(
            format_verdict(joey.cpu_per_turn_ms, GOALS.cpu_per_turn_ms),
            format_verdict(joey.shell_turn_ms, GOALS.shell_turn_ms),
        ),
        *(
            format_verdict(joey.turn_growth_ms, GOALS.turn_growth_ms),
            format_verdict(joey.peak_memory_mb, GOALS.peak_memory_mb),
        ),
        *(
            format_verdict(joey.write_cpu_s, GOALS.write_cpu_s),
            format_verdict(joey.write_tail_ms, GOALS.write_tail_ms),
        ),
        *(
            format_verdict(joey.text_cpu_s, GOALS.text_cpu_s),
            format_verdict(joey.exit_ms, GOALS.exit_ms),
        ),
    ]
    rows = [
        heads,
        ["floor", *format_cells(floor)],
        ["joey", *format_cells(joey)],
        ["goal", *format_cells(GOALS)],
    ]
    rows[3][5] = f"+{GOALS.turn_growth_ms:.0f}"
    print_table("A run against the floor", [*rows, ["", *judged]])
    print(
        "  after the last byte of a write that streams at 2,000 chunks a second: "
        f"{paced_tail_ms:.0f} ms"
    )
    print(f"  (goal 20: {format_verdict(paced_tail_ms, 20)})")


def format_cells(figures: OverheadFigures) -> list[str]:
    return [
        f"{figures.cold_start_ms:.0f}",
        f"{figures.read_turn_ms:.1f}",
        f"{figures.cpu_per_turn_ms:.1f}",
        f"{figures.shell_turn_ms:.1f}",
        f"{figures.turn_10_ms:.1f} → {figures.turn_200_ms:.1f}",
        f"{figures.peak_memory_mb:.0f}",
        f"{figures.write_cpu_s:.2f}",
        f"{figures.write_tail_ms:.0f}",
        f"{figures.text_cpu_s:.2f}",
        f"{figures.exit_ms:.0f}",
    ]


def print_ratios(floor: OverheadFigures, joey: OverheadFigures) -> None:
    rows = [["joey in floors", "measured", "goal", ""]]
    for name, ratio, goal in (
        ("cold", joey.cold_start_ms / floor.cold_start_ms, 6.0),
        ("memory", joey.peak_memory_mb / floor.peak_memory_mb, 4.0),
        ("write", joey.write_cpu_s / floor.write_cpu_s, 3.0),
        ("text", joey.text_cpu_s / floor.text_cpu_s, 3.5),
    ):
        rows.append([name, f"{ratio:.1f}x", f"{goal:g}x", format_verdict(ratio, goal)])
    overhead = joey.read_turn_ms - floor.read_turn_ms
    rows.append(["turn", f"+{overhead:.1f} ms", "+6 ms", format_verdict(overhead, 6)])
    print_table("Against the floor of the same run", rows)


if __name__ == "__main__":
    main()
