// The firmware in QEMU on its network card, driven by both generations of the official client over Streamable HTTP, and by
// clients that stop in the middle.
//
//   node network.mjs ELF [--calls N] [--machine NAME] [--small-heap]
//
// --small-heap: the firmware was built with that feature, and is only asked for more than it has memory for.
import assert from 'node:assert/strict';
import { request as httpRequest } from 'node:http';
import { connect } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { HttpV1, HttpV2 } from '../../../tests/peers/node/sdk.mjs';
import { callText, callWithoutGrowth, CLIENTS, converse, isFirstGeneration, OPTIONS, peakOfCall, steps, textOf } from './clients.mjs';
import { Machine } from './machine.mjs';

const [elf] = process.argv.slice(2);
const option = (name, otherwise) => (process.argv.includes(name) ? process.argv[process.argv.indexOf(name) + 1] : otherwise);
const CALLS = Number(option('--calls', 1_000));
const start = () => Machine.start({ elf, network: true, machine: option('--machine', 'mps2') });
const SMALL_HEAP = process.argv.includes('--small-heap');
/** Connections that the firmware serves at once; it has two more sockets, for clients that wait. */
const PLACES = 4;

let machine = await start();
const { step, done } = steps(10, () => machine.child.kill('SIGKILL'));

/** Starts the machine anew, with another port, and lets it serve. */
const restart = async () => {
    await machine.stop();
    machine = await start();
    assert.equal((await machine.supplyEntropy()).event, 'serving');
};

/** Connects a client to the machine. */
const connected = async (peer) => {
    const client = CLIENTS[peer]();
    client.onerror = () => {};
    const Transport = isFirstGeneration(peer) ? HttpV1 : HttpV2;
    const transport = new Transport(new URL(`http://127.0.0.1:${machine.port}/mcp`));
    await client.connect(transport, OPTIONS);
    return { client, transport };
};

/** A request as bytes, on a connection of its own or one that stays open. */
const bytesOf = (name, args, { body = callText(1, name, args), length = Buffer.byteLength(body) } = {}) =>
    `POST /mcp HTTP/1.1\r\nHost: localhost:${machine.port}\r\nAccept: application/json, text/event-stream\r\n` +
    'Content-Type: application/json\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\n' +
    `Mcp-Name: ${name}\r\nContent-Length: ${length}\r\n\r\n${body}`;

/** Opens a connection; `received` is all that came, `ended` how it ended. */
const open = async () => {
    const socket = connect(machine.port, '127.0.0.1');
    await new Promise((resolve, reject) => socket.once('connect', resolve).once('error', reject));
    const raw = { socket, received: '', ended: undefined };
    socket.setEncoding('utf8');
    socket.on('data', (text) => (raw.received += text));
    socket.on('end', () => (raw.ended ??= 'end'));
    socket.on('error', (error) => (raw.ended ??= error.code));
    socket.on('close', () => (raw.ended ??= 'close'));
    return raw;
};

/** Waits until a condition holds. `shown` says in the error what there was instead. */
const until = async (what, condition, ms = 10_000, shown = () => '') => {
    const begun = Date.now();
    while (!condition()) {
        if (Date.now() - begun > ms) throw new Error(`${what}: not within ${ms} ms${shown()}`);
        await delay(10);
    }
};

/** Makes one call on a connection of its own. Returns status and text of the response. */
const post = (name, args, ms = 20_000) =>
    new Promise((resolve, reject) => {
        const headers = { accept: 'application/json, text/event-stream', 'content-type': 'application/json' };
        Object.assign(headers, { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/call', 'mcp-name': name });
        const options = { port: machine.port, path: '/mcp', method: 'POST', headers, agent: false, timeout: ms };
        const request = httpRequest(options, (response) => {
            let text = '';
            response.on('data', (piece) => (text += piece));
            response.on('end', () => resolve({ status: response.statusCode, headers: response.headers, text }));
            response.on('error', reject);
        });
        request.on('timeout', () => request.destroy(new Error('no response')));
        request.on('error', reject);
        request.end(callText(1, name, args));
    });

/** Makes one call. While no socket listens, the connection is reset; `resets` counts that, and it is tried again. */
const resets = { count: 0 };
const postSoon = async (name, args) => {
    for (let attempt = 0; ; attempt += 1) {
        try {
            return await post(name, args);
        } catch (error) {
            if (error.code !== 'ECONNRESET' || attempt === 100) throw error;
            resets.count += 1;
            await delay(20 + 10 * (attempt % 7));
        }
    }
};

const assertServes = async () => {
    const { status, text } = await postSoon('register', { address: 1, value: 5 });
    assert.equal(status, 200, text);
    assert.equal(textOf(JSON.parse(text).result), '5');
};

if (SMALL_HEAP) {
    await step('memory that runs out: a refusal, and then calls are served', async () => {
        assert.equal((await machine.supplyEntropy()).event, 'serving');
        await assertServes();
        const outcomes = new Map();
        const count = (outcome) => outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
        for (let round = 0; round < 5; round += 1) {
            // Bodies that are all there but for their end, on all sockets at once, and then the ends.
            const text = bytesOf('register', { address: 0, note: 'x'.repeat(1_500) });
            const clients = [];
            for (let n = 0; n < PLACES; n += 1) {
                const client = await open();
                client.socket.write(text.slice(0, -200));
                clients.push(client);
                await delay(30);
            }
            await delay(100);
            clients.forEach(({ socket }) => socket.writable && socket.write(text.slice(-200)));
            const isDone = ({ received, ended }) => /\}$/.test(received) || ended !== undefined;
            await until('all outcomes', () => clients.every(isDone), 5_000);
            clients.forEach(({ received, ended }) => count(received === '' ? ended : received.slice(9, 12)));
            clients.forEach(({ socket }) => socket.destroy());
            // The connections of clients that have gone hold memory for a second at most; 503 says when to come again.
            for (let attempt = 0; (await postSoon('register', { address: 0 })).status === 503; attempt += 1) {
                assert.ok(attempt < 3, 'memory is not free again');
                await delay(1_200);
            }
            await assertServes();
        }
        const marks = await machine.marks();
        const text = `${JSON.stringify(Object.fromEntries(outcomes))}, peak ${marks.peak} of ${marks.heap}, ${marks.refused} allocations refused, largest ${marks.largestRefused}`;
        assert.ok(marks.refused > 0 && outcomes.get('503') > 0, text);
        return text;
    });
    done();
    await machine.stop();
    process.exit(0);
}

await step('without entropy nothing is served', async () => {
    await assert.rejects(post('register', { address: 0 }, 1_000));
    assert.equal((await machine.supplyEntropy(Buffer.alloc(72))).event, 'noEntropy');
    await assert.rejects(post('register', { address: 0 }, 1_000));
    assert.equal((await machine.supplyEntropy()).event, 'serving');
    await assertServes();
});

for (const peer of Object.keys(CLIENTS)) {
    await step(`${peer}: negotiate, list, call, read, progress, cancel, subscribe, ping`, async () => {
        const { client, transport } = await connected(peer);
        const shown = await converse(peer, client);
        if (!peer.endsWith('modern')) await transport.terminateSession();
        await client.close();
        return shown;
    });
}

await step('a call of 1 KiB: memory at its peak', async () => {
    await restart();
    const { client } = await connected('TypeScript 2.4.0, modern');
    const { idle, after, beyond } = await peakOfCall(machine, (params) => client.callTool(params, OPTIONS));
    await client.close();
    const socket = 2_048;
    const text =
        `${beyond + socket} bytes beyond the payload: heap ${beyond} (idle ${idle.used}, peak ${after.peak} of ${after.heap}) and ${socket} of a socket; ` +
        `stack ${after.stack}, ${after.buffers} of all sockets and frames, ${after.server} of the server`;
    assert.ok(beyond + socket <= 16 << 10, text);
    return text;
});

await step(`${CALLS} calls without growth`, async () => {
    const { client } = await connected('TypeScript 2.4.0, modern');
    const text = await callWithoutGrowth(machine, CALLS, (params) => client.callTool(params, OPTIONS));
    await client.close();
    return text;
});

await step('a connection that breaks at every eleventh byte', async () => {
    const text = bytesOf('register', { address: 1, value: 5 });
    let cuts = 0;
    for (let cut = 0; cut < text.length; cut += 11, cuts += 1) {
        const { socket } = await open();
        await new Promise((resolve) => socket.write(text.slice(0, cut), resolve));
        await delay(5);
        // A reset, and an end.
        if (cut % 2 === 0) socket.resetAndDestroy();
        else socket.end();
        if (cut % 5 === 0) await assertServes();
    }
    await assertServes();
    return `${cuts} cuts`;
});

await step('more clients than sockets: two are told to come back, one is refused, then all are served', async () => {
    await restart();
    const busy = [];
    for (let n = 0; n < PLACES; n += 1) {
        const client = await open();
        client.socket.write(bytesOf('sensor', { samples: 1_000_000 }));
        busy.push(client);
        await delay(50);
    }
    const begun = Date.now();
    const waiting = [post('register', { address: 0 }), post('register', { address: 0 })];
    await delay(200);
    const refused = await open();
    refused.socket.write(bytesOf('register', { address: 0 }));
    await until('the refusal', () => refused.ended !== undefined);
    assert.equal(refused.received, '');
    for (const { status, headers } of await Promise.all(waiting)) {
        assert.equal(status, 503);
        assert.ok(headers['retry-after'] !== undefined, 'retry-after');
    }
    const waited = Date.now() - begun;
    assert.ok(busy.every((client) => client.ended === undefined), 'those before are served');
    busy.forEach((client) => client.socket.destroy());
    await delay(300);
    await assertServes();
    return `503 after ${waited} ms, then ${refused.ended}`;
});

await step('idle clients give their sockets to an official one', async () => {
    const idle = [];
    for (let n = 0; n < PLACES; n += 1) {
        const client = await open();
        client.socket.write(bytesOf('register', { address: 0 }));
        await until('an answer', () => client.received.includes('"result"'));
        idle.push(client);
    }
    await delay(500);
    const { client, transport } = await connected('TypeScript 2.4.0, legacy');
    assert.equal(textOf(await client.callTool({ name: 'register', arguments: { address: 2, value: 3 } }, OPTIONS)), '3');
    await transport.terminateSession();
    await client.close();
    idle.forEach(({ socket }) => socket.destroy());
});

await step('half a request and silence: a timeout, while others are served', async () => {
    // The connections that the client above leaves idle have places: with them, one half would give its place to a whole
    // request, and get 408 at once.
    await restart();
    const text = bytesOf('register', { address: 0 });
    const halves = [];
    for (const kept of [40, text.length - 10]) {
        const half = await open();
        half.socket.write(text.slice(0, kept));
        const begun = Date.now();
        half.socket.once('data', () => (half.waited = Date.now() - begun));
        halves.push(half);
    }
    const shown = () =>
        halves.map(({ received, ended, waited }) => `; ${JSON.stringify(received.split('\r\n')[0])} after ${waited} ms, end ${ended}`).join('');
    await assertServes();
    const isOver = ({ received, ended }) => received.startsWith('HTTP/1.1 408 ') || ended !== undefined;
    await until('both timeouts', () => halves.every(isOver), 15_000, shown);
    assert.ok(halves.every(({ received, waited }) => received.startsWith('HTTP/1.1 408 ') && waited > 9_000), shown());
    halves.forEach(({ socket }) => socket.destroy());
    await assertServes();
    return `after ${halves.map(({ waited }) => waited).join(' and ')} ms`;
});

await step('requests larger than the limit and than all memory: 413, and others go on', async () => {
    for (const length of [2_100, 200_000]) {
        const large = await open();
        large.socket.write(bytesOf('register', { address: 0, note: 'x'.repeat(length) }));
        await until('the refusal', () => large.received.startsWith('HTTP/1.1 413 '));
        await assertServes();
        large.socket.destroy();
    }
});

await step('a flood of requests, measurements among them, is answered to the last', async () => {
    await machine.resetMarks();
    const seen = new Map();
    const before = resets.count;
    const client = async (first) => {
        for (let n = first; n < 200; n += 8) {
            const [name, args] = n % 5 === 0 ? ['sensor', { samples: 2 }] : ['register', { address: n % 4, note: 'y'.repeat((n * 53) % 1_400) }];
            const { status, text } = await postSoon(name, args);
            const outcome = status === 200 && !text.includes('"result"') ? 'error' : status;
            seen.set(outcome, (seen.get(outcome) ?? 0) + 1);
        }
    };
    await Promise.all(Array.from({ length: 8 }, (_, first) => client(first)));
    await assertServes();
    const marks = await machine.marks();
    assert.ok(seen.get(200) > 100, 'most are answered');
    return `${JSON.stringify(Object.fromEntries(seen))}, ${resets.count - before} tried again, peak ${marks.peak} of ${marks.heap}, ${marks.refused} allocations refused, stack ${marks.stack}`;
});

const end = await machine.marks();
console.log(`marks: heap peak ${end.peak} of ${end.heap} bytes, stack peak ${end.stack} bytes`);
done();
await machine.stop();
