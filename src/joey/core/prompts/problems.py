"""Problems that a checker found, as the model reads them: under the file, a line each."""

from __future__ import annotations

from collections.abc import Iterable

from joey.core.problems import Problem


def problems_text(problems: Iterable[Problem]) -> str:
    """Empty when there are none."""
    by_path: dict[str, list[Problem]] = {}
    for problem in problems:
        by_path.setdefault(problem.path, []).append(problem)
    return "\n\n".join(
        "\n".join([path, *(_line(problem) for problem in found)]) for path, found in by_path.items()
    )


def _line(problem: Problem) -> str:
    severity = "Error" if problem.is_error else "Warning"
    code = f"{problem.code} : " if problem.code else ""
    return f"- [{problem.source} {severity}] {problem.line} | {code}{problem.message}"
