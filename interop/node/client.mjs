// The official TypeScript client of the Model Context Protocol against a server of the
// files environment with one slot, over streamable HTTP.
//
//   node client.mjs http://127.0.0.1:8000
//
// prints one line of JSON for each of two sessions.

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

async function once(url) {
  const client = new Client({ name: "interop", version: "1.0.0" });
  const transport = new StreamableHTTPClientTransport(new URL("/mcp", url));
  await client.connect(transport);
  await client.ping();
  const { tools } = await client.listTools();
  const call = (name, args) => client.callTool({ name, arguments: args });
  const wrote = await call("write", { path: "a", text: "héllo\n" });
  const found = await call("search", { text: "llo" });
  const outside = await call("read", { path: "../a" });
  const unknown = await call("nope", {}).then(
    (result) => result.isError,
    (e) => e.message,
  );
  const result = {
    server: client.getServerVersion().name,
    tools: tools.map((t) => t.name).sort(),
    wrote: wrote.structuredContent,
    found: found.structuredContent,
    outside: outside.isError,
    unknown,
  };
  await transport.terminateSession();
  await client.close();
  return result;
}

for (let i = 0; i < 2; i++) {
  console.log(JSON.stringify(await once(process.argv[2])));
}
