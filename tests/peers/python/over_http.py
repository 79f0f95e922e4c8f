"""HTTP for the programs of this folder: it hosts their servers and connects their clients.

A server takes `--http PORT` (0 for a free port) and, for HTTP+SSE of 2024-11-05, `--sse`. It prints its URL to stderr and
exits gracefully on SIGTERM. A client takes a URL instead of a command, and also `--sse`.
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
    """Event store that keeps all events in order, so that an interrupted stream can be resumed."""

    def __init__(self) -> None:
        self.kept: list[tuple[str, Any]] = []

    async def store_event(self, stream_id: Any, message: Any) -> str:
        self.kept.append((stream_id, message))
        return str(len(self.kept))

    async def replay_events_after(self, last_event_id: str, send_callback: Any) -> Any:
        last = int(last_event_id)
        stream = self.kept[last - 1][0]
        for number, (of, message) in enumerate(self.kept[last:], last + 1):
            # An event that only opens a stream carries no message.
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


class GracefulServer(uvicorn.Server):
    """Server that exits gracefully at the first signal and does not wait for open streams."""

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
    await GracefulServer(uvicorn.Config(app, log_level="warning")).serve(sockets=[listener])


def target(words: list[str], sse: bool) -> Any:
    """Returns the target of a `Client`: a command, or a URL."""
    if words[0].startswith(("http://", "https://")):
        return sse_client(words[0]) if sse else words[0]
    return StdioServerParameters(command=words[0], args=words[1:])


def offer(revision: str) -> None:
    """Makes clients offer another revision than the newest of this SDK."""
    mcp.client.session.LATEST_HANDSHAKE_VERSION = revision  # type: ignore[misc]
