// A server on the official TypeScript SDKs for the conversations of ../talk.json.
//
//   node talk-server.mjs TALK --sdk 1|2 --era modern|legacy [--log FILE] [--time-out MS] [--http PORT [--sse]]
//
// Each tool sends the input requests that the file lists and returns the answers. --log appends one JSON line for each
// event that only the server can see. --time-out is the time in ms that a legacy client has to answer.
import { appendFileSync, readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { hostV1, hostV2 } from './http.mjs';

const words = process.argv.slice(2);
const option = (name) => (words.includes(name) ? words[words.indexOf(name) + 1] : undefined);
const talk = JSON.parse(readFileSync(words[0], 'utf8'));
const [sdk, era, logFile, timeOut, http] = ['--sdk', '--era', '--log', '--time-out', '--http'].map(option);
const sse = words.includes('--sse');
const timeout = Number(timeOut ?? 60_000);

// Appended synchronously: a buffered line would be lost with the process, and would look like a missing event.
const log = (event) => logFile && appendFileSync(logFile, `${JSON.stringify(event)}\n`);
process.on('exit', (code) => log({ event: 'end', ok: code === 0 }));

const text = (value) => ({ content: [{ type: 'text', text: JSON.stringify(value) }] });
const names = [...Object.keys(talk.tools), 'gate', 'log', 'change', 'cut', 'count', 'fail'];
const sum = { type: 'object', properties: { sum: { type: 'number' } }, required: ['sum'] };
const tools = [
    ...names.map((name) => ({ name, inputSchema: { type: 'object' } })),
    { name: 'add', inputSchema: { type: 'object' }, outputSchema: sum },
];
const resources = [...talk.notes, ...Object.keys(talk.resources)].map((uri) => ({ uri, name: uri }));
const prompts = Object.keys(talk.prompts).map((name) => ({ name, arguments: [{ name: 'colour' }] }));
/** Returns a page of the resources; there are at least two pages. */
const page = (params) => {
    const from = Number(params?.cursor ?? 0);
    const next = from + 2 < resources.length ? { nextCursor: String(from + 2) } : {};
    return { resources: resources.slice(from, from + 2), ...next };
};
const completion = ({ argument: { value } }) => {
    const values = ['green', 'grey', 'red'].filter((colour) => colour.startsWith(value));
    return { completion: { values, total: values.length, hasMore: false } };
};
/** Runs a tool without input requests; returns nothing for other tools. */
const alone = async (name, { a, b, to, delay_ms }, { token, notify, signal }) => {
    if (name === 'add') return { ...text(a + b), structuredContent: { sum: a + b } };
    if (name === 'fail') return { ...text('this tool always fails'), isError: true };
    if (name !== 'count') return undefined;
    for (let step = 1; step <= to; step += 1) {
        await delay(delay_ms, undefined, { signal });
        const params = { progressToken: token, progress: step, total: to };
        if (token !== undefined) await notify({ method: 'notifications/progress', params });
    }
    return text(to);
};
/** Converts a tool result to a prompt or resource result; an input_required result is returned unchanged. */
const asPrompt = (result) =>
    result.content === undefined ? result : { messages: [{ role: 'user', content: result.content[0] }] };
const asResource = (uri, result) =>
    result.content === undefined ? result : { contents: [{ uri, text: result.content[0].text }] };
const INFO = { name: 'talk-server', version: '1.0.0' };
const CAPABILITIES = {
    tools: { listChanged: true },
    resources: { listChanged: true, subscribe: true },
    prompts: { listChanged: true },
    logging: {},
    completions: {},
};

/** Whether the user visited the page of 2025-11-25, which the tool `gate` requires. */
let visited = false;
const change = async (server, what) => {
    if (what === 'visited') {
        visited = true;
        await server.createElicitationCompletionNotifier('page-1')();
    } else if (what === 'tools') await server.sendToolListChanged();
    else if (what === 'resources') await server.sendResourceListChanged();
    else if (what === 'prompts') await server.sendPromptListChanged();
    else await server.sendResourceUpdated({ uri: what });
};

/** Whether the user agreed to open a page. The page then counts as visited. */
const accepted = (name, result) => name === 'page' && result.content[0].text.includes('"accept"');

/** The form of a refused input request. */
const refused = (error) => {
    if (error.code === undefined || error.code === 'CAPABILITY_NOT_SUPPORTED') throw error;
    const timedOut = error.code === -32001 || error.code === 'REQUEST_TIMEOUT';
    log(timedOut ? { event: 'gave-up' } : { event: 'refused', code: error.code });
    return text(timedOut ? { 'timed-out': true } : { refused: { code: error.code, message: error.message } });
};

/** Collects the answers of a legacy client by server requests, all requests of a round at once. */
const askLegacy = async (rounds, { elicit, sample, roots }) => {
    const said = {};
    const ask = ({ method, params }) =>
        ({ 'elicitation/create': elicit, 'sampling/createMessage': sample, 'roots/list': roots })[method](params);
    for (const round of rounds) {
        try {
            const answers = await Promise.all(round.map((key) => ask(talk.questions[key])));
            round.forEach((key, index) => (said[key] = answers[index]));
        } catch (error) {
            return refused(error);
        }
    }
    return text({ said, rounds: rounds.length });
};

if (sdk === '1') {
    const { Server } = await import('@modelcontextprotocol/sdk/server/index.js');
    const { StdioServerTransport } = await import('@modelcontextprotocol/sdk/server/stdio.js');
    const types = await import('@modelcontextprotocol/sdk/types.js');
    const build = () => {
        const server = new Server(INFO, { capabilities: CAPABILITIES });
        const subscribed = new Set();
        const senders = (extra) => {
            const options = { timeout, relatedRequestId: extra.requestId, signal: extra.signal };
            return {
                elicit: (params) => server.elicitInput(params, options),
                sample: (params) => server.createMessage(params, options),
                roots: () => server.listRoots(undefined, options),
            };
        };
        server.setRequestHandler(types.GetPromptRequestSchema, async ({ params: { name } }, extra) =>
            asPrompt(await askLegacy(talk.prompts[name], senders(extra))),
        );
        server.setRequestHandler(types.ReadResourceRequestSchema, async ({ params: { uri } }, extra) =>
            asResource(uri, await askLegacy(talk.resources[uri], senders(extra))),
        );
        server.setRequestHandler(types.ListToolsRequestSchema, () => ({ tools }));
        server.setRequestHandler(types.ListResourcesRequestSchema, ({ params }) => page(params));
        server.setRequestHandler(types.CompleteRequestSchema, ({ params }) => completion(params));
        server.setRequestHandler(types.ListPromptsRequestSchema, () => ({ prompts }));
        server.setRequestHandler(types.SubscribeRequestSchema, ({ params: { uri } }) => (subscribed.add(uri), {}));
        server.setRequestHandler(types.UnsubscribeRequestSchema, ({ params: { uri } }) => (subscribed.delete(uri), {}));
        server.setNotificationHandler(types.RootsListChangedNotificationSchema, ({ method }) =>
            log({ event: 'notification', method }),
        );
        server.setRequestHandler(types.CallToolRequestSchema, async ({ params }, extra) => {
            const { name } = params;
            log({ event: 'call', tool: name });
            extra.signal.addEventListener('abort', () => log({ event: 'aborted', tool: name }));
            const { signal, sendNotification: notify, _meta } = extra;
            const done = await alone(name, params.arguments ?? {}, { token: _meta?.progressToken, notify, signal });
            if (done !== undefined) return done;
            if (name === 'log') {
                for (const line of talk.logs) await server.sendLoggingMessage(line, extra.sessionId);
                return text({});
            }
            if (name === 'change') {
                // This SDK leaves the choice of the subscribers of a resource to the server.
                const { what } = params.arguments;
                if (!what.includes(':') || subscribed.has(what)) await change(server, what);
                return text({});
            }
            if (name === 'cut') {
                // Absent if the client cannot retry.
                extra.closeSSEStream();
                await delay(200);
                return text({});
            }
            if (name === 'gate') {
                if (visited) return text({});
                throw new types.UrlElicitationRequiredError([talk.questions.page.params]);
            }
            const answered = await askLegacy(talk.tools[name], senders(extra));
            if (accepted(name, answered)) await server.createElicitationCompletionNotifier('page-1')();
            return answered;
        });
        return server;
    };
    if (http === undefined) await build().connect(new StdioServerTransport());
    else await hostV1(build, Number(http), { sse, retry: 100 });
} else {
    const { Server, UrlElicitationRequiredError, inputRequired } = await import('@modelcontextprotocol/server');
    const { StdioServerTransport, serveStdio } = await import('@modelcontextprotocol/server/stdio');

    /** Collects the answers of a modern client by retries: the missing ones are requested. */
    const askModern = (rounds, ctx) => {
        const kept = JSON.parse(ctx.mcpReq.requestState() ?? '{"said":{},"rounds":0}');
        for (const [key, answer] of Object.entries(ctx.mcpReq.inputResponses ?? {})) kept.said[key] = answer;
        for (const round of rounds) {
            if (round.every((key) => key in kept.said)) continue;
            kept.rounds += 1;
            const inputRequests = {};
            for (const key of round) {
                const { method, params } = talk.questions[key];
                const { mode, elicitationId, ...rest } = params ?? {};
                if (method === 'roots/list') inputRequests[key] = inputRequired.listRoots();
                else if (method === 'sampling/createMessage') inputRequests[key] = inputRequired.createMessage(params);
                else if (mode === 'url') inputRequests[key] = inputRequired.elicitUrl(rest);
                else inputRequests[key] = inputRequired.elicit(params);
            }
            return inputRequired({ inputRequests, requestState: JSON.stringify(kept) });
        }
        return text(kept);
    };

    const ask = (rounds, ctx) => {
        if (era === 'modern') return askModern(rounds, ctx);
        return askLegacy(rounds, {
            elicit: (params) => ctx.mcpReq.elicitInput(params, { timeout }),
            sample: (params) => ctx.mcpReq.requestSampling(params, { timeout }),
            roots: () => ctx.mcpReq.send({ method: 'roots/list' }, { timeout }),
        });
    };

    /** A server of one request knows no other client: the host publishes changes to the listen streams. */
    const publish = (what) => {
        const { toolsChanged, resourcesChanged, promptsChanged } = handle.notify;
        const lists = { tools: toolsChanged, resources: resourcesChanged, prompts: promptsChanged };
        if (what in lists) lists[what]();
        else handle.notify.resourceUpdated(what);
    };

    const build = () => {
        const server = new Server(INFO, { capabilities: CAPABILITIES });
        server.setRequestHandler('prompts/get', async ({ params: { name } }, ctx) =>
            asPrompt(await ask(talk.prompts[name], ctx)),
        );
        server.setRequestHandler('resources/read', async ({ params: { uri } }, ctx) =>
            asResource(uri, await ask(talk.resources[uri], ctx)),
        );
        const subscribed = new Set();
        server.setRequestHandler('tools/list', () => ({ tools }));
        server.setRequestHandler('resources/list', ({ params }) => page(params));
        server.setRequestHandler('completion/complete', ({ params }) => completion(params));
        server.setRequestHandler('prompts/list', () => ({ prompts }));
        server.setRequestHandler('resources/subscribe', ({ params: { uri } }) => (subscribed.add(uri), {}));
        server.setRequestHandler('resources/unsubscribe', ({ params: { uri } }) => (subscribed.delete(uri), {}));
        server.setNotificationHandler('notifications/roots/list_changed', ({ method }) =>
            log({ event: 'notification', method }),
        );
        server.setRequestHandler('tools/call', async ({ params }, ctx) => {
            const { name } = params;
            const { signal } = ctx.mcpReq;
            log({ event: 'call', tool: name });
            signal.addEventListener('abort', () => log({ event: 'aborted', tool: name }));
            const { notify, _meta } = ctx.mcpReq;
            const done = await alone(name, params.arguments ?? {}, { token: _meta?.progressToken, notify, signal });
            if (done !== undefined) return done;
            if (name === 'log') {
                for (const { level, data, logger } of talk.logs) await ctx.mcpReq.log(level, data, logger);
                return text({});
            }
            if (name === 'change') {
                const { what } = params.arguments;
                // This SDK ends subscriptions only with the connection or with all open requests, so the answer is sent first.
                if (what === 'end') setTimeout(() => (handle.farewell ? handle.farewell() : handle.close()), 50);
                else if (http !== undefined && era === 'modern') publish(what);
                else if (!what.includes(':') || era === 'modern' || subscribed.has(what)) await change(server, what);
                return text({});
            }
            if (name === 'cut') {
                ctx.http.closeSSE();
                await delay(200);
                return text({});
            }
            if (name === 'gate') {
                if (visited) return text({});
                throw new UrlElicitationRequiredError([talk.questions.page.params]);
            }
            const answered = await ask(talk.tools[name], ctx);
            if (era === 'legacy' && accepted(name, answered)) await server.createElicitationCompletionNotifier('page-1')();
            return answered;
        });
        return server;
    };
    let handle;
    const onerror = (error) => log({ event: 'odd', error: error.message });
    if (http !== undefined) handle = await hostV2(build, Number(http), { era, onerror, retry: 100 });
    else if (era === 'legacy') await build().connect(new StdioServerTransport());
    else handle = serveStdio(build, { legacy: 'reject', onerror });
}
