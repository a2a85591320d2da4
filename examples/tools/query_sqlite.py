"""A tool for the model: read-only queries of SQLite databases. Copy it to ~/.roo/tools/."""

import json
import sqlite3
from pathlib import Path

MAX_ROWS = 100


def run(database: str, query: str) -> str:
    """Run one SELECT against a SQLite database of the workspace; the rows as JSON."""
    uri = f"{Path(database).resolve().as_uri()}?mode=ro"
    connection = sqlite3.connect(uri, uri=True)
    try:
        found = connection.execute(query)
        names = [column[0] for column in found.description or ()]
        rows = [dict(zip(names, row, strict=True)) for row in found.fetchmany(MAX_ROWS)]
        return json.dumps(rows, ensure_ascii=False, default=str)
    finally:
        connection.close()
