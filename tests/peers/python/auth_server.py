"""A protected server on the official Python SDK. It accepts the JWTs of one issuer.

    auth_server.py --issuer URL [--slash] [--scope S] [--port PORT]

With --slash its metadata names the issuer with a slash at the end, as servers do that give an `AnyHttpUrl` to the SDK.
Every request needs the scope S (mcp:read). The tool `whoami` returns what the SDK knows of the access token.
"""

import argparse
import asyncio
import json
import socket
import sys
import urllib.request
from typing import Any

import jwt
import uvicorn
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken, TokenVerifier
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import MCPServer
from over_http import GracefulServer
from pydantic import AnyHttpUrl

parser = argparse.ArgumentParser()
parser.add_argument("--issuer", required=True)
parser.add_argument("--slash", action="store_true")
parser.add_argument("--scope", default="mcp:read")
parser.add_argument("--port", type=int, default=0)
given = parser.parse_args()


class JwtVerifier(TokenVerifier):
    """Verifies JWT access tokens (RFC 9068) for one resource."""

    def __init__(self, issuer: str, resource: str) -> None:
        with urllib.request.urlopen(f"{issuer}/.well-known/oauth-authorization-server", timeout=20) as response:
            metadata = json.load(response)
        if metadata["issuer"] != issuer:
            raise ValueError(f"the issuer is {metadata['issuer']}")
        self.issuer = issuer
        self.resource = resource
        self.keys = jwt.PyJWKClient(metadata["jwks_uri"])

    def decode(self, token: str) -> dict[str, Any]:
        decoded = jwt.decode_complete(
            token,
            self.keys.get_signing_key_from_jwt(token),
            algorithms=["ES256", "RS256"],
            issuer=self.issuer,
            audience=self.resource,
            options={"require": ["exp", "sub", "client_id", "aud", "iss"]},
        )
        if decoded["header"].get("typ") != "at+jwt":
            raise jwt.InvalidTokenError("not an access token")
        return decoded["payload"]

    async def verify_token(self, token: str) -> AccessToken | None:
        try:
            # In a thread, because it may fetch keys.
            claims = await asyncio.to_thread(self.decode, token)
        except jwt.PyJWTError as error:
            print(f"auth-server: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
            return None
        return AccessToken(
            token=token,
            client_id=claims["client_id"],
            scopes=claims.get("scope", "").split(),
            expires_at=claims["exp"],
            resource=self.resource,
            subject=claims["sub"],
        )


async def main() -> None:
    listener = socket.create_server(("127.0.0.1", given.port))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
    server = MCPServer(
        "auth-server",
        token_verifier=JwtVerifier(given.issuer, url),
        auth=AuthSettings(
            issuer_url=AnyHttpUrl(given.issuer) if given.slash else given.issuer,  # type: ignore[arg-type]
            resource_server_url=AnyHttpUrl(url),
            required_scopes=[given.scope],
            validate_token_resource=True,
        ),
    )

    @server.tool()
    def whoami() -> str:
        token = get_access_token()
        assert token is not None
        return json.dumps({"client": token.client_id, "scopes": token.scopes, "subject": token.subject})

    print(f"listening on {url}", file=sys.stderr, flush=True)
    await GracefulServer(uvicorn.Config(server.streamable_http_app(), log_level="warning")).serve(sockets=[listener])


asyncio.run(main())
