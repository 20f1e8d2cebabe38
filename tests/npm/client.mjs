// The official MCP client, driven by the tests: one JSON object per line on stdin says what to
// do, one per line on stdout says what came of it. argv[2] is JSON: {"stdio": [program, ...]}
// or {"url": ..., "headers": {...}}.
//
//   {"op": "callTool", "args": [{"name": "run_python", "arguments": {}}], "cancel_ms": 500}
//   {"value": {...}, "progress": [...]}   or   {"error": {"code": -32602, "message": "..."}}
//
// {"op": "notes"} gives what the server said by itself since the last time.
import readline from "node:readline";
import { createRequire } from "node:module";
import path from "node:path";
import { pathToFileURL } from "node:url";

const require = createRequire(path.join(process.cwd(), "package.json"));
const load = (name) => import(pathToFileURL(require.resolve(`@modelcontextprotocol/sdk/${name}`)));
const { Client } = await load("client/index.js");
const { StdioClientTransport } = await load("client/stdio.js");
const { StreamableHTTPClientTransport } = await load("client/streamableHttp.js");
const { ElicitRequestSchema, CreateMessageRequestSchema } = await load("types.js");

const how = JSON.parse(process.argv[2]);
const notes = [];
const client = new Client(
    { name: "belljar-tests", version: "1" }, { capabilities: { elicitation: {}, sampling: {} } });
client.fallbackNotificationHandler = async (note) => { notes.push(note); };
client.setRequestHandler(ElicitRequestSchema, async () => ({ action: "decline" }));
client.setRequestHandler(CreateMessageRequestSchema, async () => ({
    model: "none", role: "assistant", content: { type: "text", text: "none" } }));

function transport() {
    if (how.stdio)
        return new StdioClientTransport(
            { command: how.stdio[0], args: how.stdio.slice(1), env: how.env, stderr: "inherit" });
    return new StreamableHTTPClientTransport(
        new URL(how.url), { requestInit: { headers: how.headers ?? {} } });
}

async function perform(order) {
    if (order.op === "notes")
        return { value: notes.splice(0) };
    if (order.op === "about")
        return { value: { server: client.getServerVersion(), can: client.getServerCapabilities(),
            instructions: client.getInstructions(), session: client.transport.sessionId } };
    if (order.op === "terminate")
        return { value: (await client.transport.terminateSession()) ?? null };
    const progress = [];
    const options = { timeout: 120000, ...order.options };
    if (order.progress)
        options.onprogress = (step) => { progress.push(step); };
    if (order.cancel_ms !== undefined) {
        const abort = new AbortController();
        options.signal = abort.signal;
        setTimeout(() => abort.abort("tired"), order.cancel_ms);
    }
    const args = [...(order.args ?? [])];
    if (order.op === "callTool")
        args.push(undefined, options);
    else
        args.push(options);
    return { value: (await client[order.op](...args)) ?? null, progress };
}

function say(result) {
    process.stdout.write(`${JSON.stringify(result)}\n`);
}

try {
    await client.connect(transport());
} catch (error) {
    say({ error: { code: error.code ?? null, message: String(error.message ?? error) } });
    process.exit(1);
}
say({ value: client.getServerVersion() });
const running = new Set();
for await (const line of readline.createInterface({ input: process.stdin })) {
    const order = JSON.parse(line);
    const task = perform(order).then(
        (result) => say({ n: order.n, ...result }),
        (error) => say({ n: order.n, error: {
            code: error.code ?? null, message: String(error.message ?? error) } }));
    running.add(task);
    task.finally(() => running.delete(task));
}
await Promise.allSettled(running);
await client.close();
