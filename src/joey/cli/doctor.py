"""`joey doctor`: what is found, what is missing, and what to do about it."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable

import msgspec

from joey.cli.exit_codes import ExitCode
from joey.cli.outputs import write_out
from joey.cli.probes import (
    Finding,
    Status,
    probe_bash,
    probe_disk,
    probe_git,
    probe_home,
    probe_hooks,
    probe_keys,
    probe_local_servers,
    probe_model,
    probe_python,
    probe_ripgrep,
    probe_sandbox,
)
from joey.display.sanitise import sanitise
from joey.display.wrapping import columns, wrap

_MARKS = {Status.OK: "✓", Status.WARN: "!", Status.FAIL: "✗"}
_COLOURS = {Status.OK: "32", Status.WARN: "33", Status.FAIL: "31"}
PROBES: tuple[Callable[[], Finding], ...] = (
    probe_python,
    probe_home,
    probe_disk,
    probe_bash,
    probe_ripgrep,
    probe_git,
    probe_sandbox,
    probe_hooks,
    probe_keys,
    probe_local_servers,
    probe_model,
)


def run_doctor(arguments: Namespace) -> ExitCode:
    findings = [probe() for probe in PROBES]
    failed = any(finding.status is Status.FAIL for finding in findings)
    if arguments.json:
        report = {"ok": not failed, "findings": findings}
        write_out(msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n")
    else:
        _print(findings)
    return ExitCode.FAILED if failed else ExitCode.DONE


def _print(findings: Iterable[Finding]) -> None:
    coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    width = columns(sys.stdout)
    for finding in findings:
        mark = _MARKS[finding.status]
        line = wrap(f"{mark} {finding.name}: {_indented(finding.found)}", width)
        if coloured:
            line = f"\x1b[{_COLOURS[finding.status]}m{mark}\x1b[0m{line.removeprefix(mark)}"
        print(line)
        if finding.advice:
            print(wrap(f"    {_indented(finding.advice)}", width))


def _indented(text: str) -> str:
    return sanitise(text).replace("\n", "\n    ")
