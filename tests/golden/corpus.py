"""The corpus of task directories."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.golden.golden import DATA
from tests.golden.program import Program

CORPUS = DATA / "corpus"


def in_corpus(tmp_path: Path) -> Program:
    program = Program(tmp_path)
    shutil.copytree(CORPUS / "tasks", program.home / "tasks")
    return program
