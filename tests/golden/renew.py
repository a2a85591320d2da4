"""Write the golden files anew: `python -m tests.golden.renew [PYTEST ARGUMENTS]`.

Only for a deliberate change of a format. Review `git diff tests/golden/data` before you commit.
The task folders in `data/corpus` are not touched: `tests/golden/write_corpus.py` wrote them.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.golden import RENEWING


def main() -> int:
    os.environ[RENEWING] = "1"
    directory = str(Path(__file__).parent)
    return int(pytest.main([directory, "-p", "no:cacheprovider", *sys.argv[1:]]))


if __name__ == "__main__":
    sys.exit(main())
