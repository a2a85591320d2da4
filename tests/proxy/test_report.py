"""The report on recorded traffic, against the numbers of its generator."""

from __future__ import annotations

from pathlib import Path

import pytest

from joey.proxy.failures import FailureKind
from joey.proxy.report import ReportDetails, build_report
from tests.harness.proxy import roo_traffic
from tests.harness.proxy.filing import open_recordings


@pytest.fixture
def details(tmp_path: Path) -> ReportDetails:
    recordings = open_recordings(tmp_path / "book.sqlite", roo_traffic.build_traffic())
    return build_report(recordings, recordings.list_sessions())


def test_real_sessions_are_separate_from_test_traffic(details: ReportDetails) -> None:
    report = details.report
    assert (report.requests, report.sessions) == (85, 43)
    assert (report.real_sessions, report.test_sessions) == (10, 33)
    clients = {(each.name, each.by, each.sessions, each.requests) for each in report.clients}
    assert clients == {("roo-code", "prompt", 10, 26), ("axios", "agent", 33, 59)}
    assert [session.requests for session in details.sessions] == [
        *roo_traffic.REAL_TURNS,
        *roo_traffic.TEST_TURNS,
    ]


def test_fields_say_how_constant_they_are(details: ReportDetails) -> None:
    fields = {each.path: each for each in details.report.fields}
    for path, value in (
        ("model", "qwen3-max"),
        ("temperature", 0),
        ("stream", True),
        ("stream_options.include_usage", True),
    ):
        assert (fields[path].presence, fields[path].values) == (1.0, (value,))
    assert fields["messages[].role"].values == ("system", "user", "assistant")
    assert fields["messages[].content[].type"].values == ("text",)
    assert "tools" not in fields


def test_prompt_has_ten_sections_and_describes_its_tools(details: ReportDetails) -> None:
    prompt = details.report.system_prompt
    headings = [heading for heading, _, _ in roo_traffic.SECTIONS]
    assert [section.heading for section in prompt.sections] == ["", *headings]
    assert prompt.bytes == sum(section.bytes for section in prompt.sections) > 20_000
    assert not any(section.changed for section in prompt.sections)
    assert list(details.report.tools) == roo_traffic.TOOLS


def test_format_mismatch_and_complaint_are_found(details: ReportDetails) -> None:
    report = details.report
    assert report.formats == {
        "native": 0,
        "xml": 16,
        "tool_code": 10,
        "tool_call": 0,
        "json": 0,
        "function": 0,
        "none": 0,
    }
    complaints = [each for each in report.failures if each.kind is FailureKind.COMPLAINT]
    with_second_turn = [each.id for each in details.sessions if each.real and each.requests > 1]
    assert [(each.session, each.turn) for each in complaints] == [(n, 1) for n in with_second_turn]
    assert all("did not use a tool" in each.text for each in complaints)
