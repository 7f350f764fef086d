// Drives the official TypeScript MCP client for tests/e2e/test_mcp_clients.py.
//
//     node mcp_client.mjs MODULES MODE COMMAND ARGUMENT...
//
// MODULES: a directory with node_modules. MODE: v1, or for the second generation of the SDK legacy, auto or a revision. One JSON
// object per line on standard input, {"method": "tools/list"} or {"method": "tools/call", "params": {…}}, is answered with one
// line on standard output: {"result": …} or {"error": "…"}. The first line, unasked, is {"version": …} of the server.

import { createRequire } from "node:module";
import { join } from "node:path";
import { createInterface } from "node:readline";

const [modules, mode, command, ...args] = process.argv.slice(2);
const require = createRequire(join(modules, "package.json"));
const generation = mode === "v1" ? "@modelcontextprotocol/sdk/client" : "@modelcontextprotocol/client";
const { Client } = require(mode === "v1" ? `${generation}/index.js` : generation);
const { StdioClientTransport } = require(mode === "v1" ? `${generation}/stdio.js` : `${generation}/stdio`);

const negotiation = mode === "legacy" || mode === "auto" ? mode : { pin: mode };
const options = mode === "v1" ? {} : { versionNegotiation: { mode: negotiation } };
const client = new Client({ name: "typescript-client", version: "1.0.0" }, options);
const say = (value) => process.stdout.write(JSON.stringify(value) + "\n");

await client.connect(new StdioClientTransport({ command, args, env: process.env }));
say({ version: client.getServerVersion()?.name ?? null });

for await (const line of createInterface({ input: process.stdin })) {
  const { method, params } = JSON.parse(line);
  try {
    say({ result: method === "tools/list" ? await client.listTools() : await client.callTool(params) });
  } catch (error) {
    say({ error: String(error) });
  }
}
await client.close();
