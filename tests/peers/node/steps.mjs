// The steps that every client of this folder performs, whichever SDK it is built on.
//
// One JSON line per step goes to stdout: {"step":…,"ok":true,…detail}; "ok" is false with an "error" when the
// step failed, and "peer-cannot" with a "why" when this SDK has no way to do it. The exit code is 0 when no step
// failed.
import { setTimeout as delay } from 'node:timers/promises';
import { useEverything } from './everything.mjs';
import { isUrl } from './http.mjs';

// Longer than any step needs on a busy machine, and shorter than the deadline of the test that runs us, so that a
// peer that hangs is reported by name instead of by a killed process.
const REQUEST_MS = 20_000;
const TOTAL_MS = 50_000;
const EXIT_MS = 5_000;
/** How long what belongs to a call may take on a stream of its own after it was given up. */
const CROSSING_MS = 500;

export const parseArgs = () => {
    const own = process.argv.slice(2);
    const split = own.indexOf('--');
    if (split < 0 || split + 1 === own.length) throw new Error('give the server command after --');
    const option = (name) => {
        const at = own.slice(0, split).indexOf(name);
        return at < 0 ? undefined : own[at + 1];
    };
    return {
        era: option('--era'),
        refused: own.slice(0, split).includes('--expect-refusal'),
        everything: option('--everything'),
        revision: option('--revision'),
        sse: own.slice(0, split).includes('--sse'),
        overHttp: isUrl(own[split + 1]),
        server: own.slice(split + 1),
    };
};

const assert = (condition, message) => {
    if (!condition) throw new Error(message);
};

const onlyText = (result) => {
    assert(result.content.length === 1 && result.content[0].type === 'text', `one text: ${JSON.stringify(result)}`);
    return result.content[0].text;
};

/**
 * Watches both directions of a transport and keeps what no call of the SDK shows: messages that belong to nothing.
 *
 * Not left to the SDK's error callback, because these SDKs take responses at once and notifications a moment
 * later: progress that arrives in one read with its response counts as unknown there, although it came first.
 */
export const watch = (transport) => {
    const open = new Map();
    const tokens = new Map();
    const cancelled = new Set();
    const faults = [];
    const methods = [];
    const send = transport.send.bind(transport);
    transport.send = (message, options) => {
        methods.push(message.method);
        if (message.method === 'notifications/cancelled') {
            cancelled.add(message.params.requestId);
        } else if (message.id !== undefined && message.method !== undefined) {
            const token = message.params?._meta?.progressToken;
            open.set(message.id, token);
            if (token !== undefined) tokens.set(token, { id: message.id, values: [], settled: false });
        }
        return send(message, options);
    };
    transport.onmessage = (message) => {
        if (message.method === 'notifications/progress') {
            const { progressToken, progress } = message.params;
            const call = tokens.get(progressToken);
            if (call === undefined || call.settled || !open.has(call.id)) {
                faults.push(`progress for nothing: ${JSON.stringify(message)}`);
            } else {
                const grown = call.values.every((value) => value < progress);
                if (!grown) faults.push(`progress does not increase: ${progress}`);
                call.values.push(progress);
            }
        } else if (message.method === undefined) {
            if (!open.has(message.id)) faults.push(`an answer to nothing: ${JSON.stringify(message)}`);
            if (cancelled.has(message.id)) faults.push(`an answer to a cancelled call: ${JSON.stringify(message)}`);
            open.delete(message.id);
        }
    };
    return {
        faults,
        /** Progress of the latest call that asked for any, in the order of the wire. */
        latest: () => [...tokens.values()].at(-1)?.values ?? [],
        /** How often a method was sent. */
        sent: (method) => methods.filter((each) => each === method).length,
        /** From now on nothing may come for calls that were cancelled. */
        settle: () => tokens.forEach((call) => (call.settled = cancelled.has(call.id))),
    };
};

/**
 * What an SDK complains of and nobody is to blame for: progress is left to `watch`; and the stream of a call that was given
 * up over HTTP ends without a result, for which these SDKs come back after a second, in vain.
 */
export const isNoise = (message) =>
    message.includes('progress notification for an unknown token') ||
    /Failed to (open|reconnect) SSE stream|Maximum reconnection attempts/.test(message);

let failed = false;
const report = (step, detail) => console.log(JSON.stringify({ step, ...detail }));
const step = async (name, work) => {
    try {
        const detail = await work();
        if (detail?.cannot) report(name, { ok: 'peer-cannot', why: detail.cannot });
        else report(name, { ok: true, ...detail });
        return true;
    } catch (error) {
        failed = true;
        report(name, { ok: false, error: String(error?.message ?? error), code: error?.code, data: error?.data });
        return false;
    }
};

/** What `mcp-probe serve` is there for: four tools, called in all ways. */
const demonstration = async ({ client, call, step, options, wire, alive, overHttp, version }) => {
    await step('list', async () => {
        const { tools } = await client.listTools(undefined, options);
        const names = tools.map((tool) => tool.name);
        for (const name of ['echo', 'add', 'count', 'fail']) {
            assert(names.includes(name), `no tool ${name} in ${names}`);
        }
        for (const tool of tools) assert(tool.inputSchema.type === 'object', `schema of ${tool.name}`);
        return { tools: names };
    });

    await step('alive', () => alive(options));

    await step('call', async () => {
        // Escapes, a surrogate pair and a raw line separator: all have to survive both encoders.
        const sent = 'plain "quoted" \\ \n tab\t ünïcödé \u2028 \u{1f980} end';
        const got = onlyText(await call('echo', { text: sent }));
        assert(got === sent, `echo of ${JSON.stringify(sent)} was ${JSON.stringify(got)}`);
        return { text: got };
    });

    await step('structured', async () => {
        // After `list` the SDK checks the result against the tool's output schema by itself.
        const result = await call('add', { a: 2, b: 3.5 });
        const { structuredContent } = result;
        // Before 2025-06-18 there is the text alone.
        if (version < '2025-06-18') {
            assert(onlyText(result).includes('5.5'), `5.5 in ${JSON.stringify(result)}`);
            return {};
        }
        assert(Object.values(structuredContent ?? {}).includes(5.5), `5.5 in ${JSON.stringify(structuredContent)}`);
        return { structuredContent };
    });

    await step('in-flight', async () => {
        const texts = Array.from({ length: 20 }, (_, index) => `text ${index}`);
        const got = await Promise.all(texts.map(async (sent) => onlyText(await call('echo', { text: sent }))));
        assert(texts.every((sent, index) => got[index] === sent), `answers mixed up: ${got}`);
        return { calls: got.length };
    });

    await step('progress', async () => {
        let reported = 0;
        const result = await call('count', { to: 5, delay_ms: 30 }, { onprogress: () => (reported += 1) });
        const progress = wire.latest();
        assert(progress.length > 0, 'no progress');
        assert(!result.isError, `failed: ${JSON.stringify(result)}`);
        return { progress, reported };
    });

    await step('cancel', async () => {
        const abort = new AbortController();
        const outcome = await call(
            'count',
            { to: 100_000, delay_ms: 30 },
            // Cancelled from inside its first progress report: by then the server is known to be at work on it.
            { signal: abort.signal, onprogress: () => abort.abort('no longer needed') },
        ).then(
            (result) => ({ result }),
            (error) => ({ error }),
        );
        assert(outcome.error !== undefined, `answered: ${JSON.stringify(outcome.result)}`);
        assert(String(outcome.error.message).includes('no longer needed'), `other error: ${outcome.error.message}`);

        // One pipe each way and read in order: once this is answered the server has seen the cancellation, so
        // progress that was on its way is here, and any that comes from now on is too much. Over HTTP each has a
        // stream of its own.
        if (overHttp) await delay(CROSSING_MS);
        assert(onlyText(await call('echo', { text: 'still here' })) === 'still here', 'the connection is unusable');
        const progress = wire.latest();
        wire.settle();
        return { progress };
    });

    await step('tool-error', async () => {
        const result = await call('fail', {});
        assert(result.isError === true, `isError in ${JSON.stringify(result)}`);
        return { text: onlyText(result) };
    });

    await step('unknown-tool', async () => {
        const error = await call('no-such-tool', {}).then(
            (result) => assert(false, `answered: ${JSON.stringify(result)}`),
            (refusal) => refusal,
        );
        assert(error.code === -32602, `code ${error.code}: ${error.message}`);
        return { code: error.code, message: error.message };
    });
};

/**
 * @param peer what differs between the SDKs:
 *   client, transport  as the SDK gives them, not yet connected;
 *   call(params, opts) `tools/call`;
 *   describe()         what was negotiated;
 *   alive(opts)        the cheapest round trip of the era, or an object `{ cannot }`.
 */
export const run = async (peer, { refused, everything, overHttp }) => {
    const { client, transport } = peer;
    const options = { timeout: REQUEST_MS };
    const call = (name, args, extra) => peer.call({ name, arguments: args }, { ...options, ...extra });

    const watchdog = setTimeout(() => {
        report('watchdog', { ok: false, error: `not done after ${TOTAL_MS} ms` });
        transport._process?.kill('SIGKILL');
        process.exit(3);
    }, TOTAL_MS);

    const wire = watch(transport);
    // Lines that the SDK could not read, among others.
    client.onerror = (error) => {
        const message = String(error.message);
        if (!isNoise(message)) wire.faults.push(message);
    };

    if (refused) {
        await step('refused', async () => {
            const error = await client.connect(transport, options).then(
                () => undefined,
                (refusal) => refusal,
            );
            assert(error !== undefined, 'the server accepted');
            return { code: error.code, message: error.message, data: error.data };
        });
        clearTimeout(watchdog);
        await client.close();
        process.exit(failed ? 1 : 0);
    }

    const connected = await step('negotiate', async () => {
        await client.connect(transport, options);
        return peer.describe();
    });
    if (!connected) {
        await client.close();
        process.exit(1);
    }
    // The SDK's transport keeps its child private, and forgets it when it closes; how the child ended is what the
    // last step is about.
    const child = transport._process;
    const exited = new Promise((resolve) => child?.once('exit', (code, signal) => resolve({ code, signal })));

    if (everything === undefined) {
        await demonstration({ client, call, step, options, wire, alive: peer.alive, overHttp, version: peer.describe().version });
    } else {
        const { era } = peer.describe();
        const given = { client, call: peer.call, options, era, file: everything, report, latest: wire.latest };
        if (!(await useEverything(given))) failed = true;
    }

    await step('end', async () => {
        if (overHttp) {
            await transport.terminateSession?.();
            return {};
        }
        // Closed by hand and not by `client.close()`, whose signals after two seconds would hide a server that does
        // not end by itself.
        child.stdin.end();
        const deadline = delay(EXIT_MS, undefined, { ref: false });
        const end = await Promise.race([exited, deadline]);
        if (end === undefined) {
            child.kill('SIGKILL');
            assert(false, `still running ${EXIT_MS} ms after its input was closed`);
        }
        assert(end.code === 0, `exit code ${end.code}, signal ${end.signal}`);
        return end;
    });

    // Last, so that it speaks of everything above, the time after the cancellation included.
    await step('nothing-stray', async () => {
        assert(wire.faults.length === 0, wire.faults.join(' | '));
    });

    await client.close();
    clearTimeout(watchdog);
    process.exit(failed ? 1 : 0);
};
