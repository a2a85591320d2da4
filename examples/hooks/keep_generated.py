#!/usr/bin/env python3
"""Refuse edits of files that are generated. In settings.json:

{"hooks": [{"event": "beforeTool", "command": "/path/to/keep_generated.py"}]}
"""

import json
import sys
from fnmatch import fnmatch

GENERATED = ("*.lock", "*_pb2.py", "dist/*", "generated/*")

call = json.load(sys.stdin)
path = str(call["input"].get("path") or call["input"].get("file_path") or "")
if call["tool"] not in ("read_file", "list_files", "search_files"):
    for pattern in GENERATED:
        if fnmatch(path, pattern):
            print(f"{path} is generated: change what it is made from.", file=sys.stderr)
            sys.exit(2)  # the call is not made, and the model reads this
