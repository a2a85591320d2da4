"""`python -m joey`."""

from __future__ import annotations

import sys

from joey.cli.main import main

sys.exit(main())
