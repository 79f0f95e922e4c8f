"""A client on the official Python SDK for the conversations of ../talk.json.

    talk_client.py TALK --era modern|legacy [--revision R] --part NAME[,NAME…] -- SERVER [ARGS…]
    talk_client.py … --part NAME[,NAME…] [--sse] -- URL

It performs the steps of some parts, answers as they say, and reports each step as one JSON line on stdout, in the format
of the clients in ../node. The test decides what is right. The exit code is 0 if all steps could be performed.
"""

import argparse
import asyncio
import json
import os
import signal
import sys
import warnings
from contextlib import AsyncExitStack
from typing import Any

from mcp import Client, MCPError
from mcp import types
from mcp.client.subscriptions import SubscriptionLost
from over_http import offer, target

MODES = {"modern": "2026-07-28", "legacy": "legacy"}
# Above the duration of any step on a busy machine, and below the deadline of the test that runs this program.
REQUEST_SECONDS = 20
TOTAL_SECONDS = 50
NEWS_SECONDS = 5

LISTS = {
    "notifications/tools/list_changed": "tools",
    "notifications/prompts/list_changed": "prompts",
    "notifications/resources/list_changed": "resources",
}


def report(line: dict[str, Any]) -> None:
    print(json.dumps(line), flush=True)


def plain(value: Any) -> Any:
    return value.model_dump(mode="json", by_alias=True, exclude_none=True)


class Session:
    def __init__(self) -> None:
        self.step: dict[str, Any] = {}
        self.forget()

    def forget(self) -> None:
        self.notes: dict[str, Any] = {"asked": [], "aborted": 0, "logs": [], "news": [], "completed": []}

    async def answer(self, name: str, method: str, params: Any, result: Any) -> Any:
        notes = self.notes
        asked = {"name": name, "method": method}
        if params is not None:
            asked["params"] = plain(params)
        notes["asked"].append(asked)
        answer = self.step.get("answers", {}).get(name)
        if isinstance(answer, list):
            answer = answer[len(notes["asked"]) - 1]
        if answer == "error":
            return types.ErrorData(code=-1, message="not today")
        if answer == "vanish":
            os.kill(os.getpid(), signal.SIGKILL if hasattr(signal, "SIGKILL") else signal.SIGTERM)
        if answer in ("never", "vanish"):
            try:
                await asyncio.Event().wait()
            finally:
                notes["aborted"] += 1
        if answer is None:
            return types.ErrorData(code=-32603, message=f"not expected: {name}")
        return result.model_validate(answer)

    async def elicit(self, _: Any, params: Any) -> Any:
        return await self.answer(params.message, "elicitation/create", params, types.ElicitResult)

    async def sample(self, _: Any, params: Any) -> Any:
        result = types.CreateMessageResult if params.tools is None else types.CreateMessageResultWithTools
        return await self.answer(params.system_prompt, "sampling/createMessage", params, result)

    async def roots(self, _: Any) -> Any:
        return await self.answer("roots", "roots/list", None, types.ListRootsResult)

    async def log(self, params: Any) -> None:
        line = plain(params)
        line.pop("_meta", None)
        # `null` is a value here, but the SDK omits it.
        line["data"] = params.data
        self.notes["logs"].append(line)

    async def message(self, message: Any) -> None:
        method = getattr(message, "method", None)
        if method in LISTS:
            self.notes["news"].append(LISTS[method])
        elif method == "notifications/resources/updated":
            self.notes["news"].append(str(message.params.uri))
        elif method == "notifications/elicitation/complete":
            self.notes["completed"].append(message.params.elicitation_id)

    async def arrived(self, what: str, count: int) -> None:
        """Waits for messages that may follow the result a moment later."""
        for _ in range(NEWS_SECONDS * 100):
            if len(self.notes[what]) >= count:
                return
            await asyncio.sleep(0.01)

    async def outcome(self, client: Client, modern: bool) -> dict[str, Any]:
        step = self.step
        meta = None
        if "level" in step:
            if modern:
                meta = {"io.modelcontextprotocol/logLevel": step["level"]}
            else:
                await client.set_logging_level(step["level"])
        seconds = step["timeout"] / 1000 if "timeout" in step else None
        try:
            if "prompt" in step:
                result = await client.get_prompt(step["prompt"])
                return {"result": json.loads(result.messages[0].content.text)}
            if "read" in step:
                result = await client.read_resource(step["read"])
                return {"result": json.loads(result.contents[0].text)}
            call = client.call_tool(step["tool"], step.get("arguments", {}), read_timeout_seconds=seconds, meta=meta)
            # The timeout of this SDK applies to each request alone, so it does not limit a call that waits for a user.
            result = await (asyncio.wait_for(call, seconds) if modern and seconds else call)
        # These are two classes before Python 3.11.
        except (TimeoutError, asyncio.TimeoutError) as error:
            return {"gave-up": str(error)}
        except MCPError as error:
            if "imed out" in error.message:
                return {"gave-up": error.message}
            return {"error": {"code": error.code, "message": error.message, "data": error.data}}
        text = result.content[0].text
        return {"failed": text} if result.is_error else {"result": json.loads(text)}

    async def perform(self, client: Client, modern: bool, open_ones: AsyncExitStack) -> dict[str, Any]:
        step = self.step
        if (wanted := step.get("subscribe")) is not None:
            if modern:
                subscription = await open_ones.enter_async_context(
                    client.listen(
                        tools_list_changed=wanted.get("toolsListChanged", False),
                        prompts_list_changed=wanted.get("promptsListChanged", False),
                        resources_list_changed=wanted.get("resourcesListChanged", False),
                        resource_subscriptions=wanted.get("resourceSubscriptions", []),
                    )
                )
                open_ones.callback(asyncio.create_task(self.outlive(subscription)).cancel)
                return {"honoured": plain(subscription.honored)}
            for uri in wanted["resourceSubscriptions"]:
                await client.subscribe_resource(uri)
            return {}
        if "unsubscribe" in step:
            if modern:
                await open_ones.aclose()
                # This SDK reports it after the next request, so a request is sent here.
                await client.list_tools(cache_mode="refresh")
            else:
                await client.unsubscribe_resource("note://one")
            return {}
        if "roots-changed" in step:
            if modern:
                return {"cannot": True}
            await client.send_roots_list_changed()
            return {}
        came = await self.outcome(client, modern)
        era = "modern" if modern else "legacy"
        logs, news = (
            wanted[era] if isinstance(wanted, dict) else wanted
            for wanted in (step.get("logs", 0), step.get("news", []))
        )
        await self.arrived("logs", logs)
        await self.arrived("news", len(news))
        if not modern:
            await self.arrived("completed", len(step.get("completed", [])))
        for _ in range(NEWS_SECONDS * 100):
            if self.notes["aborted"] >= step.get("aborted", 0) and ("ended" not in step or "ended" in self.notes):
                break
            await asyncio.sleep(0.01)
        return {**came, **self.notes}

    async def outlive(self, subscription: Any) -> None:
        """Waits for the end of the subscription; its changes also reach `message`."""
        try:
            async for _ in subscription:
                pass
            self.notes["ended"] = "graceful"
        except SubscriptionLost:
            self.notes["ended"] = "remote"


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("talk")
    parser.add_argument("--era", choices=MODES, required=True)
    parser.add_argument("--part", required=True)
    parser.add_argument("--revision")
    parser.add_argument("--sse", action="store_true")
    parser.add_argument("server", nargs="+")
    given = parser.parse_args()
    with open(given.talk, encoding="utf-8") as file:
        parts = json.load(file)["steps"]
    steps = [step for part in given.part.split(",") for step in parts[part]]
    # The newest revision deprecates half of the methods used here.
    warnings.simplefilter("ignore")
    session = Session()
    modern = given.era == "modern"
    # The SDK derives the declared capabilities from the given callbacks.
    answering = {
        "elicitation_callback": session.elicit,
        "sampling_callback": session.sample,
        "sampling_capabilities": types.SamplingCapability(tools=types.SamplingToolsCapability()),
        "list_roots_callback": session.roots,
    }
    if given.revision is not None:
        offer(given.revision)
    client = Client(
        target(given.server, given.sse),
        mode=MODES[given.era],
        read_timeout_seconds=REQUEST_SECONDS,
        logging_callback=session.log,
        message_handler=session.message,
        **({} if given.part == "poor" else answering),
    )
    async with client:
        report({"step": "negotiate", "era": given.era, "version": client.protocol_version})
        async with AsyncExitStack() as open_ones:
            for step in steps:
                session.step = step
                session.forget()
                report({"step": step["step"], **await session.perform(client, modern, open_ones)})
    report({"step": "end"})


if __name__ == "__main__":
    sys.exit(asyncio.run(asyncio.wait_for(main(), TOTAL_SECONDS)))
