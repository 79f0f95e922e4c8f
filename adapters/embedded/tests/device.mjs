// The firmware in QEMU, driven by both generations of the official client, and by bytes that no client sends.
//
//   node device.mjs ELF [--calls N]
import assert from 'node:assert/strict';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { ClientV1, ClientV2, ResourceUpdatedNotificationSchema } from '../../../tests/peers/node/sdk.mjs';
import { Machine } from './machine.mjs';
import { LineTransport } from './transport.mjs';

const [elf] = process.argv.slice(2);
const at = process.argv.indexOf('--calls');
const CALLS = at < 0 ? 10_000 : Number(process.argv[at + 1]);
const OPTIONS = { timeout: 20_000 };
const URI = 'device://temperature';

const machine = await Machine.start({ elf });
const watchdog = setTimeout(() => {
    console.error('the test is not done after ten minutes');
    machine.child.kill('SIGKILL');
    process.exit(3);
}, 600_000);

const step = async (what, work) => {
    const begun = Date.now();
    try {
        const shown = await work();
        console.log(`ok  ${what} (${Date.now() - begun} ms)${shown === undefined ? '' : `: ${shown}`}`);
    } catch (error) {
        console.error(`FAILED  ${what}: ${error.stack}`);
        machine.child.kill('SIGKILL');
        process.exit(1);
    }
};

const textOf = (result) => result.content[0].text;

const CLIENTS = {
    'TypeScript 1.32.2, legacy': () => new ClientV1({ name: 'peer', version: '1' }),
    'TypeScript 2.4.0, legacy': () => new ClientV2({ name: 'peer', version: '2' }, { versionNegotiation: { mode: 'legacy' } }),
    'TypeScript 2.4.0, modern': () => new ClientV2({ name: 'peer', version: '2' }, { versionNegotiation: { mode: { pin: '2026-07-28' } } }),
};

/** Connects a client to a machine that was just reset: a serial line has no end that the device could notice. */
const connected = async (make) => {
    await machine.reset();
    const client = make();
    const transport = new LineTransport(() => machine.line());
    client.onerror = () => {};
    await client.connect(transport, OPTIONS);
    return { client, transport };
};

for (const [peer, make] of Object.entries(CLIENTS)) {
    await step(`${peer}: negotiate, list, call, read, progress, cancel, subscribe, ping`, async () => {
        const { client, transport } = await connected(make);
        const call = (name, args, options) =>
            peer.includes('1.32')
                ? client.callTool({ name, arguments: args }, undefined, { ...OPTIONS, ...options })
                : client.callTool({ name, arguments: args }, { ...OPTIONS, ...options });
        assert.equal(client.getServerVersion().name, 'device');
        const { tools } = await client.listTools({}, OPTIONS);
        assert.deepEqual(tools.map((tool) => tool.name).sort(), ['register', 'sensor']);
        const { resources } = await client.listResources({}, OPTIONS);
        assert.equal(resources[0].uri, URI);
        assert.equal(textOf(await call('register', { address: 2, value: 77 })), '77');
        assert.equal(textOf(await call('register', { address: 2 })), '77');
        assert.equal((await call('register', { address: 9 })).isError, true);
        const read = await client.readResource({ uri: URI }, OPTIONS);
        assert.match(read.contents[0].text, /^20\.\d$/);
        let reports = 0;
        assert.match(textOf(await call('sensor', { samples: 20 }, { onprogress: () => (reports += 1) })), /^20\.\d\d$/);
        assert.ok(reports > 0, 'no progress');

        const abort = new AbortController();
        const cancelled = call('sensor', { samples: 1_000_000 }, { signal: abort.signal, onprogress: () => abort.abort('enough') });
        await assert.rejects(cancelled, /enough|abort/i);

        let updates = 0;
        const modern = peer.endsWith('modern');
        client.setNotificationHandler(
            peer.includes('1.32') ? ResourceUpdatedNotificationSchema : 'notifications/resources/updated',
            ({ params }) => void (updates += params.uri === URI),
        );
        let subscription;
        if (modern) subscription = await client.listen({ resourceSubscriptions: [URI] }, OPTIONS);
        else await client.subscribeResource({ uri: URI }, OPTIONS);
        for (let waited = 0; updates < 2 && waited < 8_000; waited += 50) await delay(50);
        assert.ok(updates >= 2, `${updates} updates`);
        if (modern) await subscription.close();
        else await client.unsubscribeResource({ uri: URI }, OPTIONS);

        if (modern) await client.discover(OPTIONS);
        else await client.ping(OPTIONS);
        // Also shows that the cancelled call holds nothing up.
        assert.equal(textOf(await call('register', { address: 2 })), '77');
        assert.deepEqual(transport.noise, []);
        await client.close();
        return `${updates} updates, ${reports} progress reports`;
    });
}

await step('a call of 1 KiB: memory at its peak', async () => {
    const { client } = await connected(CLIENTS['TypeScript 2.4.0, modern']);
    const call = () => client.callTool({ name: 'register', arguments: { address: 1, note: 'x'.repeat(1_024) } }, OPTIONS);
    await delay(1_500); // until idle buffers are released
    const idle = await machine.marks();
    await machine.resetMarks();
    await call();
    const after = await machine.marks();
    await client.close();
    const beyond = after.peak - idle.used - 1_024;
    const text = `heap ${beyond} bytes beyond the payload (idle ${idle.used}, peak ${after.peak} of ${after.heap}), stack ${after.stack}`;
    assert.ok(beyond <= 8 << 10, text);
    assert.equal(after.refused, 0, text);
    return text;
});

await step(`${CALLS} calls without growth`, async () => {
    const { client } = await connected(CLIENTS['TypeScript 2.4.0, legacy']);
    const call = (n) => client.callTool({ name: 'register', arguments: { address: n % 4, value: n } }, OPTIONS);
    for (let n = 0; n < 100; n += 1) await call(n);
    const before = await machine.marks();
    await machine.resetMarks();
    for (let n = 0; n < CALLS; n += 1) assert.equal(textOf(await call(n)), String(n));
    const after = await machine.marks();
    await client.close();
    const text = `heap ${before.used} -> ${after.used}, peak ${before.peak} -> ${after.peak}, stack ${before.stack} -> ${after.stack}`;
    assert.ok(after.used <= before.used && after.peak <= before.peak + 256 && after.stack <= before.stack + 64, text);
    return text;
});

// Below here no client: lines as bytes.
const META = { 'io.modelcontextprotocol/protocolVersion': '2026-07-28', 'io.modelcontextprotocol/clientCapabilities': {} };
const request = (id, args = { address: 0 }) =>
    `${JSON.stringify({ jsonrpc: '2.0', id, method: 'tools/call', params: { name: 'register', arguments: args, _meta: META } })}\n`;

/** Opens the line for bytes; `answers` collects the messages by id. */
const raw = async () => {
    const stream = await machine.line();
    const answers = new Map();
    const waiting = [];
    createInterface({ input: stream }).on('line', (line) => {
        const message = JSON.parse(line);
        answers.set(message.id, message);
        waiting.splice(0).forEach((wake) => wake());
    });
    const answer = async (id, ms = 20_000) => {
        const until = Date.now() + ms;
        while (!answers.has(id)) {
            if (Date.now() > until) throw new Error(`no answer to ${id}; there are ${[...answers.keys()].slice(-5)}`);
            await Promise.race([new Promise((wake) => waiting.push(wake)), delay(100)]);
        }
        return answers.get(id);
    };
    return { stream, answers, answer, close: () => stream.destroy() };
};

await step('a line cut at every byte', async () => {
    await machine.reset();
    const line = await raw();
    const text = request('cut');
    for (let cut = 1; cut < text.length; cut += 1) {
        const whole = request(`cut-${cut}`);
        line.stream.write(whole.slice(0, cut));
        await delay(2);
        line.stream.write(whole.slice(cut));
        const { result } = await line.answer(`cut-${cut}`);
        assert.equal(textOf(result), '0');
    }
    line.close();
    return `${text.length - 1} cuts`;
});

await step('a line lost from every byte on: the next request is answered', async () => {
    await machine.reset();
    const line = await raw();
    const text = request('lost');
    let n = 0;
    for (let kept = 1; kept < text.length - 1; kept += 7, n += 1) {
        line.stream.write(`${text.slice(0, kept)}\n`);
        line.stream.write(request(`next-${kept}`));
        assert.ok((await line.answer(`next-${kept}`)).result);
    }
    line.close();
    return `${n} losses`;
});

await step('noise between lines and within them', async () => {
    await machine.reset();
    const line = await raw();
    let seed = 7;
    const random = (below) => ((seed = (seed * 1_103_515_245 + 12_345) & 0x7fffffff) >> 8) % below;
    for (let n = 0; n < 40; n += 1) {
        line.stream.write(Buffer.from(Array.from({ length: random(200) }, () => random(256))));
        const damaged = Buffer.from(request(`damaged-${n}`));
        damaged[random(damaged.length - 1)] = random(256);
        line.stream.write(damaged);
        line.stream.write(`\n${request(`sound-${n}`)}`);
        assert.ok((await line.answer(`sound-${n}`)).result);
    }
    line.close();
});

await step('a frame larger than all memory, and one larger than the limit', async () => {
    await machine.reset();
    const line = await raw();
    for (const length of [4_096, 200_000]) {
        line.stream.write(request(`large-${length}`, { address: 0, note: 'x'.repeat(length) }));
        const { error } = await line.answer(`large-${length}`, 120_000);
        assert.ok(error, 'an error');
        line.stream.write(request(`small-${length}`));
        assert.ok((await line.answer(`small-${length}`)).result);
    }
    const marks = await machine.marks();
    line.close();
    return `peak ${marks.peak} of ${marks.heap}`;
});

await step('a flood of requests, measurements among them, is answered to the last', async () => {
    await machine.reset();
    const line = await raw();
    const measure = (id) =>
        `${JSON.stringify({ jsonrpc: '2.0', id, method: 'tools/call', params: { name: 'sensor', arguments: { samples: 2 }, _meta: META } })}\n`;
    let all = '';
    for (let n = 0; n < 300; n += 1) all += n % 5 === 0 ? measure(n) : request(n, { address: n % 4, note: 'y'.repeat((n * 53) % 1_500) });
    line.stream.write(all);
    let errors = 0;
    for (let n = 0; n < 300; n += 1) errors += (await line.answer(n, 60_000)).error === undefined ? 0 : 1;
    const marks = await machine.marks();
    line.close();
    return `${errors} refused, peak ${marks.peak} of ${marks.heap}, ${marks.refused} allocations refused, largest ${marks.largestRefused}, stack ${marks.stack}`;
});

await step('a reset in the middle of a call: its client times out, and the next one connects', async () => {
    const { client, transport } = await connected(CLIENTS['TypeScript 2.4.0, legacy']);
    const lost = client.callTool({ name: 'sensor', arguments: { samples: 1_000_000 } }, { timeout: 3_000 });
    const outcome = lost.then(() => 'answered', (error) => String(error.message));
    await delay(300);
    transport.stream.write('{"jsonrpc":"2.0","id":99,"meth'); // half a frame
    await delay(50);
    await machine.reset();
    const seen = await outcome;
    assert.match(seen, /tim/i);
    // The session is gone with the device; the client learns it from the next answer.
    const refusal = await client.callTool({ name: 'register', arguments: { address: 0 } }, OPTIONS).catch((error) => error);
    assert.ok(refusal instanceof Error, 'the old session is refused');
    await client.close();
    const next = await connected(CLIENTS['TypeScript 2.4.0, modern']);
    assert.equal(textOf(await next.client.callTool({ name: 'register', arguments: { address: 0 } }, OPTIONS)), '0');
    await next.client.close();
    return `"${seen}", then "${refusal.message}"`;
});

const end = await machine.marks();
console.log(`marks: heap peak ${end.peak} of ${end.heap} bytes, stack peak ${end.stack} bytes`);
clearTimeout(watchdog);
await machine.stop();
