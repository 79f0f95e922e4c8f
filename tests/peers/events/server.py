"""A server with events on `mcp-webhook-events`, the official Python SDK below it.

    server.py [--port PORT] [--user NAME]

It prints its URL to stderr and exits gracefully on SIGTERM. All callers are the user NAME (default: ann). The tool `publish`
publishes an event of the type `ticket.updated`, and the server delivers it at once. Callbacks go to this machine, over HTTP or
HTTPS: of the latter the environment variable SSL_CERT_FILE names the root.
"""

import argparse
import asyncio
import os
import socket
import sys
import tempfile
from pathlib import Path

import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp_webhook_events import EventDefinition, McpEvents, SafeHttp

sys.path.append(str(Path(__file__).resolve().parent.parent / "python"))
from over_http import GracefulServer  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("--port", type=int, default=0)
parser.add_argument("--user", default="ann")
given = parser.parse_args()

DEFINITION = EventDefinition(
    name="ticket.updated",
    description="A ticket was updated.",
    input_schema={"type": "object", "properties": {"ticket": {"type": "string"}}, "required": ["ticket"]},
    payload_schema={"type": "object", "properties": {"ticket": {"type": "string"}, "summary": {"type": "string"}}},
)


async def main(folder: str) -> None:
    server = MCPServer("tickets")
    events = McpEvents(
        server,
        store=os.path.join(folder, "events.sqlite3"),
        definitions=[DEFINITION],
        principal=lambda _: given.user,
        # It also means: addresses of this machine.
        http=SafeHttp(allow_insecure_for_tests=True),
    )
    events.install()

    @server.tool()
    def publish(ticket: str, summary: str) -> dict[str, int]:
        """Publishes an event; returns what became of its deliveries."""
        queued = events.publish("ticket.updated", {"ticket": ticket, "summary": summary})
        return {"queued": queued, **events.deliver_pending()}

    listener = socket.create_server(("127.0.0.1", given.port))
    print(f"listening on http://127.0.0.1:{listener.getsockname()[1]}/mcp", file=sys.stderr, flush=True)
    app = server.streamable_http_app(stateless_http=True, json_response=True)
    await GracefulServer(uvicorn.Config(app, log_level="warning")).serve(sockets=[listener])


with tempfile.TemporaryDirectory() as folder:
    asyncio.run(main(folder))
