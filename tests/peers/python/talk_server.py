"""A server on the official Python SDK for the conversations of ../talk.json.

    talk_server.py TALK [--log FILE] [--time-out MS] [--http PORT [--sse]]

It speaks both eras; the client chooses. Each tool sends the input requests that the file lists and returns the answers.
--log appends one JSON line for each event that only the server can see. --time-out is the time in ms that a legacy client
has to answer.
"""

import argparse
import asyncio
import json
import sys
import warnings
from typing import Any

import anyio
from mcp import MCPError, types
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ToolsListChanged,
)
from mcp.shared.exceptions import UrlElicitationRequiredError
from over_http import host
from pydantic import TypeAdapter

if sys.version_info < (3, 11):
    from exceptiongroup import BaseExceptionGroup

# The newest revision deprecates half of the methods used here.
warnings.simplefilter("ignore")

parser = argparse.ArgumentParser()
parser.add_argument("talk")
parser.add_argument("--log")
parser.add_argument("--time-out", type=int, default=60_000)
parser.add_argument("--http", type=int)
# It speaks both eras; the client chooses.
parser.add_argument("--era", choices=["modern", "legacy"])
parser.add_argument("--sse", action="store_true")
given = parser.parse_args()
with open(given.talk, encoding="utf-8") as file:
    talk = json.load(file)

MODERN = "2026-07-28"
SCHEMA = {"type": "object"}
SUM = {"type": "object", "properties": {"sum": {"type": "number"}}, "required": ["sum"]}
RESULTS = {
    "elicitation/create": types.ElicitResult,
    "sampling/createMessage": types.CreateMessageResult,
    "roots/list": types.ListRootsResult,
}
REQUEST: TypeAdapter[Any] = TypeAdapter(types.ServerRequest)
CHANGES = {"tools": ToolsListChanged(), "resources": ResourcesListChanged(), "prompts": PromptsListChanged()}
bus = InMemorySubscriptionBus()
listening = ListenHandler(bus)
subscribed: set[str] = set()


def log(**event: Any) -> None:
    if given.log is not None:
        with open(given.log, "a", encoding="utf-8") as file:
            file.write(json.dumps(event) + "\n")


def plain(value: Any) -> Any:
    return value.model_dump(mode="json", by_alias=True, exclude_none=True)


def text(value: Any) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=json.dumps(value))])


def question(key: str, modern: bool) -> Any:
    asked = json.loads(json.dumps(talk["questions"][key]))
    if modern and "params" in asked:
        asked["params"].pop("elicitationId", None)
    return REQUEST.validate_python(asked)


def result_of(key: str) -> Any:
    asked = talk["questions"][key]
    if "tools" in asked.get("params", {}):
        return types.CreateMessageResultWithTools
    return RESULTS[asked["method"]]


async def ask_legacy(ctx: Any, rounds: Any) -> dict[str, Any]:
    """Collects the answers by server requests, all requests of a round at once."""
    said: dict[str, Any] = {}
    for round_ in rounds:
        refusals: list[MCPError] = []

        async def ask(key: str) -> None:
            try:
                seconds = given.time_out / 1000
                answer = await ctx.session.send_request(question(key, False), result_of(key), seconds)
                said[key] = plain(answer)
            except MCPError as error:
                refusals.append(error)
                group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            for key in round_:
                group.start_soon(ask, key)
        if refusals:
            error = refusals[0]
            if "imed out" in error.message:
                log(event="gave-up")
                return {"timed-out": True}
            log(event="refused", code=error.code)
            return {"refused": {"code": error.code, "message": error.message}}
    if said.get("page", {}).get("action") == "accept":
        await ctx.session.send_elicit_complete("page-1")
    return {"said": said, "rounds": len(rounds)}


def ask_modern(params: Any, rounds: Any) -> dict[str, Any] | types.InputRequiredResult:
    """Collects the answers by retries: the missing ones are requested."""
    kept = json.loads(params.request_state or '{"said": {}, "rounds": 0}')
    for key, answer in (params.input_responses or {}).items():
        kept["said"][key] = plain(answer)
    for round_ in rounds:
        if all(key in kept["said"] for key in round_):
            continue
        kept["rounds"] += 1
        needed = {key: question(key, True) for key in round_}
        return types.InputRequiredResult(input_requests=needed, request_state=json.dumps(kept))
    return kept


async def ask(ctx: Any, params: Any, rounds: Any, made: Any) -> Any:
    """Returns the answers as a result, or the next input requests."""
    said = ask_modern(params, rounds) if ctx.protocol_version == MODERN else await ask_legacy(ctx, rounds)
    return said if isinstance(said, types.InputRequiredResult) else made(said)


async def get_prompt(ctx: Any, params: Any) -> Any:
    def made(said: Any) -> types.GetPromptResult:
        content = types.TextContent(type="text", text=json.dumps(said))
        return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=content)])

    return await ask(ctx, params, talk["prompts"][params.name], made)


async def read_resource(ctx: Any, params: Any) -> Any:
    uri = str(params.uri)

    def made(said: Any) -> types.ReadResourceResult:
        return types.ReadResourceResult(contents=[types.TextResourceContents(uri=uri, text=json.dumps(said))])

    return await ask(ctx, params, talk["resources"][uri], made)


# Whether the user visited the page of 2025-11-25, which the tool `gate` requires.
visited = False


async def change(ctx: Any, what: str) -> None:
    global visited
    if what == "end":
        listening.close()
    elif what == "visited":
        visited = True
        await ctx.session.send_elicit_complete("page-1")
    elif ctx.protocol_version == MODERN:
        await bus.publish(CHANGES.get(what) or ResourceUpdated(uri=what))
    elif what == "tools":
        await ctx.session.send_tool_list_changed()
    elif what == "resources":
        await ctx.session.send_resource_list_changed()
    elif what == "prompts":
        await ctx.session.send_prompt_list_changed()
    elif what in subscribed:
        await ctx.session.send_resource_updated(what)


LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
least = "debug"


async def call_tool(ctx: Any, params: Any) -> Any:
    log(event="call", tool=params.name)
    modern = ctx.protocol_version == MODERN
    try:
        done = await alone(ctx, params.name, params.arguments or {})
        if done is not None:
            return done
        if params.name == "log":
            for line in talk["logs"]:
                # This SDK does not filter by level for legacy clients, so they get all log messages.
                if modern or LEVELS.index(line["level"]) >= LEVELS.index(least):
                    await ctx.session.send_log_message(line["level"], line["data"], line.get("logger"), ctx.request_id)
            return text({})
        if params.name == "change":
            await change(ctx, params.arguments["what"])
            return text({})
        if params.name == "cut":
            # Absent if the client cannot retry.
            await ctx.close_sse_stream()
            await asyncio.sleep(0.2)
            return text({})
        if params.name == "gate":
            if not visited:
                page = types.ElicitRequestURLParams.model_validate(talk["questions"]["page"]["params"])
                raise UrlElicitationRequiredError([page])
            return text({})
        return await ask(ctx, params, talk["tools"][params.name], text)
    except asyncio.CancelledError:
        log(event="aborted", tool=params.name)
        raise


async def alone(ctx: Any, name: str, given_: dict[str, Any]) -> types.CallToolResult | None:
    """Runs a tool without input requests; returns None for other tools."""
    if name == "add":
        result = text(given_["a"] + given_["b"])
        result.structured_content = {"sum": given_["a"] + given_["b"]}
        return result
    if name == "fail":
        result = text("this tool always fails")
        result.is_error = True
        return result
    if name != "count":
        return None
    for step in range(1, given_["to"] + 1):
        await asyncio.sleep(given_["delay_ms"] / 1000)
        await ctx.session.report_progress(step, given_["to"])
    return text(given_["to"])


async def complete(_: Any, params: Any) -> types.CompleteResult:
    values = [colour for colour in ("green", "grey", "red") if colour.startswith(params.argument.value)]
    return types.CompleteResult(completion=types.Completion(values=values, total=len(values), has_more=False))


async def set_level(_: Any, params: Any) -> types.EmptyResult:
    global least
    least = params.level
    return types.EmptyResult()


async def list_tools(_: Any, __: Any) -> types.ListToolsResult:
    names = [*talk["tools"], "gate", "log", "change", "cut", "count", "fail"]
    tools = [types.Tool(name=name, input_schema=SCHEMA) for name in names]
    return types.ListToolsResult(tools=[*tools, types.Tool(name="add", input_schema=SCHEMA, output_schema=SUM)])


async def list_resources(_: Any, params: Any) -> types.ListResourcesResult:
    """Returns a page of the resources; there are at least two pages."""
    uris = [*talk["notes"], *talk["resources"]]
    first = int(getattr(params, "cursor", None) or 0)
    cursor = str(first + 2) if first + 2 < len(uris) else None
    resources = [types.Resource(uri=uri, name=uri) for uri in uris[first : first + 2]]
    return types.ListResourcesResult(resources=resources, next_cursor=cursor)


async def list_prompts(_: Any, __: Any) -> types.ListPromptsResult:
    colour = [types.PromptArgument(name="colour")]
    return types.ListPromptsResult(prompts=[types.Prompt(name=name, arguments=colour) for name in talk["prompts"]])


async def subscribe(_: Any, params: Any) -> types.EmptyResult:
    subscribed.add(str(params.uri))
    return types.EmptyResult()


async def unsubscribe(_: Any, params: Any) -> types.EmptyResult:
    subscribed.discard(str(params.uri))
    return types.EmptyResult()


async def roots_changed(_: Any, __: Any) -> None:
    log(event="notification", method="notifications/roots/list_changed")


class Telling(Server[Any]):
    """Declares that it publishes changes; over HTTP the SDK does not ask for these options."""

    def create_initialization_options(self, *_: Any, **__: Any) -> Any:
        told = NotificationOptions(prompts_changed=True, resources_changed=True, tools_changed=True)
        return super().create_initialization_options(told)


async def main() -> None:
    server = Telling(
        "talk-server",
        version="2.3.0",
        on_call_tool=call_tool,
        on_list_tools=list_tools,
        on_list_resources=list_resources,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
        on_read_resource=read_resource,
        on_subscribe_resource=subscribe,
        on_unsubscribe_resource=unsubscribe,
        on_set_logging_level=set_level,
        on_completion=complete,
        on_roots_list_changed=roots_changed,
        on_subscriptions_listen=listening,
    )
    server.middleware.append(RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience="talk-server"))
    options = server.create_initialization_options()
    try:
        if given.http is not None:
            await host(server, given.http, sse=given.sse, options=options)
        else:
            async with stdio_server() as (read, write):
                await server.run(read, write, options)
    except BaseExceptionGroup as group:
        log(event="end", ok=False, why=repr(group.exceptions))
    else:
        log(event="end", ok=True)


asyncio.run(main())
