"""Recording of the requests of joey's own tasks, into the book that `joey proxy` reads.

If recording fails, it stops, the task is told why once, and the task continues.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path

from joey.app.known_secrets import KNOWN_SECRETS
from joey.core.redaction import KnownSecrets, collect_secret_values
from joey.core.settings import Profile
from joey.errors import JoeyError
from joey.ports.model import OutgoingRequest, ResponseEnding
from joey.providers.http_connection import parse_url
from joey.proxy.book import BOOK_FILE
from joey.proxy.exchange import Exchange, ExchangeState, Wire
from joey.proxy.filing import BookLimits
from joey.proxy.http_messages import ResponseStart
from joey.proxy.recorder import ExchangeRecorder, Recording

log = logging.getLogger(__name__)

_MAX_BOOK_BYTES = 2048 * 1_000_000
_STATES = {
    ResponseEnding.COMPLETE: ExchangeState.DONE,
    ResponseEnding.ABANDONED: ExchangeState.CUT_CLIENT,
    ResponseEnding.BROKEN: ExchangeState.CUT_UPSTREAM,
    ResponseEnding.UNREACHABLE: ExchangeState.UNREACHABLE,
}


class TaskRequestRecorder:
    """Records for all tasks of one engine. The book is opened at the first request, in a thread,
    since other processes may be writing to it."""

    def __init__(self, home: Path) -> None:
        self._book = home / "proxy" / BOOK_FILE
        self._opening: asyncio.Task[ExchangeRecorder | None] | None = None
        self._keys = KnownSecrets()
        self.failure = ""

    def add_profile(self, profile: Profile) -> None:
        """Add a profile whose keys are masked in any field of a body: the model may have read them
        in a file."""
        secrets = (profile.credentials, profile.headers)
        self._keys.add(
            profile.api_key, *(v for each in secrets for v in collect_secret_values(each))
        )

    async def record(self, request: OutgoingRequest) -> TaskResponseRecording | None:
        if self.failure:
            return None
        if self._opening is None:
            self._opening = asyncio.create_task(self._open(), name="joey-recorder")
        recorder = await asyncio.shield(self._opening)
        if recorder is None:
            return None
        recording = recorder.open(self._build_exchange(request))
        for piece in request.body:
            recording.add_request(self._keys.mask(piece))
        return TaskResponseRecording(recording)

    async def close(self) -> None:
        """Close the book after everything pending is written."""
        if self._opening is None:
            return
        recorder = await self._opening
        if recorder is not None:
            await asyncio.to_thread(recorder.close)

    async def _open(self) -> ExchangeRecorder | None:
        try:
            return await asyncio.to_thread(
                ExchangeRecorder,
                self._book,
                self._fail,
                limits=BookLimits(max_bytes=_MAX_BOOK_BYTES),
            )
        except JoeyError as error:
            self._fail(str(error))
            return None

    def _build_exchange(self, request: OutgoingRequest) -> Exchange:
        address = parse_url(request.url)
        return Exchange(
            at=0,
            wire=_find_wire(address.path, request.headers),
            method=request.method,
            path=self._keys.mask(address.path.encode("ascii")).decode("ascii"),
            upstream=f"{'https' if address.is_secure else 'http'}://{address.authority}",
            request_headers=tuple(
                (name, _mask_header(name, value)) for name, value in request.headers.items()
            ),
            task_id=request.task_id,
        )

    def _fail(self, reason: str) -> None:
        """Stop recording after an error; also called in the writer thread."""
        self.failure = KNOWN_SECRETS.redact(reason)
        log.info("recording of requests has stopped: %s", self.failure)  # a row tells the user


class TaskResponseRecording:
    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._has_ended = False

    def add_head(self, status: int, headers: Mapping[str, str]) -> None:
        start = ResponseStart(status, headers=tuple(headers.items()))
        self._recording.add_response_head(start, is_framed=False)

    def add_content(self, data: bytes) -> None:
        self._recording.add_response(data)

    def end(self, ending: ResponseEnding, error: str = "") -> None:
        if not self._has_ended:
            self._has_ended = True
            self._recording.end(_STATES[ending], KNOWN_SECRETS.redact(error))


def _find_wire(path: str, headers: Mapping[str, str]) -> Wire:
    endpoint = path.partition("?")[0]
    is_messages = endpoint.endswith(("/messages", ":streamRawPredict"))
    return Wire.ANTHROPIC if is_messages or "anthropic-version" in headers else Wire.OPENAI


def _mask_header(name: str, value: str) -> str:
    """Mask headers set by profiles, which can have any name; the recorder masks known names
    itself."""
    is_public = name == "user-agent" or KNOWN_SECRETS.redact(value) == value
    return value if is_public else "*" * len(value)
