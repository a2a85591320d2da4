"""JSON files of ours, replaced so that no moment shows half of one."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from joey.errors import ConfigError
from joey.system.files import make_folder

PRIVATE = 0o600


def replace_json(path: Path, value: dict[str, Any], mode: int = PRIVATE) -> None:
    """Write `value`; folders that are missing are made, for their owner alone.

    Raises:
        ConfigError: it cannot be written; what was there is untouched.
    """
    data = json.dumps(value, indent=2, ensure_ascii=False).encode() + b"\n"
    try:
        if mode == PRIVATE:
            make_folder(path.parent)
        else:
            path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(".tmp", ".joey-", path.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                os.fchmod(descriptor, mode)
                file.write(data)
                file.flush()
                os.fsync(descriptor)
            Path(temporary).replace(path)
        finally:
            Path(temporary).unlink(missing_ok=True)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}.") from error
