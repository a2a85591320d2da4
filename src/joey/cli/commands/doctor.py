"""`joey doctor`: findings about the installation, with advice.

Checks run concurrently and independently: an error in one of them becomes its finding.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial

from msgspec import structs

from joey.cli.commands import doctor_checks, doctor_models
from joey.cli.commands.doctor_checks import Finding, FindingStatus, HealthCheck
from joey.cli.exit_codes import ExitCode
from joey.cli.logs import redact
from joey.cli.output import colour, encode_json, show_progress, write_stdout
from joey.errors import UserError
from joey.presentation.text import get_terminal_width, sanitize, to_one_line, wrap

_STATUS_MARKS = {
    FindingStatus.OK: "✓",
    FindingStatus.NONE: "-",
    FindingStatus.WARN: "!",
    FindingStatus.FAIL: "✗",
}
_STATUS_ANSI_COLOURS = {
    FindingStatus.OK: "32",
    FindingStatus.NONE: "2",
    FindingStatus.WARN: "33",
    FindingStatus.FAIL: "31",
}
HEALTH_CHECKS: tuple[HealthCheck, ...] = (
    HealthCheck("joey", doctor_checks.check_joey),
    HealthCheck("Python", doctor_checks.check_python),
    HealthCheck("Home", doctor_checks.check_joey_home),
    HealthCheck("Privacy", doctor_checks.check_file_privacy, doctor_checks.repair_file_privacy),
    HealthCheck("Disk", doctor_checks.check_disk_space),
    HealthCheck("Tasks", doctor_checks.check_tasks, doctor_checks.repair_tasks),
    HealthCheck("Index of tasks", doctor_checks.check_task_index, doctor_checks.repair_task_index),
    HealthCheck("bash", doctor_checks.check_bash),
    HealthCheck("ripgrep", doctor_checks.check_ripgrep),
    HealthCheck("git", doctor_checks.check_git),
    HealthCheck("Sandbox", doctor_checks.check_sandbox),
    HealthCheck("Browser", doctor_checks.check_browser),
    HealthCheck("Settings", doctor_checks.check_settings),
    HealthCheck("Modes and rules", doctor_checks.check_customizations),
    HealthCheck("MCP servers", doctor_checks.check_mcp_servers),
    HealthCheck("Hooks", doctor_checks.check_hooks),
    HealthCheck("This folder", doctor_checks.check_trust),
    HealthCheck("Profiles", doctor_checks.check_profiles, doctor_checks.repair_profiles),
    HealthCheck("Model catalogue", doctor_checks.check_model_catalog),
    HealthCheck("Keys", doctor_checks.check_api_keys),
    HealthCheck("Local models", doctor_models.check_local_servers, needs_network=True),
    HealthCheck(
        "Model",
        doctor_models.check_model,
        run_offline=partial(doctor_models.check_model, is_online=False),
    ),
    HealthCheck("Connection", doctor_models.check_connection, needs_network=True),
)


def run_doctor(arguments: Namespace) -> ExitCode:
    checks: Sequence[HealthCheck] = HEALTH_CHECKS
    if arguments.offline:
        checks = [
            structs.replace(check, run=check.run_offline or check.run)
            for check in HEALTH_CHECKS
            if not check.needs_network
        ]
    findings = run_checks(checks, fix=arguments.fix)
    failed = any(finding.status is FindingStatus.FAIL for finding in findings)
    if arguments.json:
        report = {"ok": not failed, "findings": findings}
        write_stdout(encode_json(report))
    else:
        _print_findings(findings)
    return ExitCode.FAILED if failed else ExitCode.DONE


def run_checks(checks: Sequence[HealthCheck], *, fix: bool = False) -> list[Finding]:
    """Run all checks and return their findings in order."""
    with ThreadPoolExecutor(len(checks)) as threads:
        futures = [threads.submit(_run_check, check, fix) for check in checks]
        for done, _ in enumerate(as_completed(futures), 1):
            show_progress(f"checking: {done} of {len(futures)}…")
        show_progress("")
        findings = [future.result() for future in futures]
    return [
        structs.replace(
            finding,
            name=check.name,
            observation=redact(finding.observation),  # errors may quote their input
            advice=redact(finding.advice),
            applied_fixes=tuple(map(redact, finding.applied_fixes)),
        )
        for check, finding in zip(checks, findings, strict=True)
    ]


def _run_check(check: HealthCheck, fix: bool) -> Finding:
    try:
        finding = check.run()
        if (
            not fix
            or check.repair is None
            or finding.status in (FindingStatus.OK, FindingStatus.NONE)
        ):
            return finding
        fixed = tuple(check.repair())
        return structs.replace(check.run(), applied_fixes=fixed) if fixed else finding
    except UserError as error:
        return Finding("", FindingStatus.WARN, f"the check failed: {error}")
    except Exception as error:
        found = f"the check failed ({type(error).__name__}: {error})"
        advice = "This is probably a bug in joey; please report it."
        return Finding("", FindingStatus.WARN, found, advice)


def _print_findings(findings: Iterable[Finding]) -> None:
    width = get_terminal_width(sys.stdout)
    for finding in findings:
        mark = _STATUS_MARKS[finding.status]
        line = wrap(f"{mark} {finding.name}: {_indent_text(finding.observation)}", width)
        print(colour(mark, _STATUS_ANSI_COLOURS[finding.status]) + line.removeprefix(mark))
        if finding.advice:
            print(wrap(f"    {_indent_text(finding.advice)}", width))
        for done in finding.applied_fixes:
            print(wrap(f"    fixed: {to_one_line(done, 400)}", width))


def _indent_text(text: str) -> str:
    return sanitize(text).replace("\n", "\n    ")
