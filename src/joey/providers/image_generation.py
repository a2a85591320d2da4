"""Image generation: OpenAI's own endpoint for it, or a chat that answers with an image."""

from __future__ import annotations

from typing import Any

import msgspec

from joey.core.settings import Profile
from joey.errors import ProviderError, ToolError
from joey.ports.model import ImageGenerator
from joey.providers import errors
from joey.providers.catalog import build_endpoint_url, find_provider_spec
from joey.providers.errors import build_service_info
from joey.providers.http_client import HttpClient

_MAX_RESPONSE_BYTES = 64 * 1024 * 1024
_CHAT_PATH = "/chat/completions"


class ProfileImageGenerator:
    """Generates images with the service of a profile."""

    def __init__(self, profile: Profile, http: HttpClient) -> None:
        kind = find_provider_spec(profile.provider)
        self._chat_url = build_endpoint_url(kind, profile.base_url)
        self._has_images_endpoint = kind.name == "openai" and not profile.base_url
        self._http = http
        self._profile = profile
        self._service = build_service_info(profile, self._chat_url)

    async def generate(self, prompt: str, image: str | None = None) -> str:
        if self._has_images_endpoint and image is None:
            url = f"{self._chat_url.removesuffix(_CHAT_PATH)}/images/generations"
            return _extract_generated_image(await self._post_json(url, {"prompt": prompt}))
        content: list[dict[str, Any]] = [{"type": "text", "text": prompt}]
        if image is not None:
            content.append({"type": "image_url", "image_url": {"url": image}})
        message = {"role": "user", "content": content}
        body = {"messages": [message], "modalities": ["image", "text"]}
        try:
            return _extract_chat_image(await self._post_json(self._chat_url, body))
        except ToolError as error:
            raise ToolError(self._service.redact(str(error))) from error

    async def _post_json(self, url: str, body: dict[str, Any]) -> Any:
        profile = self._profile
        headers = {"content-type": "application/json", "user-agent": "joey", **profile.headers}
        if profile.api_key:
            headers["authorization"] = f"Bearer {profile.api_key}"
        data = msgspec.json.encode({"model": profile.model, **body})
        try:
            response = await self._http.post(
                url, headers, [data], read_timeout=profile.request_timeout
            )
            async with response:
                answer = await response.read_all(_MAX_RESPONSE_BYTES)
                if response.status != 200:
                    raise errors.build_response_error(
                        self._service, response.status, response.headers, answer
                    )
        except ProviderError as error:
            reason = self._service.redact(str(error))
            raise ToolError(f"No image was generated: {reason}") from error
        try:
            return msgspec.json.decode(answer)
        except errors.JSON_DECODE_ERRORS as error:
            raise ToolError("No image was generated: the service's answer is not JSON.") from error


def _extract_generated_image(answer: Any) -> str:
    match answer:
        case {"data": [{"b64_json": str(data)}, *_]}:
            return f"data:image/png;base64,{data}"
    raise ToolError("No image was generated: the service's answer has none.")


def _extract_chat_image(answer: Any) -> str:
    match answer:
        case {"error": {"message": str(message)}}:
            raise ToolError(f"No image was generated: {message}")
        case {"choices": [{"message": {"images": [{"image_url": {"url": str(url)}}, *_]}}, *_]}:
            return url
        case {"choices": [{"message": {"content": str(text)}}, *_]} if text.strip():
            raise ToolError(f"No image was generated; the model said: {text.strip()[:500]}")
    raise ToolError("No image was generated: the service's answer has none.")


_protocol_check: type[ImageGenerator] = ProfileImageGenerator
