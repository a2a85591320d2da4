"""A service that makes images."""

from __future__ import annotations

import base64
import http.server
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

PNG = b"\x89PNG\r\n\x1a\n" + b"picture"


URI = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"


class ImageServer(http.server.BaseHTTPRequestHandler):
    answer: tuple[int, Any] = (200, {})
    request_bodies: list[Any] = []  # noqa: RUF012 (a server of its own for each test)

    def do_POST(self) -> None:
        size = int(self.headers["content-length"])
        self.request_bodies.append((self.path, json.loads(self.rfile.read(size))))
        status, answer = self.answer
        data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Tests are quiet."""


@pytest.fixture
def image_server() -> Iterator[tuple[type[ImageServer], str]]:
    kind = type("Painter", (ImageServer,), {"request_bodies": []})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), kind) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield kind, f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()
        thread.join()


def make_image_answer(uri: str) -> tuple[int, Any]:
    message = {"content": "", "images": [{"image_url": {"url": uri}}]}
    return 200, {"choices": [{"message": message}]}
