// The official TypeScript SDKs in this process: their clients connect to a transport, their servers serve one.
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { Server as ServerV1 } from '@modelcontextprotocol/sdk/server/index.js';
import {
    CallToolRequestSchema,
    ElicitRequestSchema,
    ListToolsRequestSchema,
    McpError,
} from '@modelcontextprotocol/sdk/types.js';
import { Client as ClientV2 } from '@modelcontextprotocol/client';
import { ProtocolError, Server as ServerV2, inputRequired } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { setTimeout as delay } from 'node:timers/promises';

const capabilities = { elicitation: { form: {} } };
const answerWith = (name) => () => ({ action: 'accept', content: { name } });

const clientV1 = async (transport) => {
    const client = new ClientV1({ name: 'official', version: '1.32.2' }, { capabilities });
    client.setRequestHandler(ElicitRequestSchema, answerWith('Ada'));
    await client.connect(transport);
    return {
        client,
        era: 'legacy',
        call: (params, options) => client.callTool(params, undefined, options),
        alive: () => client.ping(),
    };
};

const clientV2 = (mode) => async (transport) => {
    const client = new ClientV2({ name: 'official', version: '2.4.0' }, { capabilities, versionNegotiation: { mode } });
    client.setRequestHandler('elicitation/create', answerWith('Ada'));
    await client.connect(transport);
    const era = client.getProtocolEra();
    return {
        client,
        era,
        call: (params, options) => client.callTool(params, options),
        alive: () => (era === 'modern' ? client.discover() : client.ping()),
    };
};

/** Clients by name; each connects to a transport and returns its calls. */
export const clients = {
    'SDK 1.32.2': clientV1,
    'SDK 2.4.0, legacy': clientV2('legacy'),
    'SDK 2.4.0, modern': clientV2({ pin: '2026-07-28' }),
    'SDK 2.4.0, either era': clientV2('auto'),
};

const tools = ['echo', 'slow', 'greet', 'fail'].map((name) => ({ name, inputSchema: { type: 'object' } }));
const text = (value) => ({ content: [{ type: 'text', text: value }] });
const form = {
    message: 'What is your name?',
    requestedSchema: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] },
};

/** Runs a tool. `ask` returns the answer to `form`, or leaves by a result of its own; `seen` counts cancellations. */
const run = async ({ name, arguments: args, _meta }, { signal, notify, ask, seen }) => {
    if (name === 'echo') return text(args.text);
    if (name === 'greet') {
        const answer = await ask();
        return answer.content === undefined || Array.isArray(answer.content) ? answer : text(`Hello, ${answer.content.name}`);
    }
    if (name !== 'slow') return undefined;
    const progressToken = _meta?.progressToken;
    for (let progress = 1; progress <= 3; progress += 1) {
        await notify({ method: 'notifications/progress', params: { progressToken, progress, total: 3 } });
        await delay(args.ms, undefined, { signal }).catch((error) => {
            seen.aborted += 1;
            throw error;
        });
    }
    return text('slow');
};

const serverV1 = async (transport, seen) => {
    const server = new ServerV1({ name: 'official', version: '1.32.2' }, { capabilities: { tools: {} } });
    server.setRequestHandler(ListToolsRequestSchema, () => ({ tools }));
    server.setRequestHandler(CallToolRequestSchema, async ({ params }, extra) => {
        const { signal, sendNotification: notify } = extra;
        const ask = () => server.elicitInput(form, { relatedRequestId: extra.requestId });
        const result = await run(params, { signal, notify, ask, seen });
        if (result === undefined) throw new McpError(-32602, 'there is no such tool');
        return result;
    });
    await server.connect(transport);
    return server;
};

const buildV2 = (seen, era) => () => {
    const server = new ServerV2({ name: 'official', version: '2.4.0' }, { capabilities: { tools: {} } });
    server.setRequestHandler('tools/list', () => ({ tools }));
    server.setRequestHandler('tools/call', async ({ params }, { mcpReq }) => {
        const ask = async () => {
            if (era === 'legacy') return mcpReq.elicitInput(form);
            const answer = mcpReq.inputResponses?.name;
            return answer ?? inputRequired({ inputRequests: { name: inputRequired.elicit(form) } });
        };
        // The SDK keeps the token from the parameters.
        const result = await run({ ...params, _meta: mcpReq._meta }, { signal: mcpReq.signal, notify: mcpReq.notify, ask, seen });
        if (result === undefined) throw new ProtocolError(-32602, 'there is no such tool');
        return result;
    });
    return server;
};

/** Servers by name, with the revision to which a client of both eras comes; `seen` counts cancelled calls. */
export const servers = {
    'SDK 1.32.2': { version: '2025-11-25', serve: serverV1 },
    'SDK 2.4.0, legacy': {
        version: '2025-11-25',
        serve: async (transport, seen) => {
            const server = buildV2(seen, 'legacy')();
            await server.connect(transport);
            return server;
        },
    },
    'SDK 2.4.0, modern': {
        version: '2026-07-28',
        serve: async (transport, seen) =>
            serveStdio(buildV2(seen, 'modern'), { transport, legacy: 'reject' }),
    },
    'SDK 2.4.0, either era': {
        version: '2026-07-28',
        serve: async (transport, seen) => serveStdio(buildV2(seen, 'modern'), { transport }),
    },
};
