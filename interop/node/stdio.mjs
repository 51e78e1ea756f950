// The official TypeScript client of the Model Context Protocol over the standard streams
// of a command.
//
//   node stdio.mjs COMMAND [ARGUMENT ...]
//
// starts the command as its server and prints what it saw as one line of JSON.

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const [command, ...args] = process.argv.slice(2);
const client = new Client({ name: "interop", version: "1.0.0" });
await client.connect(new StdioClientTransport({ command, args }));
const { tools } = await client.listTools();
const added = await client.callTool({ name: "add", arguments: { a: 2, b: 5 } });
const failed = await client.callTool({ name: "fail", arguments: { why: "no reason" } });
const unknown = await client.callTool({ name: "nope", arguments: {} }).then(
  () => null,
  (e) => e.code,
);
await client.ping();
console.log(
  JSON.stringify({
    server: client.getServerVersion().name,
    tools: tools.map((tool) => tool.name),
    schema: tools[0].inputSchema,
    added: added.structuredContent,
    content: added.content.map((block) => block.text),
    failed: failed.isError,
    reason: failed.content[0].text,
    unknown,
  }),
);
await client.close();
