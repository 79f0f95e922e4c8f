// Hosts that go wrong: no entropy, odd clocks, calls in the wrong order, wrong lengths, and memory that does not grow.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { module, path } from './modules.mjs';

/** The statuses of a module that occur here, as `module/src/lib.rs` numbers them. */
const STATUS = {
    notOpen: -1,
    alreadyOpen: -2,
    noEntropy: -3,
    badTime: -4,
    badLength: -5,
    noMemory: -6,
    badArgument: -8,
    refused: -9,
    full: -10,
    closed: -11,
};
const MODULES = ['server', 'ask', 'client'];
const encoder = new TextEncoder();
const entropy = () => crypto.getRandomValues(new Uint8Array(32));

/** An instance without any host around it. */
const instance = (name) => {
    const { exports } = new WebAssembly.Instance(module(name));
    const write = (bytes) => {
        const at = exports.buffer(bytes.length);
        if (at !== 0) new Uint8Array(exports.memory.buffer, at, bytes.length).set(bytes);
        return at === 0 ? -1 : bytes.length;
    };
    const read = () => {
        const length = exports.transmit_len();
        const text = new TextDecoder().decode(new Uint8Array(exports.memory.buffer, exports.transmit(), length));
        assert.equal(exports.consume(length), 0);
        return text;
    };
    const readAll = () => {
        let text = '';
        while (exports.transmit_len() > 0) text += read();
        return text.split('\n').filter((line) => line !== '').map((line) => JSON.parse(line));
    };
    const open = (now = 0, bytes = entropy(), era = 0) => exports.open(now, 1_800_000_000, write(bytes), era);
    const input = (now, text) => exports.handle_input(now, write(encoder.encode(text)));
    const send = (now, message) => input(now, `${JSON.stringify(message)}\n`);
    return { ...exports, exports, write, readAll, open, input, send };
};

const meta = {
    'io.modelcontextprotocol/protocolVersion': '2026-07-28',
    'io.modelcontextprotocol/clientCapabilities': {},
};
const call = (id, name, args) => ({
    jsonrpc: '2.0',
    id,
    method: 'tools/call',
    params: { name, arguments: args, _meta: meta },
});
const echo = (id) => call(id, 'echo', { text: 'hi' });
const isEcho = (message, id) => message.id === id && message.result.content[0].text === 'hi';

test('modules import nothing', () => {
    for (const name of MODULES) assert.deepEqual(WebAssembly.Module.imports(module(name)), []);
});

test('entropy that is missing or not random is refused, and can be given later', () => {
    for (const name of MODULES) {
        const it = instance(name);
        assert.equal(it.exports.open(0, 0, 0, 0), STATUS.noEntropy);
        for (const bytes of [new Uint8Array(31).map((_, i) => i), new Uint8Array(33).map((_, i) => i)]) {
            assert.equal(it.open(0, bytes), STATUS.noEntropy);
        }
        // A buffer that the host has not filled.
        assert.equal(it.open(0, new Uint8Array(32)), STATUS.noEntropy);
        assert.equal(it.open(0, new Uint8Array(32).fill(0xff)), STATUS.noEntropy);
        assert.equal(it.transmit_len(), STATUS.notOpen);
        assert.equal(it.open(), 0);
    }
});

test('entropy does not stay in the buffer', () => {
    const it = instance('ask');
    const at = it.exports.buffer(32);
    new Uint8Array(it.exports.memory.buffer, at, 32).set(entropy());
    assert.equal(it.exports.open(0, 0, 32, 0), 0);
    assert.deepEqual([...new Uint8Array(it.exports.memory.buffer, at, 32)], Array(32).fill(0));
});

test('WASI host without entropy ends the stdio server with an error', () => {
    const args = ['--no-warnings', 'wasi.mjs', path('stdio'), '--no-entropy'];
    const ended = spawnSync(process.execPath, args, { cwd: import.meta.dirname, input: '', encoding: 'utf8' });
    assert.equal(ended.status, 1);
    assert.equal(ended.stdout, '');
    assert.match(ended.stderr, /^stdio: the host gives no entropy/);
});

test('times that are no times are refused and change nothing', () => {
    for (const name of MODULES) {
        const it = instance(name);
        for (const now of [NaN, Infinity, -Infinity, -1]) {
            assert.equal(it.open(now), STATUS.badTime);
            assert.equal(it.exports.open(0, now, it.write(entropy()), 0), STATUS.badTime);
        }
        assert.equal(it.open(5), 0);
        const before = it.transmit_len();
        for (const now of [NaN, Infinity, -1]) {
            assert.equal(it.input(now, 'x\n'), STATUS.badTime);
            assert.equal(it.handle_timeout(now), STATUS.badTime);
            assert.equal(it.handle_eof(now), STATUS.badTime);
        }
        assert.equal(it.transmit_len(), before);
        assert.equal(it.wants_input(), 1);
    }
});

test('clock that stands still answers calls, and its deadlines do not come', () => {
    const it = instance('server');
    assert.equal(it.open(1000), 0);
    assert.equal(it.send(1000, call(1, 'wait', { ms: 1 })), 0);
    assert.equal(it.send(1000, echo(2)), 0);
    for (let i = 0; i < 100; i += 1) assert.equal(it.handle_timeout(1000), 0);
    const answers = it.readAll();
    assert.equal(answers.length, 1);
    assert.ok(isEcho(answers[0], 2));
    assert.equal(it.poll_timeout(), 1001);
    assert.equal(it.handle_timeout(1001), 0);
    assert.deepEqual(it.readAll().map(({ id }) => id), [1]);
});

test('clock that jumps back counts as one that stands still', () => {
    const it = instance('server');
    assert.equal(it.open(10_000), 0);
    assert.equal(it.send(10_000, call(1, 'wait', { ms: 100 })), 0);
    assert.equal(it.send(3, echo(2)), 0);
    assert.equal(it.send(3, call(3, 'wait', { ms: 100 })), 0);
    assert.equal(it.handle_timeout(0), 0);
    assert.deepEqual(it.readAll().map(({ id }) => id), [2]);
    // Both deadlines are counted from the latest time.
    assert.equal(it.poll_timeout(), 10_100);
    assert.equal(it.handle_timeout(10_100), 0);
    assert.deepEqual(it.readAll().map(({ id }) => id), [1, 3]);
});

test('clock that jumps far ahead ends a call once', () => {
    const it = instance('server');
    assert.equal(it.open(0), 0);
    assert.equal(it.send(0, call(1, 'wait', { ms: 100 })), 0);
    assert.equal(it.handle_timeout(Number.MAX_VALUE), 0);
    assert.equal(it.readAll().length, 1);
    assert.equal(it.send(0, echo(2)), 0);
    assert.ok(isEcho(it.readAll()[0], 2));
});

test('calls before open, after the end of input, or twice are refused', () => {
    for (const name of MODULES) {
        const it = instance(name);
        for (const [name, ...args] of [
            ['handle_input', 0, 0],
            ['handle_eof', 0],
            ['handle_timeout', 0],
            ['transmit_len'],
            ['consume', 0],
            ['wants_input'],
            ['is_drained'],
            ['poll_event', 0],
            ['call', 0, 0, 0],
            ['cancel', 0, 1],
            ['answer', 0, 1, 0],
            ['refuse', 0, 1],
        ]) {
            if (name in it.exports) assert.equal(it.exports[name](...args), STATUS.notOpen, name);
        }
        assert.equal(it.transmit(), 0);
        assert.equal(it.poll_timeout(), Infinity);
        assert.equal(it.open(0, entropy(), 3), STATUS.badArgument);
        assert.equal(it.open(), 0);
        assert.equal(it.open(), STATUS.alreadyOpen);
        assert.equal(it.handle_eof(0), 0);
        assert.equal(it.input(0, '\n'), STATUS.closed);
        assert.equal(it.handle_eof(0), 0);
        assert.equal(it.handle_timeout(0), 0);
    }
});

test('lengths beyond the buffer or the output are refused and change nothing', () => {
    for (const name of MODULES) {
        const it = instance(name);
        assert.equal(it.exports.buffer((16 << 10) + 1), 0);
        assert.equal(it.exports.buffer(0xffffffff), 0);
        assert.equal(it.exports.open(0, 0, 0xffffffff, 0), STATUS.noEntropy);
        assert.equal(it.open(), 0);
        // The entropy is gone, so the buffer is empty.
        assert.equal(it.exports.handle_input(0, 1), STATUS.badLength);
        it.exports.buffer(4);
        assert.equal(it.exports.handle_input(0, 5), STATUS.badLength);
        assert.equal(it.exports.handle_input(0, 0xffffffff), STATUS.badLength);
        const length = it.transmit_len();
        assert.equal(it.consume(length + 1), STATUS.badLength);
        assert.equal(it.consume(0xffffffff), STATUS.badLength);
        assert.equal(it.transmit_len(), length);
    }
    const it = instance('client');
    assert.equal(it.open(), 0);
    const length = it.write(encoder.encode('ping{}'));
    assert.equal(it.exports.call(0, 7, length), STATUS.badLength);
    assert.equal(it.exports.call(0, 4, length + 1), STATUS.badLength);
    assert.equal(it.exports.call(0, 0xffffffff, length), STATUS.badLength);
    assert.equal(it.exports.answer(0, 1, 0xffffffff), STATUS.refused);
});

test('commands of a client that mean nothing are refused', () => {
    const it = instance('client');
    assert.equal(it.open(), 0);
    const command = (method, params) => it.exports.call(0, method.length, it.write(encoder.encode(method + params)));
    assert.equal(command('tools/list', '{'), STATUS.badArgument);
    assert.equal(command('tools/list', ''), STATUS.badArgument);
    assert.equal(command('initialize', '{}'), STATUS.refused);
    assert.equal(it.exports.call(0, 1, it.write(new Uint8Array([0xff, 0x7b, 0x7d]))), STATUS.badArgument);
    for (const number of [0, 1, -1, 2 ** 31 - 1]) {
        assert.equal(it.exports.cancel(0, number), STATUS.refused);
        assert.equal(it.exports.refuse(0, number), STATUS.refused);
    }
    const number = command('tools/list', '{}');
    assert.ok(number > 0);
    assert.equal(it.exports.cancel(0, number), 0);
    const length = it.poll_event(0);
    const place = it.exports.event();
    const event = JSON.parse(new TextDecoder().decode(new Uint8Array(it.exports.memory.buffer, place, length)));
    assert.deepEqual(event, { type: 'done', call: number, error: { reason: 'cancelled' } });
    assert.equal(it.exports.cancel(0, number), STATUS.refused);
    // The limit of open calls: the first request of the connection is one of the eight.
    for (let i = 0; i < 7; i += 1) assert.equal(command('tools/list', '{}'), number + 1 + i);
    assert.equal(command('tools/list', '{}'), STATUS.refused);
});

test('input that the module does not want is refused, and taken after the answers were written', () => {
    const it = instance('server');
    assert.equal(it.open(), 0);
    let accepted = 0;
    while (it.send(0, echo(accepted + 1)) === 0) accepted += 1;
    assert.equal(it.wants_input(), 0);
    assert.equal(it.send(0, echo(0)), STATUS.full);
    const ids = it.readAll().map(({ id }) => id);
    assert.deepEqual(ids, Array.from({ length: accepted }, (_, i) => i + 1));
    assert.equal(it.wants_input(), 1);
    assert.equal(it.send(0, echo(0)), 0);
    assert.ok(isEcho(it.readAll()[0], 0));
});

test('message beyond the limit is refused, and the next one is answered', () => {
    const it = instance('server');
    assert.equal(it.open(), 0);
    const long = `${JSON.stringify(call(1, 'echo', { text: 'x'.repeat(100_000) }))}\n`;
    for (let at = 0; at < long.length; at += 16 << 10) assert.equal(it.input(0, long.slice(at, at + (16 << 10))), 0);
    assert.equal(it.send(0, echo(2)), 0);
    const answers = it.readAll();
    assert.ok(answers[0].error !== undefined);
    assert.ok(isEcho(answers.at(-1), 2));
});

/** Takes all memory that the module may still ask for. */
const exhaust = ({ exports: { memory } }) => {
    for (let pages = 16; pages >= 1; ) {
        try {
            memory.grow(pages);
        } catch {
            pages = Math.floor(pages / 2);
        }
    }
    assert.ok(memory.buffer.byteLength <= 1 << 20);
};

test('memory of a module ends at 1 MiB', () => {
    for (const name of MODULES) {
        const it = instance(name);
        exhaust(it);
        assert.equal(it.exports.memory.buffer.byteLength, 1 << 20);
    }
});

test('memory that does not grow before open refuses it, and opens nothing', () => {
    for (const name of MODULES) {
        const it = instance(name);
        exhaust(it);
        assert.equal(it.exports.buffer(16 << 10), 0);
        const late = instance(name);
        late.write(entropy());
        exhaust(late);
        assert.equal(late.open(), STATUS.noMemory);
        assert.equal(late.transmit_len(), STATUS.notOpen);
    }
});

test('memory that does not grow during a flood refuses input, and every call that was taken is answered', () => {
    for (const name of ['server', 'ask']) {
        const it = instance(name);
        assert.equal(it.open(), 0);
        exhaust(it);
        const answered = new Set();
        const taken = new Set();
        const outcomes = new Set();
        const collect = () => it.readAll().forEach(({ id }) => answered.add(id));
        const text = 'x'.repeat(7000);
        for (let id = 1; id < 2000; id += 1) {
            const outcome = it.send(id, id % 5 === 0 ? call(id, 'wait', { ms: 50 }) : call(id, 'echo', { text }));
            outcomes.add(outcome);
            if (outcome === 0) taken.add(id);
            else assert.ok([STATUS.noMemory, STATUS.full].includes(outcome), `${outcome}`);
            // The host writes late: output piles up.
            if (id % 20 === 0) collect();
        }
        assert.ok(outcomes.size > 1 && taken.size > 100, `${[...outcomes]}, ${taken.size} calls`);
        for (let now = 2000; now < 4000; now += 50) {
            assert.equal(it.handle_timeout(now), 0);
            collect();
        }
        assert.deepEqual([...answered].sort(), [...taken].sort());
        assert.equal(it.send(4000, echo(5000)), 0);
        assert.ok(isEcho(it.readAll()[0], 5000));
    }
});
