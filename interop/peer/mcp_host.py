"""The official Python client of MCP over the standard streams of a command.

    python mcp_host.py COMMAND [ARGUMENT ...]

starts the command as its server and prints what it saw as one line of JSON.
"""

import asyncio
import json
import sys

from mcp import ClientSession, McpError, StdioServerParameters
from mcp.client.stdio import stdio_client


async def see(command, arguments):
    server = StdioServerParameters(command=command, args=arguments)
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        greeting = await session.initialize()
        tools = await session.list_tools()
        added = await session.call_tool("add", {"a": 2, "b": 5})
        failed = await session.call_tool("fail", {"why": "no reason"})
        try:
            await session.call_tool("nope", {})
            unknown = None
        except McpError as error:
            unknown = error.error.code
        await session.send_ping()
        return {
            "server": greeting.serverInfo.name,
            "tools": [tool.name for tool in tools.tools],
            "schema": tools.tools[0].inputSchema,
            "added": added.structuredContent,
            "content": [block.text for block in added.content],
            "failed": failed.isError,
            "reason": failed.content[0].text,
            "unknown": unknown,
        }


def main():
    print(json.dumps(asyncio.run(see(sys.argv[1], sys.argv[2:])), sort_keys=True))


if __name__ == "__main__":
    main()
