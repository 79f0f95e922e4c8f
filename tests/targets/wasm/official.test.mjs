// Our server and our client as modules, and the official TypeScript SDKs, in one process and in both eras.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { StdioClientTransport as StdioV1 } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StdioClientTransport as StdioV2 } from '@modelcontextprotocol/client/stdio';
import { WasmTransport } from './host.mjs';
import { module, path } from './modules.mjs';
import { clients, servers } from './peers.mjs';

// All characters of JSON strings that need care, and more bytes than one piece of output.
const TEXT = `"\\\n\u0000é漢🦀${'x'.repeat(5000)}`;
const onlyText = ({ content }) => {
    assert.equal(content.length, 1);
    return content[0].text;
};
const names = ({ tools }) => tools.map(({ name }) => name);

const useServer = async ({ client, call, alive }, tools) => {
    assert.equal(client.getServerVersion().name, 'wasm-tools');
    assert.deepEqual(names(await client.listTools()), tools);
    assert.equal(onlyText(await call({ name: 'echo', arguments: { text: TEXT } })), TEXT);
    await assert.rejects(call({ name: 'echo', arguments: {} }), { code: -32602 });
    await assert.rejects(call({ name: 'none', arguments: {} }), { code: -32602 });
    if (tools.includes('greet')) {
        assert.equal(onlyText(await call({ name: 'greet', arguments: {} })), 'Hello, Ada');
    }
    const seen = [];
    const onprogress = ({ progress }) => void seen.push(progress);
    assert.equal(onlyText(await call({ name: 'wait', arguments: { ms: 20 } }, { onprogress })), 'waited');
    assert.deepEqual(seen, [0]);
    // More calls than run at once within the limits: the rest waits.
    const calls = Array.from({ length: 10 }, (_, ms) => call({ name: 'wait', arguments: { ms } }));
    assert.equal((await Promise.all(calls)).length, 10);
};

for (const [name, connect] of Object.entries(clients)) {
    for (const [wasm, tools] of [
        ['server', ['echo', 'wait']],
        ['ask', ['echo', 'wait', 'greet']],
        ['modern', ['echo', 'wait']],
    ]) {
        if (wasm === 'modern' && !/modern|either/.test(name)) continue;
        test(`module ${wasm} serves the client of ${name}`, async () => {
            const transport = new WasmTransport(module(wasm));
            const peer = await connect(transport);
            assert.equal(peer.era, /modern|either/.test(name) ? 'modern' : 'legacy');
            await useServer(peer, tools);
            const abort = new AbortController();
            const call = peer.call({ name: 'wait', arguments: { ms: 3_600_000 } }, { signal: abort.signal });
            setTimeout(() => abort.abort('enough'), 10);
            await assert.rejects(call);
            await peer.alive();
            // Nothing is open any more, so the module finishes at the end of its input.
            await peer.client.close();
            assert.equal(transport.exports.is_drained(), 1);
        });
    }

    test(`stdio server of wasm32-wasip1 serves the client of ${name}`, async () => {
        const Stdio = name.startsWith('SDK 1') ? StdioV1 : StdioV2;
        const args = ['--no-warnings', 'wasi.mjs', path('stdio')];
        const transport = new Stdio({ command: process.execPath, args, cwd: import.meta.dirname });
        const peer = await connect(transport);
        const child = transport._process;
        const ended = new Promise((resolve) => child.once('exit', (...end) => resolve(end)));
        await useServer(peer, ['echo', 'wait', 'greet']);
        await peer.alive();
        // Not by `close`, whose signals would hide a server that does not end by itself.
        child.stdin.end();
        assert.deepEqual(await ended, [0, null]);
        await peer.client.close();
    });
}

/** Our client, with promises in the place of events. */
const openClient = (era) => {
    const waiting = new Map();
    const ready = {};
    ready.promise = new Promise((resolve, reject) => Object.assign(ready, { resolve, reject }));
    const progress = [];
    const transport = new WasmTransport(module('client'), {
        era,
        onevent: (event) => {
            if (event.type === 'ready') ready.resolve(event);
            if (event.type === 'closed') ready.reject(new Error('closed'));
            if (event.type === 'progress') progress.push(event.progress);
            if (event.type === 'input') {
                assert.equal(event.request.method, 'elicitation/create');
                const answer = { action: 'accept', content: { name: 'Grace' } };
                transport.command('answer', event.input, JSON.stringify(answer));
            }
            if (event.type === 'done') waiting.get(event.call)(event);
        },
    });
    const call = (method, params) => {
        let number;
        const done = new Promise((resolve) => {
            number = transport.command('call', method.length, method + JSON.stringify(params));
            waiting.set(number, resolve);
        });
        return { number, done };
    };
    const tool = (name, args) => call('tools/call', { name, arguments: args });
    return { transport, ready: ready.promise, call, tool, progress };
};

for (const [name, { version, serve }] of Object.entries(servers)) {
    test(`module client uses the server of ${name}`, async () => {
        const seen = { aborted: 0 };
        const { transport, ready, call, tool, progress } = openClient(0);
        const server = await serve(transport, seen);
        const peer = await ready;
        assert.equal(peer.version, version);
        assert.equal(peer.server.name, 'official');
        assert.deepEqual(names((await call('tools/list', {}).done).result), ['echo', 'slow', 'greet', 'fail']);
        assert.equal(onlyText((await tool('echo', { text: TEXT }).done).result), TEXT);
        assert.equal(onlyText((await tool('slow', { ms: 1 }).done).result), 'slow');
        assert.deepEqual(progress, [1, 2, 3]);
        assert.equal(onlyText((await tool('greet', {}).done).result), 'Hello, Grace');
        const { reason, code } = (await tool('none', {}).done).error;
        assert.deepEqual({ reason, code }, { reason: 'error', code: -32602 });

        const slow = tool('slow', { ms: 3_600_000 });
        await delay(10);
        transport.command('cancel', slow.number);
        assert.equal((await slow.done).error.reason, 'cancelled');
        for (let waited = 0; seen.aborted === 0 && waited < 2000; waited += 10) await delay(10);
        assert.equal(seen.aborted, 1);
        await server.close();
    });
}

test('module client of the modern era refuses a legacy server', async () => {
    const { transport, ready } = openClient(2);
    const refused = assert.rejects(ready, /closed/);
    const server = await servers['SDK 1.32.2'].serve(transport, { aborted: 0 });
    await refused;
    await server.close();
});

test('host ends when its module has ended', async () => {
    const transport = new WasmTransport(module('server'));
    const ended = new Promise((resolve) => (transport.onclose = resolve));
    await transport.start();
    // Faulty messages in a row, more than the limit: the module closes the connection.
    for (let i = 0; i < 100 && !transport.isClosed; i += 1) await transport.send({ faulty: i });
    assert.equal(transport.exports.is_drained(), 1);
    assert.equal(await Promise.race([ended, delay(1000, 'open')]), undefined);
});
