"""`joey doctor`: findings about the installation, with advice.

Checks run concurrently and independently: an error in one of them becomes its finding.
"""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed

import msgspec
from msgspec import structs

from joey.cli.commands import doctor_checks
from joey.cli.commands.doctor_checks import Finding, FindingStatus, HealthCheck
from joey.cli.exit_codes import ExitCode
from joey.cli.logs import discreet
from joey.cli.output import write_out
from joey.errors import UserError
from joey.presentation.text import columns, one_line, sanitise, wrap

_STATUS_MARKS = {FindingStatus.OK: "✓", FindingStatus.WARN: "!", FindingStatus.FAIL: "✗"}
_STATUS_ANSI_COLOURS = {FindingStatus.OK: "32", FindingStatus.WARN: "33", FindingStatus.FAIL: "31"}
HEALTH_CHECKS: tuple[HealthCheck, ...] = (
    HealthCheck("joey", doctor_checks.probe_installs),
    HealthCheck("Python", doctor_checks.probe_python),
    HealthCheck("Clock", doctor_checks.probe_clock),
    HealthCheck("Terminal", doctor_checks.probe_terminal),
    HealthCheck("Home", doctor_checks.probe_home),
    HealthCheck("Privacy", doctor_checks.probe_privacy, doctor_checks.make_private),
    HealthCheck("Disk", doctor_checks.probe_disk),
    HealthCheck("Tasks", doctor_checks.probe_tasks, doctor_checks.tidy_tasks),
    HealthCheck("Index of tasks", doctor_checks.probe_index, doctor_checks.renew_index),
    HealthCheck("Leftovers", doctor_checks.probe_leftovers),
    HealthCheck("bash", doctor_checks.probe_bash),
    HealthCheck("ripgrep", doctor_checks.probe_ripgrep),
    HealthCheck("git", doctor_checks.probe_git),
    HealthCheck("Sandbox", doctor_checks.probe_sandbox),
    HealthCheck("Browser", doctor_checks.probe_browser),
    HealthCheck("Settings", doctor_checks.probe_settings),
    HealthCheck("Modes and rules", doctor_checks.check_customizations),
    HealthCheck("MCP servers", doctor_checks.probe_servers),
    HealthCheck("Hooks", doctor_checks.probe_hooks),
    HealthCheck("This folder", doctor_checks.probe_trust),
    HealthCheck("Profiles", doctor_checks.probe_profiles, doctor_checks.settle_profiles),
    HealthCheck("Keys", doctor_checks.probe_keys),
    HealthCheck("Local models", doctor_checks.probe_local_servers, asks_around=True),
    HealthCheck("Model", doctor_checks.probe_model),
    HealthCheck("Connection", doctor_checks.probe_reach, asks_around=True),
)


def run_doctor(arguments: Namespace) -> ExitCode:
    wanted = [each for each in HEALTH_CHECKS if not (arguments.offline and each.asks_around)]
    findings = look(wanted, fix=arguments.fix)
    failed = any(finding.status is FindingStatus.FAIL for finding in findings)
    if arguments.json:
        report = {"ok": not failed, "findings": findings}
        write_out(msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n")
    else:
        _print(findings)
    return ExitCode.FAILED if failed else ExitCode.DONE


def look(wanted: Sequence[HealthCheck], *, fix: bool = False) -> list[Finding]:
    """What every probe found, in the order of the probes."""
    with ThreadPoolExecutor(len(wanted)) as threads:
        futures = [threads.submit(_looked, probe, fix) for probe in wanted]
        _show_progress(futures)
        return [_discreet(future.result()) for future in futures]


def _discreet(finding: Finding) -> Finding:
    """Errors may repeat what they met."""
    return structs.replace(
        finding,
        found=discreet(finding.found),
        advice=discreet(finding.advice),
        fixed=tuple(map(discreet, finding.fixed)),
    )


def _looked(probe: HealthCheck, fix: bool) -> Finding:
    try:
        finding = probe.look()
        if not fix or probe.repair is None or finding.status is FindingStatus.OK:
            return finding
        fixed = tuple(probe.repair())
        return structs.replace(probe.look(), fixed=fixed) if fixed else finding
    except UserError as error:
        return Finding(probe.name, FindingStatus.WARN, f"could not be looked at: {error}")
    except Exception as error:
        found = f"could not be looked at ({type(error).__name__}: {error})"
        advice = "This is a defect of joey, unless the machine is to blame: please report it."
        return Finding(probe.name, FindingStatus.WARN, found, advice)


def _show_progress(futures: Sequence[Future[Finding]]) -> None:
    if columns(sys.stderr) is None:
        return
    for done, _ in enumerate(as_completed(futures), 1):
        sys.stderr.write(f"\r\x1b[Klooking: {done} of {len(futures)}…")
        sys.stderr.flush()
    sys.stderr.write("\r\x1b[K")
    sys.stderr.flush()


def _print(findings: Iterable[Finding]) -> None:
    coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    width = columns(sys.stdout)
    for finding in findings:
        mark = _STATUS_MARKS[finding.status]
        line = wrap(f"{mark} {finding.name}: {_indented(finding.found)}", width)
        if coloured:
            line = f"\x1b[{_STATUS_ANSI_COLOURS[finding.status]}m{mark}\x1b[0m{line.removeprefix(mark)}"
        print(line)
        if finding.advice:
            print(wrap(f"    {_indented(finding.advice)}", width))
        for done in finding.fixed:
            print(wrap(f"    fixed: {one_line(done, 400)}", width))


def _indented(text: str) -> str:
    return sanitise(text).replace("\n", "\n    ")
