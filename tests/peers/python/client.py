"""A client on the official Python SDK that uses everything that `mcp-probe serve --everything` offers.

    client.py --era modern|legacy|auto [--revision R] STEPS -- SERVER [ARGS…]
    client.py --era modern|legacy|auto [--revision R] [--sse] STEPS -- URL

One JSON line per step goes to stdout, in the format of the clients in ../node. The exit code is 0 if no step failed.
"""

import argparse
import asyncio
import json
import sys
from collections import Counter
from typing import Any

from mcp import Client, MCPError
from mcp.types import PromptReference, ResourceTemplateReference
from over_http import offer, target

MODES = {"modern": "2026-07-28", "legacy": "legacy", "auto": "auto"}
# Above the duration of any step on a busy machine, and below the deadline of the test that runs this program.
REQUEST_SECONDS = 20
TOTAL_SECONDS = 50

LISTS = {
    "tools": ("list_tools", "tools", "name"),
    "resources": ("list_resources", "resources", "uri"),
    "templates": ("list_resource_templates", "resourceTemplates", "uriTemplate"),
    "prompts": ("list_prompts", "prompts", "name"),
}


class Wrong(Exception):
    """A step without its expected outcome."""


def report(step: str, **detail: Any) -> None:
    print(json.dumps({"step": step, **detail}), flush=True)


def plain(value: Any) -> Any:
    """Returns a value of the SDK as JSON, without members that its types drop."""
    return value.model_dump(mode="json", by_alias=True, exclude_none=True)


def fits(value: Any, wanted: Any) -> bool:
    """Returns whether a value has all wanted members. Objects may have more; a text ending in `*` matches by prefix."""
    if isinstance(wanted, str) and wanted.endswith("*"):
        return isinstance(value, str) and value.startswith(wanted[:-1]) and len(value) >= len(wanted)
    if isinstance(wanted, dict):
        return isinstance(value, dict) and all(name in value and fits(value[name], each) for name, each in wanted.items())
    if isinstance(wanted, list):
        return isinstance(value, list) and len(value) == len(wanted) and all(map(fits, value, wanted))
    return value == wanted


class Session:
    def __init__(self, client: Client) -> None:
        self.client = client
        self.era = "modern" if client.protocol_version == MODES["modern"] else "legacy"
        self.counts: Counter[str] = Counter()
        self.used: set[tuple[str, str]] = set()

    async def entries(self, of: str) -> list[dict[str, Any]]:
        method, member, key = LISTS[of]
        entries: list[dict[str, Any]] = []
        cursor = None
        for _ in range(100):
            page = plain(await getattr(self.client, method)(cursor=cursor, cache_mode="refresh"))
            entries += page[member]
            cursor = page.get("nextCursor")
            if cursor is None:
                break
        if len({entry[key] for entry in entries}) != len(entries):
            raise Wrong(f"entries of {of} stand twice")
        return entries

    async def ask(self, step: dict[str, Any], progress: list[list[float | None]]) -> Any:
        async def noted(done: float, total: float | None, _: str | None) -> None:
            progress.append([done, total])

        arguments = step.get("arguments")
        if "tool" in step:
            self.used.add(("tools", step["tool"]))
            return await self.client.call_tool(step["tool"], arguments, progress_callback=noted)
        if "read" in step:
            return await self.client.read_resource(step["read"])
        if "prompt" in step:
            self.used.add(("prompts", step["prompt"]))
            return await self.client.get_prompt(step["prompt"], arguments)
        of = step["complete"]
        if "prompt" in of:
            reference: Any = PromptReference(type="ref/prompt", name=of["prompt"])
        else:
            reference = ResourceTemplateReference(type="ref/resource", uri=of["template"])
        argument = {"name": step["argument"], "value": step["value"]}
        return await self.client.complete(reference, argument, step.get("context"))

    async def perform(self, step: dict[str, Any]) -> None:
        if "leave" in step:
            of, _, name = step["leave"].partition(" ")
            self.used.add((of, name))
            return
        kind = next(kind for kind in ("list", "tool", "read", "prompt", "complete") if kind in step)
        self.counts[kind] += 1
        if kind == "list":
            entries = await self.entries(step["list"])
            wanted = step.get("has", step.get("lacks"))
            if any(fits(entry, wanted) for entry in entries) != ("has" in step):
                raise Wrong(f"the list is {entries}")
            return
        progress: list[list[float | None]] = []
        try:
            result = plain(await self.ask(step, progress))
        except MCPError as error:
            if "error" not in step or error.code != step["error"][self.era]:
                raise Wrong(f"refused with {error.code}: {error}") from error
            return
        if "error" in step or not fits(result, step["result"]):
            raise Wrong(f"the result is {result}")
        if "progress" in step and not fits(progress, step["progress"]):
            raise Wrong(f"progress was {progress}")

    async def everything(self, steps: list[dict[str, Any]]) -> bool:
        good = True

        async def attempt(at: Any, work: Any) -> None:
            nonlocal good
            try:
                await work
            # Any exception of the SDK is a failure of this step; the others go on.
            except Exception as error:  # noqa: BLE001
                good = False
                report("everything", ok=False, at=at, error=f"{type(error).__name__}: {error}")

        for step in steps:
            await attempt(step, self.perform(step))
        await attempt("the rest", self.rest())
        if good:
            report("everything", ok=True, counts=self.counts)
        return good

    async def rest(self) -> None:
        """Uses everything that was offered and not yet used; resources can at least be read."""
        for of in ("tools", "prompts"):
            for entry in await self.entries(of):
                if (of, entry["name"]) not in self.used:
                    raise Wrong(f"{entry['name']} is not tried")
        for resource in await self.entries("resources"):
            self.counts["read"] += 1
            contents = plain(await self.client.read_resource(resource["uri"]))["contents"]
            wanted = {name: resource[name] for name in ("uri", "mimeType")}
            if not fits(contents, [wanted]):
                raise Wrong(f"{resource['uri']} holds {contents}")


async def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--era", choices=MODES, required=True)
    parser.add_argument("--revision")
    parser.add_argument("--sse", action="store_true")
    parser.add_argument("steps")
    parser.add_argument("server", nargs="+")
    given = parser.parse_args()
    with open(given.steps, encoding="utf-8") as file:
        steps = json.load(file)
    if given.revision is not None:
        offer(given.revision)
    server = target(given.server, given.sse)
    async with Client(server, mode=MODES[given.era], read_timeout_seconds=REQUEST_SECONDS) as client:
        session = Session(client)
        info = None if client.server_info is None else plain(client.server_info)
        report("negotiate", ok=True, era=session.era, version=client.protocol_version, server=info)
        good = await session.everything(steps)
    report("end", ok=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(asyncio.wait_for(main(), TOTAL_SECONDS)))
