// A client on the official TypeScript SDKs for the conversations of ../talk.json.
//
//   node talk-client.mjs TALK --sdk 1|2 --era modern|legacy [--revision R] --part NAME[,NAME…] -- SERVER [ARGS…]
//   node talk-client.mjs … --part NAME[,NAME…] [--sse] -- URL
//
// It performs the steps of some parts, answers as they say, and reports each step as one JSON line on stdout. The test
// decides what is right. The exit code is 0 if all steps could be performed.
import { readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { agreedVersion, isUrl, offerVersion, transportTo } from './http.mjs';

const words = process.argv.slice(2);
const split = words.indexOf('--');
const option = (name) => (words.includes(name) ? words[words.indexOf(name) + 1] : undefined);
const talk = JSON.parse(readFileSync(words[0], 'utf8'));
const [sdk, era, part, revision] = ['--sdk', '--era', '--part', '--revision'].map(option);
const server = words.slice(split + 1);
const overHttp = isUrl(server[0]);

// Above the duration of any step on a busy machine, and below the deadline of the test that runs this program.
const REQUEST_MS = 20_000;
const TOTAL_MS = 50_000;
const NEWS_MS = 5_000;

const all = {
    elicitation: { form: {}, url: {} },
    sampling: { tools: {} },
    roots: era === 'legacy' ? { listChanged: true } : {},
};
const capabilities = part === 'poor' ? {} : all;
const HANDLED = {
    elicit: 'elicitation/create',
    sample: 'sampling/createMessage',
    roots: 'roots/list',
    log: 'notifications/message',
    tools: 'notifications/tools/list_changed',
    prompts: 'notifications/prompts/list_changed',
    resources: 'notifications/resources/list_changed',
    updated: 'notifications/resources/updated',
    completed: 'notifications/elicitation/complete',
};

/** The differences between the SDKs: `connect`, `handle(what, handler)`, `call(params, options)`, `refuse(code, text)`. */
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
            tools: types.ToolListChangedNotificationSchema,
            prompts: types.PromptListChangedNotificationSchema,
            resources: types.ResourceListChangedNotificationSchema,
            updated: types.ResourceUpdatedNotificationSchema,
            completed: types.ElicitationCompleteNotificationSchema,
        };
        const client = new Client({ name: 'talk-client', version: '1.32.2' }, { capabilities });
        let version;
        agreedVersion(transport, (agreed) => (version = agreed));
        if (revision !== undefined) offerVersion(transport, revision);
        return {
            client,
            transport,
            describe: () => ({ era: 'legacy', version }),
            request: (what, handler) =>
                client.setRequestHandler(schemas[what], (request, extra) => handler(request, extra.signal)),
            notified: (what, handler) => client.setNotificationHandler(schemas[what], handler),
            call: (params, options) => client.callTool(params, undefined, options),
            refusal: (code, text) => new types.McpError(code, text),
        };
    }
    const { Client, ProtocolError } = await import('@modelcontextprotocol/client');
    const mode = { modern: { pin: '2026-07-28' }, legacy: 'legacy' }[era];
    const client = new Client(
        { name: 'talk-client', version: '2.4.0' },
        {
            capabilities,
            versionNegotiation: { mode },
            ...(revision === undefined ? {} : { supportedProtocolVersions: [revision] }),
        },
    );
    return {
        client,
        transport,
        describe: () => ({ era: client.getProtocolEra(), version: client.getNegotiatedProtocolVersion() }),
        request: (what, handler) =>
            client.setRequestHandler(HANDLED[what], (request, ctx) => handler(request, ctx.mcpReq.signal)),
        notified: (what, handler) => client.setNotificationHandler(HANDLED[what], handler),
        call: (params, options) => client.callTool(params, options),
        refusal: (code, text) => new ProtocolError(code, text),
    };
};

const report = (line) => console.log(JSON.stringify(line));
const { client, transport, describe, request, notified, call, refusal } = await made();

let current = { answers: {} };
const seen = () => ({ asked: [], aborted: 0, logs: [], news: [], completed: [], odd: [] });
let notes = seen();

const answer = async (name, { method, params }, signal) => {
    const mine = notes;
    mine.asked.push({ name, method, params });
    const given = current.answers?.[name];
    const answer = Array.isArray(given) ? given[mine.asked.length - 1] : given;
    if (answer === 'error') throw refusal(-1, 'not today');
    if (answer === 'vanish') process.kill(process.pid, 'SIGKILL');
    if (answer === 'vanish' || answer === 'never') {
        await new Promise((resolve) => (signal.aborted ? resolve() : signal.addEventListener('abort', resolve)));
        mine.aborted += 1;
        throw refusal(-1, 'too late');
    }
    if (answer === undefined) throw new Error(`not expected: ${name}`);
    return answer;
};
if (part !== 'poor') {
    request('elicit', (ask, signal) => answer(ask.params.message, ask, signal));
    request('sample', (ask, signal) => answer(ask.params.systemPrompt, ask, signal));
    request('roots', (ask, signal) => answer('roots', ask, signal));
}
notified('log', ({ params: { _meta, ...line } }) => void notes.logs.push(line));
for (const what of ['tools', 'prompts', 'resources']) notified(what, () => void notes.news.push(what));
notified('updated', ({ params }) => void notes.news.push(params.uri));
notified('completed', ({ params }) => void notes.completed.push(params.elicitationId));
client.onerror = (error) => notes.odd.push(String(error.message));

const inThisEra = (wanted) => wanted?.[era] ?? wanted;

/** Waits for messages that may follow the result a moment later. */
const arrived = async (what, count) => {
    for (let waited = 0; notes[what].length < count && waited < NEWS_MS; waited += 10) await delay(10);
};

const outcome = async (step) => {
    const params = { name: step.tool ?? step.prompt, arguments: step.arguments ?? {} };
    if (step.level !== undefined) {
        if (describe().era === 'modern') params._meta = { 'io.modelcontextprotocol/logLevel': step.level };
        else await client.setLoggingLevel(step.level, { timeout: REQUEST_MS });
    }
    const options = { timeout: step.timeout ?? REQUEST_MS };
    // The timeout of the newer SDK applies to each request alone, so it does not limit a modern call that waits for a user.
    if (step.timeout !== undefined && describe().era === 'modern') options.signal = AbortSignal.timeout(step.timeout);
    try {
        const ask = () => {
            if (step.prompt !== undefined) return client.getPrompt(params, options);
            if (step.read !== undefined) return client.readResource({ uri: step.read }, options);
            return call(params, options);
        };
        const result = await ask();
        const { text } = result.content?.[0] ?? result.messages?.[0].content ?? result.contents[0];
        return result.isError ? { failed: text } : { result: JSON.parse(text) };
    } catch (error) {
        const timedOut = error.code === -32001 || error.code === 'REQUEST_TIMEOUT';
        if (step.timeout !== undefined || timedOut) return { 'gave-up': error.message };
        return { error: { code: error.code, message: error.message, data: error.data } };
    }
};

let subscription;
const perform = async (step) => {
    if (step.subscribe !== undefined) {
        if (describe().era === 'modern') {
            subscription = await client.listen(step.subscribe, { timeout: REQUEST_MS });
            subscription.closed.then((how) => (notes.ended = how));
            return { honoured: subscription.honoredFilter };
        }
        for (const uri of step.subscribe.resourceSubscriptions) await client.subscribeResource({ uri });
        return {};
    }
    if (step.unsubscribe) {
        if (subscription !== undefined) await subscription.close();
        else await client.unsubscribeResource({ uri: 'note://one' });
        return {};
    }
    if (step['roots-changed']) {
        if (describe().era === 'modern') return { cannot: true };
        await client.sendRootsListChanged();
        return {};
    }
    const came = await outcome(step);
    // Separate messages abort a withdrawn input request and end a subscription.
    const missing = () => (step.aborted && !notes.aborted) || (step.ended && !notes.ended);
    for (let waited = 0; missing() && waited < NEWS_MS; waited += 10) await delay(10);
    await arrived('logs', inThisEra(step.logs) ?? 0);
    await arrived('news', inThisEra(step.news)?.length ?? 0);
    if (describe().era === 'legacy') await arrived('completed', step.completed?.length ?? 0);
    return { ...came, ...notes };
};

const watchdog = setTimeout(() => {
    report({ step: 'watchdog', at: current.step });
    transport._process?.kill('SIGKILL');
    process.exit(3);
}, TOTAL_MS);

await client.connect(transport, { timeout: REQUEST_MS });
report({ step: 'negotiate', ...describe() });
// The transport of the SDK keeps its child process private, and drops it when it closes.
const child = transport._process;
const exited = new Promise((resolve) => child?.once('exit', (code) => resolve(code)));
for (const step of part.split(',').flatMap((name) => talk.steps[name])) {
    current = step;
    notes = seen();
    report({ step: step.step, ...(await perform(step)) });
}
if (overHttp) {
    await transport.terminateSession?.();
    report({ step: 'end' });
} else {
    child.stdin.end();
    // The signals of `client.close()` would hide a server that does not exit by itself.
    const code = await Promise.race([exited, delay(NEWS_MS, 'none', { ref: false })]);
    report({ step: 'end', 'by-itself': code === 0 });
}
await client.close();
clearTimeout(watchdog);
process.exit(0);
