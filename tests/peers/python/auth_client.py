"""A client on the official Python SDK that authorizes itself.

    auth_client.py --era modern|legacy|auto [OPTION…] --call NAME[=ARGUMENTS] … -- URL

    --browser COMMAND    command that opens the authorization URL, split at spaces outside of '…'; the URL is appended
    --client-id ID       a known client instead of registration
    --client-secret S    secret of the known client
    --client-metadata U  client id metadata document
    --grant GRANT        code (default) or client-credentials
    --pause SECONDS      wait before each call but the first

Prints one JSON line per step, like `../node/auth-client.mjs`. The exit code is 0 if all calls succeeded.
"""

import argparse
import asyncio
import json
import shlex
import sys
from typing import Any
from urllib.parse import parse_qs, urlsplit

from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

MODES = {"modern": "2026-07-28", "legacy": "legacy", "auto": "auto"}
# Longer than any login on a busy machine, and shorter than the deadline of the test that runs this program.
REDIRECT_SECONDS = 30
TOTAL_SECONDS = 50

parser = argparse.ArgumentParser()
parser.add_argument("--era", choices=MODES, required=True)
parser.add_argument("--browser")
parser.add_argument("--client-id")
parser.add_argument("--client-secret")
parser.add_argument("--client-metadata")
parser.add_argument("--grant", choices=["code", "client-credentials"], default="code")
parser.add_argument("--pause", type=float, default=0)
parser.add_argument("--call", action="append", default=[])
parser.add_argument("url")
given = parser.parse_args()


def report(step: str, **detail: Any) -> None:
    print(json.dumps({"step": step, **detail}), flush=True)


class Memory:
    """Token storage of one run."""

    def __init__(self, client: OAuthClientInformationFull | None) -> None:
        self.client = client
        self.tokens: OAuthToken | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens
        refreshable = tokens.refresh_token is not None
        report("tokens", type=tokens.token_type, scope=tokens.scope, refreshable=refreshable)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client: OAuthClientInformationFull) -> None:
        self.client = client
        report("register", client=client.client_id)


class RedirectListener:
    """Listens for redirects on a loopback address (RFC 8252, section 7.3)."""

    def __init__(self) -> None:
        self.arrived: asyncio.Queue[dict[str, list[str]]] = asyncio.Queue()

    async def start(self) -> None:
        self.server = await asyncio.start_server(self.answer, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self.server.sockets[0].getsockname()[1]}/callback"

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        target = urlsplit(head.split(b" ")[1].decode())
        is_known = target.path == "/callback"
        if is_known:
            self.arrived.put_nowait(parse_qs(target.query))
        status = b"200 OK" if is_known else b"404 Not Found"
        writer.write(b"HTTP/1.1 " + status + b"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    async def next(self) -> AuthorizationCodeResult:
        redirect = await asyncio.wait_for(self.arrived.get(), REDIRECT_SECONDS)
        one = {name: values[0] for name, values in redirect.items()}
        if "error" in one:
            raise RuntimeError(f"the authorization server refused: {one['error']}")
        return AuthorizationCodeResult(code=one["code"], state=one.get("state"), iss=one.get("iss"))


async def browse(url: str) -> None:
    asked = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
    report("authorize", client=asked["client_id"], resource=asked.get("resource"), scope=asked.get("scope"))
    if given.browser is None:
        raise RuntimeError("authorization is needed, but there is no --browser")
    await asyncio.create_subprocess_exec(*shlex.split(given.browser), url, stdout=asyncio.subprocess.DEVNULL)


def provider(listener: RedirectListener) -> OAuthClientProvider:
    if given.grant == "client-credentials":
        return ClientCredentialsOAuthProvider(
            server_url=given.url,
            storage=Memory(None),
            client_id=given.client_id,
            client_secret=given.client_secret,
            scope="mcp:read",
        )
    metadata = OAuthClientMetadata(
        client_name="auth-client",
        redirect_uris=[AnyUrl(listener.url)],
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
        token_endpoint_auth_method="none",
    )
    known = None
    if given.client_id is not None:
        known = OAuthClientInformationFull(
            client_id=given.client_id,
            client_secret=given.client_secret,
            token_endpoint_auth_method="none" if given.client_secret is None else "client_secret_basic",
            redirect_uris=metadata.redirect_uris,
        )
    return OAuthClientProvider(
        server_url=given.url,
        client_metadata=metadata,
        storage=Memory(known),
        redirect_handler=browse,
        callback_handler=listener.next,
        client_metadata_url=given.client_metadata,
    )


async def main() -> int:
    listener = RedirectListener()
    await listener.start()
    good = True
    async with create_mcp_http_client(auth=provider(listener)) as http:
        target = streamable_http_client(given.url, http_client=http)
        async with Client(target, mode=MODES[given.era]) as client:
            era = "modern" if client.protocol_version == MODES["modern"] else "legacy"
            report("negotiate", era=era, version=client.protocol_version)
            report("tools", names=[tool.name for tool in (await client.list_tools()).tools])
            for at, call in enumerate(given.call):
                if at > 0:
                    await asyncio.sleep(given.pause)
                name, _, arguments = call.partition("=")
                result = await client.call_tool(name, json.loads(arguments or "{}"))
                is_error = bool(result.is_error)
                report("call", tool=name, text=result.content[0].text, isError=is_error)
                good = good and not is_error
    report("end")
    return 0 if good else 1


sys.exit(asyncio.run(asyncio.wait_for(main(), TOTAL_SECONDS)))
