"""A client on the official Python SDK that uses a session until its input ends, while the processes of the server end and start.

    session_client.py URL REVISION [BREAKS]

This SDK opens no GET stream again after two that broke, in the whole life of a client; with BREAKS it is that number. A stream
that a server ends in order does not count.

At the end it prints one JSON line, in the format of ../node/session-client.mjs, and with the statuses of responses
that are errors, which this SDK does not tell.
"""

import asyncio
import json
import sys
import time
import warnings
from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
import mcp.client.streamable_http
from mcp import Client, MCPError, types
from mcp.client.streamable_http import streamable_http_client
from over_http import offer

REQUEST_SECONDS = 20
NEWS_SECONDS = 10


class SessionClient:
    def __init__(self) -> None:
        self.done: dict[str, Any] = {"calls": 0, "asked": 0, "updates": 0, "lastUpdate": 0, "errors": [], "sessions": [], "statuses": []}
        self.ended = asyncio.Event()
        self.refused_answers = 0

    async def elicit(self, _: Any, __: Any) -> Any:
        self.done["asked"] += 1
        return types.ElicitResult(action="accept", content={"username": "u", "email": "u@example.com"})

    async def message(self, message: Any) -> None:
        if getattr(message, "method", None) == "notifications/resources/updated":
            self.done["updates"] += 1
            self.done["lastUpdate"] = int(time.time() * 1000)

    async def note_response(self, response: httpx2.Response) -> None:
        """Notes each session id that the server has given, each status of an error, and answers to questions that got one."""
        if response.is_error and response.status_code not in self.done["statuses"]:
            self.done["statuses"].append(response.status_code)
        if response.is_error and response.request.method == "POST" and "result" in json.loads(response.request.content):
            self.refused_answers += 1
        session = response.headers.get("mcp-session-id")
        if session is not None and session not in self.done["sessions"]:
            self.done["sessions"].append(session)

    async def attempt(self, what: str, work: Awaitable[None]) -> None:
        try:
            await work
        # Any exception of the SDK is an error of this call; the others go on.
        except Exception as error:  # noqa: BLE001
            self.done["errors"].append(f"{what}: {type(error).__name__}: {error}")

    async def call(self, client: Client, name: str, arguments: dict[str, Any], expected: str, **more: Any) -> None:
        result = await client.call_tool(name, arguments, **more)
        text = " ".join(getattr(block, "text", "") for block in result.content)
        if result.is_error or expected not in text:
            raise ValueError(f"{name} answers {text}")
        self.done["calls"] += 1

    async def ask(self, client: Client) -> None:
        refused = self.refused_answers
        try:
            await self.call(client, "test_elicitation", {"message": "Who?"}, "accept")
        except MCPError as error:
            # The SDK forgets an answer that is refused (`_handle_post_request`): nobody can answer the question any more, and the
            # call ends by its time limit alone.
            if error.code == types.REQUEST_TIMEOUT and self.refused_answers > refused:
                raise ValueError("the SDK has dropped its answer") from error
            raise

    async def repeat(self, what: str, step: Callable[[int], Awaitable[None]]) -> None:
        n = 0
        while not self.ended.is_set():
            await self.attempt(what, step(n))
            n += 1
            await asyncio.sleep(0.02)

    async def work(self, client: Client) -> None:
        async def ignored(_: float, __: Any, ___: Any) -> None:
            pass

        async def subscribe() -> None:
            await client.subscribe_resource("clock://running")
            subscribed.set()

        subscribed = asyncio.Event()
        while not subscribed.is_set() and not self.ended.is_set():
            await self.attempt("subscribe", subscribe())
        await asyncio.gather(
            self.repeat("echo", lambda n: self.call(client, "echo", {"text": f"text {n}"}, f"text {n}")),
            self.repeat(
                "count",
                lambda _: self.call(client, "count", {"to": 4, "delay_ms": 100}, "", progress_callback=ignored),
            ),
            self.repeat("elicitation", lambda _: self.ask(client)),
        )
        # A change after all that happened.
        before = self.done["updates"]
        for _ in range(NEWS_SECONDS * 10):
            if self.done["updates"] > before:
                break
            await asyncio.sleep(0.1)
        self.done["heardAfter"] = self.done["updates"] > before


async def main() -> None:
    url, revision, *breaks = sys.argv[1:]
    if breaks:
        mcp.client.streamable_http.MAX_RECONNECTION_ATTEMPTS = int(breaks[0])  # type: ignore[misc]
    warnings.simplefilter("ignore")
    offer(revision)
    session = SessionClient()
    # The streams are silent between two events.
    timeout = httpx2.Timeout(REQUEST_SECONDS, read=300)
    async with httpx2.AsyncClient(timeout=timeout, event_hooks={"response": [session.note_response]}) as http:
        async with Client(
            streamable_http_client(url, http_client=http),
            mode="legacy",
            read_timeout_seconds=REQUEST_SECONDS,
            elicitation_callback=session.elicit,
            message_handler=session.message,
        ) as client:
            if client.protocol_version != revision:
                raise ValueError(f"{client.protocol_version}, not {revision}")
            end = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
            end.add_done_callback(lambda _: session.ended.set())
            await session.work(client)
    print(json.dumps(session.done), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
