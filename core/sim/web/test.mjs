// Runs worlds in the module and on this machine, which have to be equal, and opens hostile addresses.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";

const [module, program] = process.argv.slice(2);
const compiled = await WebAssembly.compile(readFileSync(module));
assert.deepEqual(WebAssembly.Module.imports(compiled), []);
const wasm = new WebAssembly.Instance(compiled).exports;

function ask(command, text) {
    const input = new TextEncoder().encode(text).slice(0, 4096);
    const place = wasm.buffer(input.length);
    new Uint8Array(wasm.memory.buffer, place, input.length).set(input);
    return answer(wasm[command](input.length));
}
const answer = (length) => new TextDecoder().decode(new Uint8Array(wasm.memory.buffer, wasm.output(), length));

// A pointer has half the size there, so the servers hold other numbers of bytes.
const parse = (text) => JSON.parse(text, (name, value) => (name === "memory" ? undefined : value));

const worlds = [
    "",
    "seed=2&faults=all&clients=3&steps=200",
    "seed=18446744073709551615&faults=all,tight&clients=4&steps=400",
    "seed=3&client=legacy&planted=1&reduced=1",
    "seed=18446744073709551615&client=legacy&planted=1&reduced=1",
    "seed=4&client=modern&server=modern&faults=delay,cuts",
    "seed=16&faults=reset,delay,stall&clients=2&steps=200",
    "seed=5&client=2025-06-18&server=all&faults=death,reset,stall",
    "binding=http",
    "binding=http&seed=2&faults=all&clients=3&steps=400",
    "binding=http&seed=6&faults=all,tight&clients=4&steps=300",
    "binding=http&seed=3&client=legacy&planted=1&reduced=1",
    "faults=reset,delay,cuts&steps=400&clients=2&client=legacy&binding=http",
    "binding=http&seed=4&client=modern&faults=questions,tasks,foreign&clients=2&steps=200",
    "binding=http&seed=7&faults=all,http1&clients=3&steps=400",
    "binding=http-sse",
    "binding=http-sse&seed=2&faults=all&clients=3&steps=400",
    "binding=http-sse&seed=6&faults=all,tight,http1&clients=4&steps=300",
    "seed=3&faults=all,events&clients=2&steps=300",
    "binding=http&seed=2&faults=all,events&clients=3&steps=400",
    "binding=http-sse&seed=2&faults=all,events&clients=2&steps=300",
];
let breaks = 0;
const kinds = new Map();
for (const text of worlds) {
    const native = execFileSync(program, [text], { encoding: "utf8", maxBuffer: 1 << 28 });
    const here = parse(ask("run", text));
    assert.deepEqual(here, parse(native), text);
    assert.ok(here.rows.length > 20 || here.settings.reduced, text);
    for (const { kind } of here.rows) kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
    // Time does not go back.
    here.rows.forEach((row, n) => assert.ok(n === 0 || row.at >= here.rows[n - 1].at, `${text}, step ${row.step}: ${row.text}`));
    // Each message arrives or is lost, once.
    const rows = here.rows.filter((row) => row.message !== null);
    const numbers = (...kinds) => rows.filter((row) => kinds.includes(row.kind)).map((row) => row.message).sort((a, b) => a - b);
    // Without faults all of them arrive.
    if (!here.settings.faults.length) assert.deepEqual(numbers("lost"), [], text);
    // Messages that were under way on a link that breaks are lost then.
    for (const fault of here.rows.filter((row) => /^link \d+ breaks$/.test(row.text))) {
        const n = Number(fault.text.split(" ")[1]);
        const ended = new Set(rows.filter((row) => row.step <= fault.step && !["sent", "injected", "repeated"].includes(row.kind)).map((row) => row.message));
        const open = rows.filter((row) => row.n === n && row.step < fault.step && !ended.has(row.message));
        assert.deepEqual(open.map((row) => row.text), [], `${text}, step ${fault.step}`);
        breaks += rows.filter((row) => row.kind === "lost" && row.step === fault.step).length;
    }
    if (!here.warnings.length) assert.deepEqual(numbers("sent", "injected", "repeated"), numbers("arrived", "lost"), text);
}
assert.ok(breaks > 0, "no message is lost by a link that breaks");
for (const kind of ["requested", "responded", "streamed", "finished", "broken", "resumed", "repeated", "stranger", "postponed", "replied", "published", "followed", "handed-out", "gap", "posted"]) {
    assert.ok(kinds.get(kind) > 1, `${kinds.get(kind)} rows of the kind ${kind}`);
}

const hostile = [
    ["seed=99999999999999999999999", /seed: .* 18446744073709551615 is used/],
    ["clients=4000000000", /clients: expected a number from 1 to 4/],
    ["steps=-1", /steps: expected a number from 1 to 400/],
    ["steps=1e9", /60 is used/],
    ["binding=https", /binding: expected stdio, http or http-sse, not "https"; stdio is used/],
    ["faults=x", /faults: "x" is unknown/],
    ["client=", /client: expected all/],
    ["\u0000=%&&=", /unknown, ignored/],
    ["client=" + "é".repeat(3_000), /client: expected all/],
    ["&".repeat(5_000) + "seed=x", null],
    ["planted=2", /1 is used/],
];
for (const [text, warning] of hostile) {
    const { warnings, rows } = JSON.parse(ask("run", text));
    assert.ok(rows.length > 20, text);
    if (warning) assert.match(warnings.join("\n"), warning, text);
    // A warning has a bound, whatever the address has.
    assert.ok(warnings.every((one) => one.length < 200), text);
}

const { faults, variants } = JSON.parse(answer(wasm.offer()));
assert.deepEqual(variants.filter((name) => !faults.includes(name)), []);

// Without a bug there is nothing to find, with the planted one there is, and its test is complete.
assert.deepEqual(JSON.parse(ask("search", "seed=1&faults=all")), { next: "6" });
assert.deepEqual(JSON.parse(ask("search", "seed=18446744073709551612&faults=all")), { next: null });
const last = JSON.parse(ask("run", "seed=18446744073709551615&client=legacy&planted=1&reduced=1"));
assert.match(last.test, /fn world_of_seed_18446744073709551615_/, "the last seed is one like others");
const found = JSON.parse(ask("search", "seed=1&planted=1"));
assert.equal(found.invariant, "result_reaches_its_call");
const reduced = JSON.parse(ask("run", `seed=${found.seed}&planted=1&reduced=1`));
assert.match(reduced.test, /^\/\/ A server[^]*struct Planted \{[^]*#\[test\]\nfn world_of_seed_/);
const whole = JSON.parse(ask("run", `seed=${found.seed}&planted=1`));
assert.ok(reduced.entries < whole.entries / 2, `${reduced.entries} of ${whole.entries} entries are left`);
const violated = reduced.invariants.filter((one) => one.reason !== null).map((one) => one.name);
assert.deepEqual(violated, ["result_reaches_its_call"]);
