// Steps of a test, and the conversation of each official client with the device: the same on each transport.
import assert from 'node:assert/strict';
import { setTimeout as delay } from 'node:timers/promises';
import { ClientV1, ClientV2, ResourceUpdatedNotificationSchema } from '../../../tests/peers/node/sdk.mjs';

export const OPTIONS = { timeout: 20_000 };
export const URI = 'device://temperature';

export const textOf = (result) => result.content[0].text;

/** The official clients, by names that say their generation and era. */
export const CLIENTS = {
    'TypeScript 1.32.2, legacy': () => new ClientV1({ name: 'peer', version: '1' }),
    'TypeScript 2.4.0, legacy': () => new ClientV2({ name: 'peer', version: '2' }, { versionNegotiation: { mode: 'legacy' } }),
    'TypeScript 2.4.0, modern': () => new ClientV2({ name: 'peer', version: '2' }, { versionNegotiation: { mode: { pin: '2026-07-28' } } }),
};

export const isFirstGeneration = (peer) => peer.includes('1.32');

/**
 * Runs the steps of a test: prints each, and ends the program at the first that fails, or after `minutes`.
 *
 * @param kill  function that ends the emulator
 */
export const steps = (minutes, kill) => {
    const fail = (text, code) => {
        console.error(text);
        kill();
        process.exit(code);
    };
    const watchdog = setTimeout(() => fail(`the test is not done after ${minutes} minutes`, 3), minutes * 60_000);
    const step = async (what, work) => {
        const begun = Date.now();
        try {
            const shown = await work();
            console.log(`ok  ${what} (${Date.now() - begun} ms)${shown === undefined ? '' : `: ${shown}`}`);
        } catch (error) {
            fail(`FAILED  ${what}: ${error.stack}${error.cause ? `, ${error.cause}` : ''}`, 1);
        }
    };
    return { step, done: () => clearTimeout(watchdog) };
};

/** Uses everything that the device serves: lists, calls, reads, progress, a cancelled call, a subscription, ping. */
export const converse = async (peer, client) => {
    const call = (name, args, options) =>
        isFirstGeneration(peer)
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
        isFirstGeneration(peer) ? ResourceUpdatedNotificationSchema : 'notifications/resources/updated',
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
    return `${updates} updates, ${reports} progress reports`;
};

/** Returns the bytes of the heap beyond the payload in a call of 1 KiB, and the marks. `call` makes the call. */
export const peakOfCall = async (machine, call) => {
    const note = 'x'.repeat(1_024);
    await delay(1_500); // until idle buffers are released
    const idle = await machine.marks();
    await machine.resetMarks();
    await call({ name: 'register', arguments: { address: 1, note } });
    const after = await machine.marks();
    assert.equal(after.refused, 0, 'nothing is refused');
    return { idle, after, beyond: after.peak - idle.used - note.length };
};

/** Makes calls, and asserts that neither heap nor stack grows by them. `call` makes a call and returns its result. */
export const callWithoutGrowth = async (machine, calls, call) => {
    const make = async (n) => assert.equal(textOf(await call({ name: 'register', arguments: { address: n % 4, value: n } })), String(n));
    for (let n = 0; n < 100; n += 1) await make(n);
    const before = await machine.marks();
    await machine.resetMarks();
    for (let n = 0; n < calls; n += 1) await make(n);
    const after = await machine.marks();
    // An interrupt at the deepest place is deeper than one elsewhere.
    const text = `heap ${before.used} -> ${after.used}, peak ${before.peak} -> ${after.peak}, stack ${before.stack} -> ${after.stack}`;
    assert.ok(after.used <= before.used && after.peak <= before.peak + 256 && after.stack <= before.stack + 512, text);
    return text;
};

export const META = { 'io.modelcontextprotocol/protocolVersion': '2026-07-28', 'io.modelcontextprotocol/clientCapabilities': {} };

/** A call as text, of a client without a session. */
export const callText = (id, name, args) =>
    JSON.stringify({ jsonrpc: '2.0', id, method: 'tools/call', params: { name, arguments: args, _meta: META } });
