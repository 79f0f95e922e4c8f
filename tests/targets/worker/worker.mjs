// Runs the Worker in Node: requests in, responses out, with a clock that the test advances.
import assert from "node:assert/strict";
import { randomFillSync } from "node:crypto";
import { readFileSync } from "node:fs";

const wasm = await WebAssembly.compile(readFileSync(process.argv[2]));
const imports = WebAssembly.Module.imports(wasm).map(({ module, name }) => `${module}.${name}`);
assert.deepEqual(imports.sort(), ["host.entropy", "host.now"]);

let now = 1_800_000_000_000;
const host = {
    now: () => now,
    entropy: (at) => randomFillSync(new Uint8Array(exports.memory.buffer, at, 32)),
};
const { exports } = await WebAssembly.instantiate(wasm, { host });

function read(length) {
    if (length === 0) return null;
    const bytes = new Uint8Array(exports.memory.buffer, exports.buffer(length), length);
    return JSON.parse(new TextDecoder().decode(bytes));
}

function fetch(request) {
    const bytes = new TextEncoder().encode(JSON.stringify(request));
    const at = exports.buffer(bytes.length);
    new Uint8Array(exports.memory.buffer, at, bytes.length).set(bytes);
    return read(exports.fetch());
}

const base = [["content-type", "application/json"], ["accept", "application/json, text/event-stream"]];

function modern(tool, args, host = "worker.example") {
    const meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        progressToken: 1,
    };
    const params = { name: tool, arguments: args, _meta: meta };
    const fields = [["mcp-protocol-version", "2026-07-28"], ["mcp-method", "tools/call"], ["mcp-name", tool]];
    const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params });
    // As in a Worker: the host is in the URL.
    return { method: "POST", url: `https://${host}/mcp`, headers: [...base, ...fields], body };
}

const text = (message) => message.result.content[0].text;

// The modern era.
let response = fetch(modern("echo", { a: 1 }));
assert.equal(response.status, 200);
assert.equal(text(JSON.parse(response.body)), '{"a":1}');
assert.equal(fetch(modern("echo", {}, "evil.example")).status, 403);

// A legacy revision without sessions.
const call = { jsonrpc: "2.0", id: 2, method: "tools/call", params: { name: "echo", arguments: { b: 2 } } };
const headers = [...base, ["mcp-protocol-version", "2025-06-18"]];
response = fetch({ method: "POST", url: "https://worker.example/mcp", headers, body: JSON.stringify(call) });
assert.equal(response.status, 200);
assert.equal(text(JSON.parse(response.body)), '{"b":2}');

// A handler that waits: nothing runs in the background, and polling goes on with it.
assert.equal(fetch(modern("later", {})), null);
assert.equal(read(exports.poll()), null);
now += 2_500;
response = read(exports.poll());
assert.equal(response.status, 200);
const events = response.body.split("\n").filter((line) => line.startsWith("data: ")).map((line) => JSON.parse(line.slice(6)));
assert.equal(events[0].method, "notifications/progress");
assert.equal(text(events.at(-1)), "later");

// A client that leaves.
assert.equal(fetch(modern("later", {})), null);
exports.abort();
assert.equal(read(exports.poll()), null);
assert.equal(fetch(modern("echo", {})).status, 200);

// Nonsense.
assert.equal(fetch({ method: "BAD METHOD", url: "/", headers: [], body: "" }).status, 400);
assert.equal(fetch({ method: "GET", url: "https://worker.example/mcp", headers: [], body: "" }).status, 405);

console.log(`wasm32-unknown-unknown: ${readFileSync(process.argv[2]).length} bytes, imports ${imports.join(" and ")}`);
