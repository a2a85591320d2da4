"""The recorder of exchanges: masks secrets, spools each piece, and hands ended exchanges to filing.

If the disk is full, or the spool cannot be written for another reason, recording stops for good and
reports that once; the recorded traffic continues undisturbed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec import structs

from joey.errors import StoreError
from joey.proxy.book import open_book
from joey.proxy.exchange import Exchange, ExchangeState, find_header
from joey.proxy.filing import BookLimits, FilingThread, file_left_spools
from joey.proxy.http_messages import ResponseStart
from joey.proxy.masking import BodyMasker, make_body_masker, mask_headers, mask_target
from joey.proxy.spool import (
    FrameKind,
    SpoolDirectory,
    SpooledEnd,
    SpooledHead,
    SpoolFile,
    get_spool_root,
)


class ExchangeRecorder:
    """Records exchanges in one thread. Several processes may record into one book."""

    def __init__(
        self,
        book: Path,
        on_failure: Callable[[str], None],
        *,
        keeps_bodies: bool = True,
        limits: BookLimits | None = None,
    ) -> None:
        """Files exchanges left by dead processes first. `on_failure` gets one sentence when
        recording has to stop; it may be called in another thread. Raises StoreError."""
        self.keeps_bodies = keeps_bodies
        self._on_failure = on_failure
        self._is_stopped = False
        self._count = 0
        self._last_at = 0
        root = get_spool_root(book)
        with open_book(book) as opened:
            file_left_spools(opened)
        self.name = f"{os.getpid()}-{time.time_ns()}"
        """Of this process, in the book."""
        try:
            self._directory = SpoolDirectory(root, self.name)
        except OSError as error:
            raise StoreError(f"The spool {root} cannot be used: {error.strerror}.") from error
        self._filing = FilingThread(book, limits or BookLimits(), self._stop)

    def open(self, exchange: Exchange) -> Recording:
        """Record a request whose head has arrived. `exchange` has its original headers and path,
        secrets included; `at` is set here."""
        self._last_at = max(time.time_ns() // 1_000_000, self._last_at + 1)
        self._count += 1
        masked = structs.replace(
            exchange,
            at=self._last_at,
            path=mask_target(exchange.path.encode("latin-1")).decode("latin-1"),
            request_headers=mask_headers(exchange.request_headers),
            has_bodies=self.keeps_bodies,
        )
        return Recording(self, self._count, exchange, masked)

    def create_file(self, number: int) -> SpoolFile | None:
        if self._is_stopped:
            return None
        try:
            return self._directory.create_file(number)
        except OSError as error:
            self.fail(error)
            return None

    def fail(self, error: OSError) -> None:
        self._stop(f"the spool {self._directory.path} cannot be written: {error.strerror}")

    def file(self, spool: SpoolFile) -> None:
        self._filing.add(spool.path)

    def close(self) -> None:
        """Return when all ended exchanges are filed."""
        self._filing.close()
        self._directory.close()

    def _stop(self, reason: str) -> None:
        if not self._is_stopped:
            self._is_stopped = True
            self._on_failure(reason)


class Recording:
    """One exchange in progress. No method raises."""

    def __init__(
        self, recorder: ExchangeRecorder, number: int, raw: Exchange, masked: Exchange
    ) -> None:
        self._recorder = recorder
        self._started = time.monotonic()
        self._file = recorder.create_file(number)
        content_type = find_header(raw.request_headers, "content-type")
        self._masker: BodyMasker = make_body_masker(content_type)
        self._keeps_request = recorder.keeps_bodies and not _is_compressed(raw)
        self.keeps_response = recorder.keeps_bodies
        self._request_bytes = self._response_bytes = 0
        self._write(FrameKind.OPEN, msgspec.json.encode(masked))

    def add_request(self, content: bytes) -> None:
        """Record content of the request's body, without framing."""
        self._request_bytes += len(content)
        if self._keeps_request and self._file is not None:
            self._write(FrameKind.REQUEST, self._masker.feed(content))

    def add_response_head(self, start: ResponseStart, *, is_framed: bool) -> None:
        head = SpooledHead(start.status, mask_headers(start.headers), is_framed)
        self._write(FrameKind.RESPONSE_HEAD, msgspec.json.encode(head))

    def add_response(self, data: bytes) -> None:
        """Record bytes after the head, with framing, unless `add_response_head` was told
        otherwise."""
        self._write(FrameKind.RESPONSE, data)

    def count_response(self, size: int) -> None:
        """Count bytes instead of `add_response`, if responses are not recorded."""
        self._response_bytes += size

    def end(self, state: ExchangeState, error: str = "") -> None:
        if self._file is None:
            return
        end = SpooledEnd(
            state,
            error,
            None if self._keeps_request else self._request_bytes,
            None if self.keeps_response else self._response_bytes,
        )
        self._write(FrameKind.END, msgspec.json.encode(end))
        if self._file is not None:
            self._file.close()
            self._recorder.file(self._file)
            self._file = None

    def _write(self, kind: FrameKind, data: bytes) -> None:
        if self._file is None:
            return
        try:
            self._file.write(kind, (time.monotonic() - self._started) * 1000, data)
        except OSError as error:
            self._file.close()
            self._file = None
            self._recorder.fail(error)


def _is_compressed(exchange: Exchange) -> bool:
    """Whether secrets in the request's body cannot be masked."""
    return any(
        name.lower() == "content-encoding" and value.strip().lower() not in ("", "identity")
        for name, value in exchange.request_headers
    )
