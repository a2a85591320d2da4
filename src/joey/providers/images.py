"""Image generation: OpenAI's own endpoint for it, or a chat that answers with an image."""

from __future__ import annotations

from typing import Any

import msgspec

from joey.core.settings import Profile
from joey.errors import ProviderError, ToolError
from joey.ports import ImageGenerator
from joey.providers import errors
from joey.providers.errors import service_of
from joey.providers.http import HttpClient
from joey.providers.registry import endpoint, find_kind

_MAX_RESPONSE_BYTES = 64 * 1024 * 1024
_CHAT_PATH = "/chat/completions"


class ProfileImageGenerator:
    """The service that a profile names, asked for pictures."""

    def __init__(self, profile: Profile, http: HttpClient) -> None:
        kind = find_kind(profile.provider)
        self._chat_url = endpoint(kind, profile.base_url)
        self._own_endpoint = kind.name == "openai" and not profile.base_url
        self._http = http
        self._profile = profile
        self._service = service_of(profile, self._chat_url)

    async def generate(self, prompt: str, image: str | None = None) -> str:
        if self._own_endpoint and image is None:
            url = f"{self._chat_url.removesuffix(_CHAT_PATH)}/images/generations"
            return _generated(await self._ask(url, {"prompt": prompt}))
        content: list[dict[str, Any]] = [{"type": "text", "text": prompt}]
        if image is not None:
            content.append({"type": "image_url", "image_url": {"url": image}})
        message = {"role": "user", "content": content}
        body = {"messages": [message], "modalities": ["image", "text"]}
        try:
            return _answered(await self._ask(self._chat_url, body))
        except ToolError as error:
            raise ToolError(self._service.without_secrets(str(error))) from error

    async def _ask(self, url: str, body: dict[str, Any]) -> Any:
        profile = self._profile
        headers = {"content-type": "application/json", "user-agent": "joey", **profile.headers}
        if profile.api_key:
            headers["authorization"] = f"Bearer {profile.api_key}"
        data = msgspec.json.encode({"model": profile.model, **body})
        try:
            response = await self._http.post(url, headers, [data], silence=profile.request_timeout)
            async with response:
                answer = await response.read_all(_MAX_RESPONSE_BYTES)
                if response.status != 200:
                    raise errors.refusal(self._service, response.status, response.headers, answer)
        except ProviderError as error:
            reason = self._service.without_secrets(str(error))
            raise ToolError(f"No picture was made: {reason}") from error
        try:
            return msgspec.json.decode(answer)
        except errors.JSON_DECODE_ERRORS as error:
            raise ToolError("No picture was made: the service's answer is not JSON.") from error


def _generated(answer: Any) -> str:
    match answer:
        case {"data": [{"b64_json": str(data)}, *_]}:
            return f"data:image/png;base64,{data}"
    raise ToolError("No picture was made: the service's answer has none.")


def _answered(answer: Any) -> str:
    match answer:
        case {"error": {"message": str(message)}}:
            raise ToolError(f"No picture was made: {message}")
        case {"choices": [{"message": {"images": [{"image_url": {"url": str(url)}}, *_]}}, *_]}:
            return url
        case {"choices": [{"message": {"content": str(text)}}, *_]} if text.strip():
            raise ToolError(f"No picture was made; the model said: {text.strip()[:500]}")
    raise ToolError("No picture was made: the service's answer has none.")


_fits: type[ImageGenerator] = ProfileImageGenerator
