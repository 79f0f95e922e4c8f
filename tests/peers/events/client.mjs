// A client of events and its receiver of webhooks, on the AI SDK. Node.js 22.
//
//   node client.mjs TOKEN --era modern|legacy --certificate FILE --key FILE
//
// The receiver listens at https://localhost, with the certificate. Each line on stdin is a command, as a JSON array: its name
// and its arguments. It is answered by one JSON line; what arrives at the receiver is a line, too:
//
//   ["connect", URL], ["list"], ["end"]  {"done": "connect", "result": …}
//   ["subscribe", NAME, ARGUMENTS, URL]  without URL at the receiver
//   ["refresh", KEY], ["unsubscribe", KEY]
//   {"listening": URL}, {"event": …}, {"gap": …}, {"terminated": …}, {"answered": STATUS}
//
// A command that fails has `error`: `message`, and `code` and `data` of the server.
import { readFileSync } from 'node:fs';
import { createServer } from 'node:https';
import { createInterface } from 'node:readline';
import { createMCPClient, experimental_createMCPEventWebhook as createWebhook } from '@ai-sdk/mcp';

const [token, ...words] = process.argv.slice(2);
const option = (name) => words[words.indexOf(`--${name}`) + 1];
const print = (line) => console.log(JSON.stringify(line));

// Like a database: what is kept is a copy.
const kept = new Map();
const copy = (record) => record && structuredClone(record);
const store = {
    get: async (key) => copy(kept.get(key)),
    getById: async (id) => copy([...kept.values()].find((record) => record.id === id)),
    set: async (record) => void kept.set(record.key, copy(record)),
    update: async (key, patch) => void (kept.has(key) && kept.set(key, { ...kept.get(key), ...copy(patch) })),
    delete: async (key) => void kept.delete(key),
};
const handle = createWebhook({
    store,
    onEvent: async ({ subscription, event }) => print({ event, id: subscription.id }),
    onGap: async ({ subscription, gap }) => print({ gap, id: subscription.id }),
    onTerminated: async ({ subscription, termination }) => print({ terminated: termination, id: subscription.id }),
    onError: (error) => print({ failed: String(error) }),
});

const tls = { cert: readFileSync(option('certificate')), key: readFileSync(option('key')) };
const receiver = createServer(tls, async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const answer = await handle(
        new Request(`https://localhost${request.url}`, {
            method: request.method,
            headers: request.headers,
            body: Buffer.concat(chunks),
        }),
    );
    print({ answered: answer.status });
    response.writeHead(answer.status, Object.fromEntries(answer.headers));
    response.end(Buffer.from(await answer.arrayBuffer()));
});
await new Promise((resolve) => receiver.listen(0, '127.0.0.1', resolve));
const callback = `https://localhost:${receiver.address().port}/hook`;
print({ listening: callback });

let client;
const commands = {
    connect: async (url) => {
        client = await createMCPClient({
            transport: { type: 'http', url, headers: { Authorization: `Bearer ${token}` } },
            protocolVersionDiscovery: option('era') === 'modern',
            experimental_events: { store },
        });
        return { revision: client.initializeResult?.protocolVersion };
    },
    list: () => client.experimental_events.list(),
    subscribe: async (name, args, at = callback) => {
        const delivery = { mode: 'webhook', url: at };
        const result = await client.experimental_events.subscribe({ name, arguments: args, delivery });
        const record = await store.getById(result.id);
        return { ...result, key: record.key, url: record.delivery.url };
    },
    refresh: (key) => client.experimental_events.refresh({ key }),
    unsubscribe: (key) => client.experimental_events.unsubscribe({ key }),
    end: () => client.close(),
};

for await (const line of createInterface({ input: process.stdin })) {
    const [name, ...args] = JSON.parse(line);
    try {
        print({ done: name, result: (await commands[name](...args)) ?? null });
    } catch (error) {
        print({ done: name, error: { message: error.message, code: error.code, data: error.data } });
    }
    if (name === 'end') break;
}
receiver.close();
