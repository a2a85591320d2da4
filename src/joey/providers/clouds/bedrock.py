"""Amazon Bedrock: requests signed with AWS credentials, or with a Bedrock API key, and its stream.

Every model is reached by the Converse API, in one form.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import structs

from joey.core.settings import Profile
from joey.errors import ConfigError, ProviderError
from joey.providers import errors
from joey.providers.clouds.converse import ConverseRequestBuilder, ConverseStreamDecoder
from joey.providers.clouds.login import check_name, load_library, translate_login_errors
from joey.providers.conversation_encoder import RequestBuilder
from joey.providers.errors import ServiceInfo
from joey.providers.sse import ServerSentEvent
from joey.providers.sse_transport import StreamDecoder, StreamingProvider

_SIGNING_NAME = "bedrock"
_CACHE_MARKS = "cache_control"
_OTHER_NAMES = {b'"outputConfig":': b'"output_config":', b'"topP":': b'"top_p":'}
_ADVICE = "Run `aws login` or `aws configure`, or set AWS_BEARER_TOKEN_BEDROCK."


class BedrockProvider(StreamingProvider):
    api_protocol = "anthropic"

    def _build_url(self, profile: Profile) -> str:
        base = profile.base_url or f"https://bedrock-runtime.{self._region}.amazonaws.com"
        return f"{base.rstrip('/')}/model/{quote(profile.model, safe='')}/converse-stream"

    @cached_property
    def _session(self) -> Any:
        return _load("session").Session(profile=self._profile.credentials.get("profile"))

    @cached_property
    def _region(self) -> str:
        arn = self._profile.model.split(":")
        if arn[0] == "arn" and len(arn) > 3:
            return check_name(arn[3], "region")  # it is known in no other
        try:
            region = self._profile.region or self._session.get_config_variable("region")
        except _load("exceptions").BotoCoreError as error:
            raise ConfigError(f"The AWS configuration cannot be used: {error}") from error
        if not region:
            raise ConfigError(
                "Amazon Bedrock needs a region: set AWS_REGION, or `region` in the profile."
            )
        return check_name(str(region), "region")

    def _build_headers(self, profile: Profile) -> dict[str, str]:
        _load("session")
        key = {"authorization": f"Bearer {profile.api_key}"} if profile.api_key else {}
        return {"accept": "application/vnd.amazon.eventstream"} | key

    @cached_property
    def _credentials(self) -> Any:
        given = self._profile.credentials
        if "accessKey" in given and "secretKey" in given:
            keys = (given["accessKey"], given["secretKey"], given.get("sessionToken"))
            return _load("credentials").Credentials(*keys)
        found = self._session.get_credentials()
        if found is None:
            raise _load("exceptions").NoCredentialsError
        return found

    async def _authorize(self, body: Sequence[bytes]) -> Mapping[str, str]:
        if not self._service.login:
            return self._headers
        return await asyncio.to_thread(self._sign, b"".join(body))

    def _sign(self, body: bytes) -> Mapping[str, str]:
        """Sign the headers; credentials that expire soon are renewed."""
        network_error = _load("exceptions").HTTPClientError
        with translate_login_errors(self._service, _ADVICE, network_error):
            credentials = self._credentials.get_frozen_credentials()
        secrets = filter(None, (credentials.secret_key, credentials.token))
        self._service = structs.replace(self._service, secrets=(*self._profile.secrets, *secrets))
        request = _load("awsrequest").AWSRequest("POST", self._url, self._headers, body)
        _load("auth").SigV4Auth(credentials, _SIGNING_NAME, self._region).add_auth(request)
        return dict(request.headers.items())

    def _make_request_builder(self, refused: frozenset[str]) -> RequestBuilder:
        return ConverseRequestBuilder(self._profile, self.model, self._host, refused)

    def _find_refused_name(self, error: ProviderError, sent: bytes) -> str | None:
        """Find the rejected name. Bedrock quotes the model's error, whose names differ from
        Converse's."""
        if "prompt caching" in error.response and b'"cachePoint":' in sent:
            return _CACHE_MARKS
        for name, own_name in _OTHER_NAMES.items():
            sent = sent.replace(name, own_name)
        return super()._find_refused_name(error, sent)

    def _make_decoder(self) -> StreamDecoder:
        return ConverseStreamDecoder(self._service)

    def _make_reader(self) -> EventStreamReader:
        return EventStreamReader(self._service)


class EventStreamReader:
    """Reads frames of AWS's binary event streams; an exception becomes an event of that name."""

    def __init__(self, service: ServiceInfo) -> None:
        self._service = service
        self._frames = _load("eventstream").EventStreamBuffer()

    def feed(self, data: bytes) -> list[ServerSentEvent]:
        self._frames.add_data(data)
        try:
            return [_to_event(frame) for frame in self._frames]
        except _load("eventstream").ParserError as error:
            description = "a broken event stream"
            raise errors.build_malformed_response_error(self._service, description) from error


def _to_event(frame: Any) -> ServerSentEvent:
    headers = frame.headers
    if headers.get(":message-type") == "event":
        return ServerSentEvent(headers.get(":event-type", ""), frame.payload)
    code = headers.get(":exception-type") or headers.get(":error-code")
    message = headers.get(":error-message")
    if message is None:
        try:
            message = msgspec.json.decode(frame.payload)["message"]
        except (*errors.JSON_DECODE_ERRORS, KeyError, TypeError):
            message = frame.payload.decode("utf-8", "replace")
    said = {"code": code, "message": message}
    return ServerSentEvent(ConverseStreamDecoder.EXCEPTION, msgspec.json.encode(said))


def _load(name: str) -> Any:
    return load_library(f"botocore.{name}", "bedrock")
