"""HTTP for the programs of this folder: what hosts their servers, and what connects their clients.

A server is given `--http PORT` (0 for any that is free) and, for the transport of 2024-11-05, `--sse`; it prints its URL
on stderr, and ends in good order on SIGTERM. A client is given a URL in place of a command, and `--sse` as well.
"""

import asyncio
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import mcp.client.session
import uvicorn
from mcp import StdioServerParameters
from mcp.client.sse import sse_client
from mcp.server.lowlevel import Server
from mcp.server.sse import SseServerTransport
from mcp.server.streamable_http import EventMessage, EventStore
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route


class Events(EventStore):
    """Keeps all events, in their order, so that a stream that was cut can be gone on with."""

    def __init__(self) -> None:
        self.kept: list[tuple[str, Any]] = []

    async def store_event(self, stream_id: Any, message: Any) -> str:
        self.kept.append((stream_id, message))
        return str(len(self.kept))

    async def replay_events_after(self, last_event_id: str, send_callback: Any) -> Any:
        last = int(last_event_id)
        stream = self.kept[last - 1][0]
        for number, (of, message) in enumerate(self.kept[last:], last + 1):
            # What only opens a stream is no message.
            if of == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream


def _sse_app(server: Server[Any], options: Any) -> Starlette:
    transport = SseServerTransport("/messages/")

    async def stream(request: Request) -> Response:
        async with transport.connect_sse(request.scope, request.receive, request._send) as (read, write):
            await server.run(read, write, options)
        return Response()

    routes = [Route("/sse", stream, methods=["GET"]), Mount("/messages/", app=transport.handle_post_message)]
    return Starlette(routes=routes)


class _Server(uvicorn.Server):
    """Ends at the first signal, in good order, and does not wait for streams that nobody ends."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        def stop() -> None:
            self.should_exit = self.force_exit = True

        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop)
        yield


async def host(server: Server[Any], port: int, *, sse: bool = False, options: Any = None) -> None:
    """Serves until SIGTERM."""
    listener = socket.create_server(("127.0.0.1", port))
    app = _sse_app(server, options) if sse else server.streamable_http_app(event_store=Events(), retry_interval=100)
    path = "/sse" if sse else "/mcp"
    print(f"listening on http://127.0.0.1:{listener.getsockname()[1]}{path}", file=sys.stderr, flush=True)
    await _Server(uvicorn.Config(app, log_level="warning")).serve(sockets=[listener])


def target(words: list[str], sse: bool) -> Any:
    """What `Client` connects to: a command, or a URL."""
    if words[0].startswith(("http://", "https://")):
        return sse_client(words[0]) if sse else words[0]
    return StdioServerParameters(command=words[0], args=words[1:])


def offer(revision: str) -> None:
    """Has clients offer another revision than the newest that this SDK knows."""
    mcp.client.session.LATEST_HANDSHAKE_VERSION = revision  # type: ignore[misc]
