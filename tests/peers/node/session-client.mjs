// A client on the first generation of the official TypeScript SDK that uses a session until its input ends, while the
// processes of the server end and start.
//
//   node session-client.mjs URL REVISION
//
// At the end it prints one JSON line: what it did, what it heard, and each error.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
    ElicitRequestSchema,
    ErrorCode,
    ResourceUpdatedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { offerVersion } from './http.mjs';

const [url, revision] = process.argv.slice(2);
const client = new Client(
    { name: 'session-client', version: '1.32.2' },
    { capabilities: { elicitation: {} } },
);
const transport = new StreamableHTTPClientTransport(new URL(url), {
    reconnectionOptions: {
        initialReconnectionDelay: 100,
        maxReconnectionDelay: 1000,
        reconnectionDelayGrowFactor: 1.5,
        maxRetries: 100,
    },
});
offerVersion(transport, revision);

const done = { calls: 0, asked: 0, updates: 0, lastUpdate: 0, errors: [], notes: {}, sessions: [] };
// What the SDK does not tell the caller: streams that break, and answers that could not be sent.
let droppedAnswers = 0;
client.onerror = ({ message }) => {
    done.notes[message] = (done.notes[message] ?? 0) + 1;
    if (message.startsWith('Failed to send response')) droppedAnswers += 1;
};
let ended = false;
process.stdin.on('end', () => (ended = true)).resume();

client.setRequestHandler(ElicitRequestSchema, async () => {
    done.asked += 1;
    return { action: 'accept', content: { username: 'u', email: 'u@example.com' } };
});
client.setNotificationHandler(ResourceUpdatedNotificationSchema, () => {
    done.updates += 1;
    done.lastUpdate = Date.now();
});

/** Calls a tool, and checks its answer. */
const call = async (name, args, check, options) => {
    const { content } = await client.callTool({ name, arguments: args }, undefined, {
        timeout: 20_000,
        ...options,
    });
    const text = content.map((part) => part.text ?? '').join(' ');
    if (!check(text)) throw new Error(`${name} answers ${text}`);
    done.calls += 1;
};

/** Calls a tool that asks a question. */
const ask = async () => {
    const dropped = droppedAnswers;
    try {
        await call('test_elicitation', { message: 'Who?' }, (text) => text.includes('accept'));
    } catch (error) {
        // The SDK does not send an answer again that is refused: nobody can answer the question any more, and the call ends by
        // its time limit alone.
        if (error.code !== ErrorCode.RequestTimeout || droppedAnswers === dropped) throw error;
        throw new Error('the SDK has dropped its answer', { cause: error });
    }
};

const attempt = async (what, work) => {
    try {
        await work();
    } catch (error) {
        done.errors.push(`${what}: ${error.code ?? ''} ${error.message} ${error.cause?.message ?? ''}`);
    }
};

const steps = [
    (n) => call('echo', { text: `text ${n}` }, (text) => text.includes(`text ${n}`)),
    () => call('count', { to: 4, delay_ms: 100 }, (text) => text !== '', { onprogress: () => {} }),
    () => ask(),
];

await client.connect(transport);
done.sessions.push(transport.sessionId);
for (let subscribed = false; !subscribed && !ended; ) {
    await attempt('subscribe', async () => {
        await client.subscribeResource({ uri: 'clock://running' });
        subscribed = true;
    });
}
const work = steps.map(async (step) => {
    for (let n = 0; !ended; n += 1) {
        await attempt(step.toString().slice(0, 40), () => step(n));
        await new Promise((resolve) => setTimeout(resolve, 20));
    }
});
await Promise.all(work);
// A change after all that happened.
const before = done.updates;
for (let n = 0; n < 100 && done.updates === before; n += 1) await new Promise((resolve) => setTimeout(resolve, 100));
done.heardAfter = done.updates > before;
if (!done.sessions.includes(transport.sessionId)) done.sessions.push(transport.sessionId);
await attempt('end', () => transport.terminateSession());
// A pipe takes 64 KiB at once, and an exit drops the rest.
process.stdout.write(`${JSON.stringify(done)}\n`, () => process.exit(0));
