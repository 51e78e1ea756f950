"""Python's clients of tools against a server of the files environment with one slot.

    python tools.py http://127.0.0.1:8000

"standard" is the official client of the Model Context Protocol over streamable HTTP,
"tool_client" the published package's. Each scenario prints one line of JSON:
{"scenario": name, "result": …}, or "error" with a traceback in place of the result.
Exit status 1 means that a scenario failed.
"""

import asyncio
import json
import sys
import traceback

from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client
from openenv.core.env_server.mcp_types import CallToolAction
from openenv.core.mcp_client import MCPToolClient


async def standard(url):
    async with streamablehttp_client(url + "/mcp") as (read, write, _):
        async with ClientSession(read, write) as session:
            began = await session.initialize()
            await session.send_ping()
            tools = (await session.list_tools()).tools
            wrote = await session.call_tool("write", {"path": "a", "text": "héllo\n"})
            found = await session.call_tool("search", {"text": "llo"})
            outside = await session.call_tool("read", {"path": "../a"})
            invalid = await session.call_tool("read", {})
            try:
                await session.call_tool("nope", {})
                unknown = None
            except Exception as e:
                unknown = str(e)
            return {
                "server": began.serverInfo.name,
                "tools": sorted(t.name for t in tools),
                "read_only": sorted(t.name for t in tools if t.annotations and t.annotations.readOnlyHint),
                "wrote": wrote.structuredContent,
                "found": found.structuredContent,
                "outside": outside.isError,
                "invalid": invalid.isError,
                "unknown": unknown,
            }


async def tool_client(url):
    async with MCPToolClient(url) as env:
        tools = await env.list_tools()
        started = await env.reset()
        wrote = await env.call_tool("write", path="a", text="hi")
        read = await env.call_tool("read", path="a")
        try:
            await env.call_tool("read", path="b")
            failed = None
        except RuntimeError as e:
            failed = str(e)
        stepped = await env.step(CallToolAction(tool_name="list", arguments={}))
        state = await env.state()
        again = await env.reset()
        empty = await env.call_tool("list")
        return {
            "tools": sorted(t.name for t in tools),
            "described": all(t.description and t.input_schema for t in tools),
            "started": started.observation.message,
            "wrote": wrote,
            "read": read,
            "failed": failed,
            "stepped": stepped.observation.result["data"],
            "state": state.step_count,
            "again": again.done,
            "empty": empty,
        }


async def rounds(url):
    """Fifty clients, one after the other: each finds the only slot free."""
    for i in range(50):
        async with MCPToolClient(url) as env:
            await env.call_tool("write", path="a", text=str(i))
    return 50


def main():
    failed = False
    # Twice each: the only slot must be free again.
    for scenario in (standard, tool_client, standard, tool_client, rounds):
        line = {"scenario": scenario.__name__}
        try:
            line["result"] = asyncio.run(scenario(sys.argv[1]))
        except BaseException:
            line["error"] = traceback.format_exc()
            failed = True
        print(json.dumps(line), flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
