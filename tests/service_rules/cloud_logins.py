"""Logins of clouds on loopback: they give short-lived credentials to the clouds' own libraries, and
know which of them are valid in a request."""

from __future__ import annotations

import base64
import json
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from joey.testing.script import Fail
from joey.testing.server import Request
from tests.harness.providers.sockets import Reader, Writer, read_request, run_server

REGION = "eu-west-1"
PROJECT = "my-project-7"


class CloudLogin(ABC):
    """Gives a new token whenever it is asked; the one before has then expired."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.url = ""
        self.given = 0
        """How many tokens have been asked for."""

    @classmethod
    @asynccontextmanager
    async def serve(cls, directory: Path) -> AsyncIterator[Self]:
        login = cls(directory)
        async with run_server(login._answer) as port:
            login.url = f"http://127.0.0.1:{port}"
            yield login

    async def _answer(self, reader: Reader, writer: Writer) -> None:
        head, body = await read_request(reader)
        _, path, _ = head.split(b" ", 2)
        lines = head.decode().lower().split("\r\n")[1:]
        headers = dict(line.split(": ", 1) for line in lines if ": " in line)
        status, answer = self._give(path.decode(), headers, body)
        data = json.dumps(answer).encode()
        writer.write(
            b"HTTP/1.1 %d Said\r\ncontent-type: application/json\r\ncontent-length: %d\r\n"
            b"connection: close\r\n\r\n%b" % (status, len(data), data)
        )
        await writer.drain()

    @property
    def token(self) -> str:
        return f"token-{type(self).__name__}-{self.given}"

    @property
    @abstractmethod
    def env(self) -> dict[str, str]:
        """What the library finds the login by."""

    @abstractmethod
    def _give(self, path: str, headers: dict[str, str], body: bytes) -> tuple[int, Any]: ...

    @abstractmethod
    def check(self, request: Request) -> Fail | None:
        """The service's answer to a request that does not carry what was given last."""

    def _has_token(self, request: Request) -> bool:
        return request.headers.get("authorization") == f"Bearer {self.token}"


class AwsLogin(CloudLogin):
    """The credentials of a container, which AWS's library renews ten minutes before they expire."""

    @property
    def env(self) -> dict[str, str]:
        return {
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{self.url}/credentials",
            "AWS_REGION": REGION,
        }

    @property
    def credentials(self) -> Credentials:
        return Credentials(f"AKIDEXAMPLE{self.given}", f"secret/{self.given}+x", self.token)

    def _give(self, path: str, headers: dict[str, str], body: bytes) -> tuple[int, Any]:
        assert path == "/credentials"
        self.given += 1
        given = self.credentials
        return 200, {
            "AccessKeyId": given.access_key,
            "SecretAccessKey": given.secret_key,
            "Token": given.token,
            "Expiration": (datetime.now(UTC) + timedelta(minutes=9)).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }

    def check(self, request: Request) -> Fail | None:
        return check_signature(request, self.credentials)


def check_signature(request: Request, credentials: Credentials) -> Fail | None:
    """Sign the request as it arrived with AWS's own signer, and compare."""
    sent = request.headers.get("authorization", "")
    if not sent.startswith("AWS4-HMAC-SHA256 "):
        return fail_aws(403, "MissingAuthenticationTokenException", "Missing Authentication Token")
    fields = dict(part.strip().split("=", 1) for part in sent.partition(" ")[2].split(","))
    access, _, scope = fields["Credential"].partition("/")
    if request.headers.get("x-amz-security-token") != credentials.token:
        text = "The security token included in the request is expired"
        return fail_aws(403, "ExpiredTokenException", text)
    if access != credentials.access_key:
        text = "The security token included in the request is invalid."
        return fail_aws(403, "UnrecognizedClientException", text)
    stamp = request.headers["x-amz-date"]
    if scope != f"{stamp[:8]}/{REGION}/bedrock/aws4_request":
        text = f"Credential should be scoped to a valid region, not {scope}."
        return fail_aws(403, "InvalidSignatureException", text)
    signed = {name: request.headers[name] for name in fields["SignedHeaders"].split(";")}
    again = AWSRequest("POST", f"http://{signed['host']}{request.path}", signed, request.raw)
    again.context["timestamp"] = stamp
    signer = SigV4Auth(credentials, "bedrock", REGION)
    text_to_sign = signer.string_to_sign(again, signer.canonical_request(again))
    if signer.signature(text_to_sign, again) != fields["Signature"]:
        text = "The request signature we calculated does not match the signature you provided."
        return fail_aws(403, "InvalidSignatureException", text)
    return None


def fail_aws(status: int, kind: str, message: str) -> Fail:
    headers = {"x-amzn-errortype": f"{kind}:http://internal.amazon.com/coral/com.amazon.bedrock/"}
    return Fail(status, body=json.dumps({"message": message}), headers=headers)


class GoogleLogin(CloudLogin):
    """The token endpoint of a service account, whose key signs what asks for a token."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    @property
    def account(self) -> dict[str, str]:
        """The key file."""
        pem = self._key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        return {
            "type": "service_account",
            "project_id": PROJECT,
            "private_key_id": "1",
            "private_key": pem.decode(),
            "client_email": "me@example.iam.gserviceaccount.com",
            "token_uri": f"{self.url}/token",
        }

    @property
    def env(self) -> dict[str, str]:
        path = self._directory / "service-account.json"
        path.write_text(json.dumps(self.account))
        return {
            "GOOGLE_APPLICATION_CREDENTIALS": str(path),
            "GOOGLE_CLOUD_PROJECT": PROJECT,
            "GOOGLE_CLOUD_LOCATION": REGION,
        }

    def _give(self, path: str, headers: dict[str, str], body: bytes) -> tuple[int, Any]:
        assert path == "/token"
        (assertion,) = parse_qs(body.decode())["assertion"]
        signed, _, signature = assertion.rpartition(".")
        padded = signature + "=" * (-len(signature) % 4)
        self._key.public_key().verify(
            base64.urlsafe_b64decode(padded), signed.encode(), padding.PKCS1v15(), hashes.SHA256()
        )
        claims = signed.partition(".")[2]
        said = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
        assert said["scope"] == "https://www.googleapis.com/auth/cloud-platform"
        self.given += 1
        return 200, {"access_token": self.token, "expires_in": 60, "token_type": "Bearer"}

    def check(self, request: Request) -> Fail | None:
        if self._has_token(request):
            return None
        error = {
            "code": 401,
            "message": "Request had invalid authentication credentials. Expected OAuth 2 access"
            " token, login cookie or other valid authentication credential.",
            "status": "UNAUTHENTICATED",
        }
        return Fail(401, body=json.dumps([{"error": error}]))


class EntraLogin(CloudLogin):
    """The managed identity of an app."""

    @property
    def env(self) -> dict[str, str]:
        return {"IDENTITY_ENDPOINT": f"{self.url}/msi/token", "IDENTITY_HEADER": "let-me-in"}

    def _give(self, path: str, headers: dict[str, str], body: bytes) -> tuple[int, Any]:
        parts = urlsplit(path)
        assert (parts.path, headers["x-identity-header"]) == ("/msi/token", "let-me-in")
        (resource,) = parse_qs(parts.query)["resource"]
        assert resource == "https://ai.azure.com"
        self.given += 1
        expires = str(int(time.time()) + 60)
        return 200, {
            "access_token": self.token,
            "expires_on": expires,
            "resource": resource,
            "token_type": "Bearer",
        }

    def check(self, request: Request) -> Fail | None:
        if self._has_token(request):
            return None
        error = {
            "code": "401",
            "message": "Access denied due to invalid subscription key or wrong API endpoint. Make"
            " sure to provide a valid key for an active subscription and use a correct regional API"
            " endpoint for your resource.",
        }
        return Fail(401, body=json.dumps({"error": error}))
