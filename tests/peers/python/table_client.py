"""A client on the official Python SDK that performs the steps of the interop table (../table.json).

    table_client.py TABLE --profile NAME --era modern|legacy --revision R [--sse] -- SERVER [ARGS…] | URL

One JSON line per step goes to stdout, in the format of ../node/table-client.mjs.
"""

import argparse
import asyncio
import json
import sys
import time
import warnings
from collections.abc import Awaitable, Callable
from typing import Any

from mcp import Client, types
from mcp.client.stdio import PROCESS_TERMINATION_TIMEOUT
from mcp.types import PromptReference
from over_http import offer, target

# Above the duration of any step on a busy machine, and below the deadline of the test that runs this program.
REQUEST_SECONDS = 20
TOTAL_SECONDS = 50
NEWS_SECONDS = 10
# Time in which a call that continues would report progress.
QUIET_SECONDS = 0.15


class Wrong(Exception):
    """A step without its expected outcome."""


def require(condition: bool, why: str) -> None:
    if not condition:
        raise Wrong(why)


def report(step: str, **detail: Any) -> None:
    print(json.dumps({"step": step, **detail}), flush=True)


class Session:
    def __init__(self, profile: dict[str, Any], revision: str) -> None:
        self.profile = profile
        self.revision = revision
        self.modern = revision == "2026-07-28"
        self.logs: list[Any] = []
        self.updated: list[str] = []
        self.answer: dict[str, Any] = {}
        self.failed = False
        self.client: Any = None

    async def elicit(self, _: Any, __: Any) -> Any:
        return types.ElicitResult.model_validate(self.answer)

    async def sample(self, _: Any, __: Any) -> Any:
        content = types.TextContent(type="text", text="Good day")
        return types.CreateMessageResult(role="assistant", model="muse", content=content)

    async def roots(self, _: Any) -> Any:
        return types.ListRootsResult.model_validate({"roots": [{"uri": self.profile["root"], "name": "table"}]})

    async def log(self, params: Any) -> None:
        self.logs.append(params)

    async def message(self, message: Any) -> None:
        if getattr(message, "method", None) == "notifications/resources/updated":
            self.updated.append(str(message.params.uri))

    async def step(self, name: str, work: Callable[[dict[str, Any]], Awaitable[str | None]]) -> None:
        try:
            why = await work(self.profile.get(name, {}))
        except Exception as error:
            self.failed = True
            report(name, ok=False, error=f"{type(error).__name__}: {error}")
        else:
            report(name, **({"ok": True} if why is None else {"ok": "peer-cannot", "why": why}))

    async def until(self, done: Callable[[], bool], why: str) -> None:
        for _ in range(NEWS_SECONDS * 100):
            if done():
                return
            await asyncio.sleep(0.01)
        raise Wrong(why)

    async def called(self, given: dict[str, Any], **more: Any) -> Any:
        """Calls the tool of a step and checks the text of its result."""
        result = await self.client.call_tool(given["tool"], given["arguments"], **more)
        said = "\n".join(getattr(block, "text", "") for block in result.content)
        require(not result.is_error, f"failed: {said}")
        require(given.get("text", "") in said, f"no {given.get('text')} in {said}")
        return result

    async def list(self, given: dict[str, Any]) -> None:
        entries: list[str] = []
        cursor = None
        pages = 0
        while pages == 0 or (cursor is not None and pages < 100):
            page = await self.client.list_resources(cursor=cursor, cache_mode="refresh")
            entries += [str(resource.uri) for resource in page.resources]
            cursor = page.next_cursor
            pages += 1
        require(pages > 1, "one page")
        require(len(set(entries)) == len(entries), f"some stand twice: {entries}")
        require(given["has"] in entries, f"no {given['has']} in {entries}")

    async def progress(self, given: dict[str, Any]) -> None:
        seen: list[float] = []

        async def noted(progress: float, _: Any, __: Any) -> None:
            seen.append(progress)

        await self.called(given, progress_callback=noted)
        # This SDK handles responses at once and notifications a moment later.
        await self.until(lambda: len(seen) > 0, "no progress")
        require(seen == sorted(set(seen)), f"progress does not increase: {seen}")

    async def structured(self, given: dict[str, Any]) -> str | None:
        result = await self.called(given)
        if self.revision < "2025-06-18":
            return f"{self.revision} has no structured results"
        structured = result.structured_content or {}
        require(all(structured.get(name) == value for name, value in given["has"].items()), str(structured))
        return None

    async def error(self, given: dict[str, Any]) -> None:
        result = await self.client.call_tool(given["tool"], given["arguments"])
        require(result.is_error and given["text"] in result.content[0].text, str(result))

    async def cancel(self, given: dict[str, Any]) -> None:
        seen: list[float] = []
        begun = asyncio.Event()

        async def noted(progress: float, _: Any, __: Any) -> None:
            seen.append(progress)
            begun.set()

        call = asyncio.create_task(self.client.call_tool(given["tool"], given["arguments"], progress_callback=noted))
        await asyncio.wait_for(begun.wait(), REQUEST_SECONDS)
        # This SDK cancels a call by a cancel scope of anyio.
        call.cancel()
        try:
            await call
        except asyncio.CancelledError:
            pass
        else:
            raise Wrong("answered")
        await self.called(self.profile["echo"])
        await asyncio.sleep(QUIET_SECONDS)
        count = len(seen)
        await asyncio.sleep(QUIET_SECONDS)
        require(len(seen) == count, "it goes on")

    def elicitation(self, action: str) -> Callable[[dict[str, Any]], Awaitable[str | None]]:
        async def work(given: dict[str, Any]) -> str | None:
            if self.revision < "2025-06-18":
                return f"{self.revision} has no elicitation"
            self.answer = {"action": action, **({"content": given["content"]} if "content" in given else {})}
            await self.called(given)
            return None

        return work

    async def asked(self, given: dict[str, Any]) -> None:
        await self.called(given)

    async def logged(self, given: dict[str, Any]) -> None:
        meta = None
        if self.modern:
            meta = {"io.modelcontextprotocol/logLevel": given["level"]}
        else:
            await self.client.set_logging_level(given["level"])
        self.logs.clear()
        await self.called({"tool": given["tool"], "arguments": given["arguments"]}, meta=meta)
        await self.until(lambda: len(self.logs) >= given["count"], "no logs")
        require(len(self.logs) == given["count"], f"too many logs: {self.logs}")

    async def change(self, given: dict[str, Any]) -> None:
        uri = given["uri"]

        async def changed() -> None:
            await self.called({"tool": given["tool"], "arguments": given["arguments"]})
            await self.until(lambda: uri in self.updated, "not told of the change")

        if self.modern:
            async with self.client.listen(resource_subscriptions=[uri]):
                await changed()
        else:
            await self.client.subscribe_resource(uri)
            await changed()
            await self.client.unsubscribe_resource(uri)

    async def complete(self, given: dict[str, Any]) -> None:
        reference = PromptReference(type="ref/prompt", name=given["prompt"])
        argument = {"name": given["argument"], "value": given["value"]}
        result = await self.client.complete(reference, argument)
        require(result.completion.values == given["values"], str(result))

    async def ping(self, _: dict[str, Any]) -> None:
        if self.modern:
            await self.client.session.discover()
        else:
            await self.client.send_ping()

    async def perform(self) -> None:
        await self.step("list", self.list)
        await self.step("progress", self.progress)
        await self.step("structured", self.structured)
        await self.step("error", self.error)
        await self.step("cancel", self.cancel)
        for name, action in (("accept", "accept"), ("decline", "decline"), ("dismiss", "cancel")):
            await self.step(name, self.elicitation(action))
        await self.step("sampling", self.asked)
        await self.step("roots", self.asked)
        await self.step("log", self.logged)
        await self.step("change", self.change)
        await self.step("complete", self.complete)
        await self.step("ping", self.ping)


async def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("table")
    parser.add_argument("--profile", required=True)
    parser.add_argument("--era", choices=["modern", "legacy"], required=True)
    parser.add_argument("--revision", required=True)
    parser.add_argument("--sse", action="store_true")
    parser.add_argument("server", nargs="+")
    given = parser.parse_args()
    with open(given.table, encoding="utf-8") as file:
        profile = json.load(file)["profiles"][given.profile]
    # The newest revision deprecates half of the methods used here.
    warnings.simplefilter("ignore")
    session = Session(profile, given.revision)
    if not session.modern:
        offer(given.revision)
    session.client = Client(
        target(given.server, given.sse),
        mode=given.revision if session.modern else "legacy",
        read_timeout_seconds=REQUEST_SECONDS,
        elicitation_callback=session.elicit,
        sampling_callback=session.sample,
        list_roots_callback=session.roots,
        logging_callback=session.log,
        message_handler=session.message,
    )

    async def negotiated(_: dict[str, Any]) -> None:
        await session.client.__aenter__()
        version = session.client.protocol_version
        require(version == given.revision, f"{version}, not {given.revision}")

    async def ended(_: dict[str, Any]) -> None:
        begun = time.monotonic()
        await session.client.__aexit__(None, None, None)
        # Time that this SDK waits before it kills the server.
        require(time.monotonic() - begun < PROCESS_TERMINATION_TIMEOUT, "it had to be killed")

    await session.step("negotiate", negotiated)
    if not session.failed:
        await session.perform()
        await session.step("end", ended)
    return 1 if session.failed else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(asyncio.wait_for(main(), TOTAL_SECONDS)))
