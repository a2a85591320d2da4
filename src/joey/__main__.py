"""The entry point of `python -m joey`."""

from __future__ import annotations

import sys

from joey.cli.main import run

sys.exit(run())
