// The steps that all clients of this folder perform, on either SDK.
//
// One JSON line per step goes to stdout: {"step":…,"ok":true,…detail}. "ok" is false with an "error" if the step
// failed, and "peer-cannot" with a "why" if the SDK does not support it. The exit code is 0 if no step failed.
import { setTimeout as delay } from 'node:timers/promises';
import { useEverything } from './everything.mjs';
import { isUrl } from './http.mjs';

// Above the duration of any step on a busy machine, and below the deadline of the test that runs this program, so that
// a hanging step is reported by name.
const REQUEST_MS = 20_000;
const TOTAL_MS = 50_000;
const EXIT_MS = 5_000;
/** Time in which messages of a cancelled call may still arrive on a separate stream. */
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
 * Observes both directions of a transport and records messages that belong to no call.
 *
 * The error callback of the SDK does not suffice: these SDKs handle responses at once and notifications a moment later,
 * so progress that arrives in one read with its response counts as unknown there, although it came first.
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
        /** Progress of the latest call that requested it, in the order of arrival. */
        latest: () => [...tokens.values()].at(-1)?.values ?? [],
        /** Returns how often a method was sent. */
        sent: (method) => methods.filter((each) => each === method).length,
        /** From now on no message may arrive for cancelled calls. */
        settle: () => tokens.forEach((call) => (call.settled = cancelled.has(call.id))),
    };
};

/**
 * Errors of an SDK that are ignored: progress is checked by `watch`; and the stream of a call that was cancelled over
 * HTTP ends without a result, which these SDKs try to resume after a second.
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

/** Calls the four tools of `mcp-probe serve` in all ways. */
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
        // Escapes, a surrogate pair and a raw line separator must survive both encoders.
        const sent = 'plain "quoted" \\ \n tab\t ünïcödé \u2028 \u{1f980} end';
        const got = onlyText(await call('echo', { text: sent }));
        assert(got === sent, `echo of ${JSON.stringify(sent)} was ${JSON.stringify(got)}`);
        return { text: got };
    });

    await step('structured', async () => {
        // After `list`, the SDK itself checks the result against the output schema of the tool.
        const result = await call('add', { a: 2, b: 3.5 });
        const { structuredContent } = result;
        // Before 2025-06-18 a result has only text.
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
            // Cancelled in its first progress report, because the server is then known to work on it.
            { signal: abort.signal, onprogress: () => abort.abort('no longer needed') },
        ).then(
            (result) => ({ result }),
            (error) => ({ error }),
        );
        assert(outcome.error !== undefined, `answered: ${JSON.stringify(outcome.result)}`);
        assert(String(outcome.error.message).includes('no longer needed'), `other error: ${outcome.error.message}`);

        // Each pipe is read in order. Once this is answered, the server has read the cancellation and earlier
        // progress has arrived, so later progress is an error. Over HTTP each exchange has its own stream.
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
 * @param peer the differences between the SDKs:
 *   client, transport  of the SDK, not yet connected;
 *   call(params, opts) `tools/call`;
 *   describe()         returns what was negotiated;
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
    // For example lines that the SDK could not parse.
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
    // The transport of the SDK keeps its child process private, and drops it when it closes. The last step needs its
    // exit status.
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
        // Not closed by `client.close()`, whose signals after two seconds would hide a server that does not exit by
        // itself.
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

    // Last, so that it covers all steps above and the time after the cancellation.
    await step('nothing-stray', async () => {
        assert(wire.faults.length === 0, wire.faults.join(' | '));
    });

    await client.close();
    clearTimeout(watchdog);
    process.exit(failed ? 1 : 0);
};
