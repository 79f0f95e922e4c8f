// The firmware in QEMU on its serial line, driven by both generations of the official client, and by bytes that no client
// sends.
//
//   node device.mjs ELF [--calls N] [--small-heap]
//
// --small-heap: the firmware was built with that feature, and is only asked for more than it has memory for.
import assert from 'node:assert/strict';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { callText, callWithoutGrowth, CLIENTS, converse, OPTIONS, peakOfCall, steps, textOf } from './clients.mjs';
import { Machine } from './machine.mjs';
import { LineTransport } from './transport.mjs';

const [elf] = process.argv.slice(2);
const at = process.argv.indexOf('--calls');
const CALLS = at < 0 ? 1_000 : Number(process.argv[at + 1]);
const SMALL_HEAP = process.argv.includes('--small-heap');

const machine = await Machine.start({ elf });
const { step, done } = steps(10, () => machine.child.kill('SIGKILL'));

/** Connects a client to a machine that was just reset: a serial line has no end that the device could notice. */
const connected = async (make) => {
    await machine.reset();
    const client = make();
    const transport = new LineTransport(() => machine.line());
    client.onerror = () => {};
    await client.connect(transport, OPTIONS);
    return { client, transport };
};

const request = (id, args = { address: 0 }) => `${callText(id, 'register', args)}\n`;

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

if (SMALL_HEAP) {
    await step('memory that runs out: errors, and then calls are answered', async () => {
        const line = await raw();
        const outcomes = new Map();
        let later = 0;
        for (let round = 0; round < 10; round += 1) {
            // Two measurements take the calls, so that requests wait and their memory is in use.
            const ids = Array.from({ length: 8 }, (_, n) => `${round}-${n}`);
            line.stream.write(ids.map((id, n) => `${callText(id, n < 2 ? 'sensor' : 'register', { samples: 3, address: 0, note: 'x'.repeat(1_700) })}\n`).join(''));
            for (const id of ids) {
                const { error } = await line.answer(id);
                const outcome = error === undefined ? 'result' : `${error.code} ${error.message}`;
                outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
            }
            // Buffers that have grown are free again once the line was idle for a second.
            for (let attempt = 0; ; attempt += 1) {
                const id = `after-${round}-${attempt}`;
                line.stream.write(request(id));
                const answer = await line.answer(id);
                if (answer.result) break;
                assert.ok(attempt < 3, JSON.stringify(answer));
                later += 1;
                await delay(1_200);
            }
        }
        line.close();
        const marks = await machine.marks();
        const text = `${JSON.stringify(Object.fromEntries(outcomes))}, ${later} calls later, peak ${marks.peak} of ${marks.heap}, ${marks.refused} allocations refused, largest ${marks.largestRefused}`;
        assert.ok(marks.refused > 0 && [...outcomes.keys()].some((outcome) => outcome.startsWith('-32603')), text);
        return text;
    });
    done();
    await machine.stop();
    process.exit(0);
}

for (const [peer, make] of Object.entries(CLIENTS)) {
    await step(`${peer}: negotiate, list, call, read, progress, cancel, subscribe, ping`, async () => {
        const { client, transport } = await connected(make);
        const shown = await converse(peer, client);
        assert.deepEqual(transport.noise, []);
        await client.close();
        return shown;
    });
}

await step('a call of 1 KiB: memory at its peak', async () => {
    const { client } = await connected(CLIENTS['TypeScript 2.4.0, modern']);
    const { idle, after, beyond } = await peakOfCall(machine, (params) => client.callTool(params, OPTIONS));
    await client.close();
    const text = `heap ${beyond} bytes beyond the payload (idle ${idle.used}, peak ${after.peak} of ${after.heap}), stack ${after.stack}`;
    assert.ok(beyond <= 8 << 10, text);
    return text;
});

await step(`${CALLS} calls without growth`, async () => {
    const { client } = await connected(CLIENTS['TypeScript 2.4.0, legacy']);
    const text = await callWithoutGrowth(machine, CALLS, (params) => client.callTool(params, OPTIONS));
    await client.close();
    return text;
});

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
    const measure = (id) => `${callText(id, 'sensor', { samples: 2 })}\n`;
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
done();
await machine.stop();
