// A client on the official TypeScript SDKs that performs the steps of the interop table (../table.json).
//
//   node table-client.mjs TABLE --profile NAME --sdk 1|2 --era modern|legacy --revision R [--sse] \
//       -- SERVER [ARGS…] | URL
//
// One JSON line per step goes to stdout: {"step":…,"ok":true}, or "ok": false with an "error", or "ok": "peer-cannot"
// with a "why".
import { readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { agreedVersion, isUrl, offerVersion, transportTo } from './http.mjs';
import { isNoise, watch } from './steps.mjs';

const words = process.argv.slice(2);
const split = words.indexOf('--');
const option = (name) => (words.includes(name) ? words[words.indexOf(name) + 1] : undefined);
const table = JSON.parse(readFileSync(words[0], 'utf8'));
const [sdk, era, revision] = ['--sdk', '--era', '--revision'].map(option);
const profile = table.profiles[option('--profile')];
const server = words.slice(split + 1);
const overHttp = isUrl(server[0]);

// Above the duration of any step on a busy machine, and below the deadline of the test that runs this program.
const REQUEST_MS = 20_000;
const TOTAL_MS = 50_000;
const NEWS_MS = 10_000;
/** Time in which a call that continues would report progress. */
const QUIET_MS = 150;

const capabilities = { elicitation: { form: {} }, sampling: {}, roots: {} };
const asked = { elicit: 'elicitation/create', sample: 'sampling/createMessage', roots: 'roots/list' };
const told = { log: 'notifications/message', updated: 'notifications/resources/updated' };
const options = { timeout: REQUEST_MS };

/** The differences between the SDKs. */
const made = async () => {
    const transport = await transportTo(sdk, server, { sse: words.slice(0, split).includes('--sse') });
    if (sdk === '1') {
        const { Client } = await import('@modelcontextprotocol/sdk/client/index.js');
        const types = await import('@modelcontextprotocol/sdk/types.js');
        const schemas = {
            elicit: types.ElicitRequestSchema,
            sample: types.CreateMessageRequestSchema,
            roots: types.ListRootsRequestSchema,
            log: types.LoggingMessageNotificationSchema,
            updated: types.ResourceUpdatedNotificationSchema,
        };
        const client = new Client({ name: 'table-client', version: '1.32.2' }, { capabilities });
        let version;
        agreedVersion(transport, (agreed) => (version = agreed));
        offerVersion(transport, revision);
        return {
            client,
            transport,
            version: () => version,
            request: (what, handler) => client.setRequestHandler(schemas[what], handler),
            notified: (what, handler) => client.setNotificationHandler(schemas[what], handler),
            call: (params, more) => client.callTool(params, undefined, { ...options, ...more }),
        };
    }
    const { Client } = await import('@modelcontextprotocol/client');
    const mode = era === 'modern' ? { pin: revision } : 'legacy';
    const client = new Client(
        { name: 'table-client', version: '2.4.0' },
        { capabilities, versionNegotiation: { mode }, supportedProtocolVersions: [revision] },
    );
    return {
        client,
        transport,
        version: () => client.getNegotiatedProtocolVersion(),
        request: (what, handler) => client.setRequestHandler(asked[what], handler),
        notified: (what, handler) => client.setNotificationHandler(told[what], handler),
        call: (params, more) => client.callTool(params, { ...options, ...more }),
    };
};

const { client, transport, version, request, notified, call } = await made();
const notes = { logs: [], updated: [], answer: undefined };
request('elicit', () => notes.answer);
request('sample', () => ({ role: 'assistant', model: 'muse', content: { type: 'text', text: 'Good day' } }));
request('roots', () => ({ roots: [{ uri: profile.root, name: 'table' }] }));
notified('log', ({ params }) => void notes.logs.push(params));
notified('updated', ({ params }) => void notes.updated.push(params.uri));

const assert = (condition, message) => {
    if (!condition) throw new Error(message);
};
const report = (line) => console.log(JSON.stringify(line));
let failed = false;
const step = async (name, work) => {
    try {
        const why = await work(profile[name]);
        report({ step: name, ...(why === undefined ? { ok: true } : { ok: 'peer-cannot', why }) });
    } catch (error) {
        failed = true;
        report({ step: name, ok: false, error: String(error?.message ?? error) });
    }
};
const until = async (done) => {
    for (let waited = 0; !done() && waited < NEWS_MS; waited += 10) await delay(10);
    return done();
};
/** Calls the tool of a step and checks the text of its result. */
const called = async ({ tool, arguments: given, text }, more) => {
    const result = await call({ name: tool, arguments: given }, more);
    const said = result.content.map((block) => block.text ?? '').join('\n');
    assert(!result.isError, `failed: ${said}`);
    assert(text === undefined || said.includes(text), `no ${text} in ${said}`);
    return result;
};

const watchdog = setTimeout(() => {
    report({ step: 'watchdog', ok: false, error: `not done after ${TOTAL_MS} ms` });
    transport._process?.kill('SIGKILL');
    process.exit(3);
}, TOTAL_MS);

const wire = watch(transport);
client.onerror = (error) => {
    const message = String(error.message);
    if (!isNoise(message)) wire.faults.push(message);
};
await step('negotiate', async () => {
    await client.connect(transport, options);
    assert(version() === revision, `${version()}, not ${revision}`);
});
const modern = era === 'modern';
const child = transport._process;
const exited = new Promise((resolve) => child?.once('exit', (code, signal) => resolve({ code, signal })));

await step('list', async ({ has }) => {
    const entries = [];
    let [cursor, pages] = [undefined, 0];
    do {
        const page = await client.listResources(cursor === undefined ? undefined : { cursor }, options);
        entries.push(...page.resources.map(({ uri }) => uri));
        cursor = page.nextCursor;
        pages += 1;
    } while (cursor !== undefined && pages < 100);
    // The newer SDK follows the pages itself unless a cursor is given.
    const listed = sdk === '1' ? pages : wire.sent('resources/list');
    assert(listed > 1, 'one page');
    assert(new Set(entries).size === entries.length, `some stand twice: ${entries}`);
    assert(entries.includes(has), `no ${has} in ${entries}`);
    // From here on the SDK checks results against output schemas.
    await client.listTools(undefined, options);
});
await step('progress', async (given) => {
    let reported = 0;
    await called(given, { onprogress: () => (reported += 1) });
    const progress = wire.latest();
    assert(progress.length > 0 && reported > 0, `reports: ${progress}, ${reported}`);
});
await step('structured', async (given) => {
    const { structuredContent } = await called(given);
    if (revision < '2025-06-18') return `${revision} has no structured results`;
    for (const [name, value] of Object.entries(given.has)) {
        assert(structuredContent?.[name] === value, JSON.stringify(structuredContent));
    }
});
await step('error', async ({ tool, arguments: given, text }) => {
    const result = await call({ name: tool, arguments: given });
    assert(result.isError === true && result.content[0].text.includes(text), JSON.stringify(result));
});
await step('cancel', async ({ tool, arguments: given }) => {
    const abort = new AbortController();
    const more = { signal: abort.signal, onprogress: () => abort.abort('no longer needed') };
    const outcome = await call({ name: tool, arguments: given }, more).then(
        () => 'answered',
        (error) => String(error.message ?? error),
    );
    assert(outcome.includes('no longer needed'), outcome);
    await called(profile.echo);
    const seen = wire.latest().length;
    // Messages sent before the cancellation may arrive on another stream.
    if (overHttp) await delay(QUIET_MS);
    wire.settle();
    await delay(QUIET_MS);
    assert(overHttp || wire.latest().length === seen, 'it goes on');
});
const elicitation = revision < '2025-06-18' ? `${revision} has no elicitation` : undefined;
for (const [name, action] of [
    ['accept', 'accept'],
    ['decline', 'decline'],
    ['dismiss', 'cancel'],
]) {
    await step(name, async (given) => {
        if (elicitation !== undefined) return elicitation;
        notes.answer = given.content === undefined ? { action } : { action, content: given.content };
        await called(given);
    });
}
await step('sampling', async (given) => void (await called(given)));
await step('roots', async (given) => void (await called(given)));
await step('log', async ({ level, tool, arguments: given, count }) => {
    const params = { name: tool, arguments: given };
    if (modern) params._meta = { 'io.modelcontextprotocol/logLevel': level };
    else await client.setLoggingLevel(level, options);
    notes.logs = [];
    await call(params);
    assert(await until(() => notes.logs.length >= count), `${notes.logs.length} logs`);
    assert(notes.logs.length === count, `too many logs: ${JSON.stringify(notes.logs)}`);
});
await step('change', async ({ uri, tool, arguments: given }) => {
    const filter = { resourceSubscriptions: [uri] };
    const subscription = modern ? await client.listen(filter, options) : await client.subscribeResource({ uri }, options);
    await called({ tool, arguments: given });
    assert(await until(() => notes.updated.includes(uri)), 'not told of the change');
    if (modern) await subscription.close();
    else await client.unsubscribeResource({ uri }, options);
});
await step('complete', async ({ prompt, argument, value, values }) => {
    const ref = { type: 'ref/prompt', name: prompt };
    const { completion } = await client.complete({ ref, argument: { name: argument, value } }, options);
    assert(JSON.stringify(completion.values) === JSON.stringify(values), JSON.stringify(completion));
});
await step('ping', async () => {
    if (modern) await client.discover(options);
    else await client.ping(options);
});
await step('end', async () => {
    assert(wire.faults.length === 0, wire.faults.join(' | '));
    if (overHttp) return void (await transport.terminateSession?.());
    // Not closed by `client.close()`, whose signals would hide a server that does not exit by itself.
    child.stdin.end();
    const end = await Promise.race([exited, delay(NEWS_MS, { code: 'none' }, { ref: false })]);
    assert(end.code === 0, `exit code ${end.code}, signal ${end.signal}`);
});
await client.close();
clearTimeout(watchdog);
process.exit(failed ? 1 : 0);
