"""The golden files hold nothing of the machine that wrote them."""

from __future__ import annotations

import re

from tests.golden.golden import DATA

_OF_A_MACHINE = re.compile(
    rb"/(?:tmp|root|var|private|Users)/|/home/(?!(?:ann|ben)/)|127\.0\.0\.1:\d"
)


def test_no_golden_file_holds_a_path_or_an_address_of_a_machine() -> None:
    found = {
        str(path.relative_to(DATA)): match[0]
        for path in sorted(DATA.rglob("*.*"))
        if path.is_file() and (match := _OF_A_MACHINE.search(path.read_bytes()))
    }
    assert found == {}
