"""docs/contract.md and the tests agree: no promise without a test, no id without a promise."""

from __future__ import annotations

import re
from collections import Counter

from tests.harness.contract import CONTRACT, TOOL_PREFIX, list_shown_ids, load_promises
from tests.harness.document_links import is_target


def test_every_id_in_a_test_is_a_promise() -> None:
    promises = load_promises()
    unknown = [
        f"{id} in {file}"
        for file, id in list_shown_ids()
        if not id.startswith(TOOL_PREFIX) and id not in promises
    ]
    assert unknown == []


def test_every_promise_is_shown_by_a_test() -> None:
    shown = {id for _, id in list_shown_ids()}
    assert [id for id in load_promises() if id not in shown] == []


def test_every_promise_is_made_once() -> None:
    ids = re.findall(r"^\| `([^`]+)` \|", CONTRACT.read_text(encoding="utf-8"), re.MULTILINE)
    assert [id for id, count in Counter(ids).items() if count > 1] == []
    assert len(ids) == len(load_promises())


def test_every_promise_is_described_in_a_section_that_exists() -> None:
    missing = []
    for id, (_, link) in load_promises().items():
        if not is_target(CONTRACT, link):
            missing.append(f"{id}: {link}")
    assert missing == []
