// HTTP for the programs of this folder: it hosts their servers and connects their clients.
//
// A server takes `--http PORT` (0 for a free port) and, for HTTP+SSE of 2024-11-05, `--sse`. It prints its URL to
// stderr and exits gracefully on SIGTERM. A client takes a URL instead of a command, and also `--sse`.
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { getRequestListener } from '@hono/node-server';

/** Event store that keeps all events in order, so that an interrupted stream can be resumed. */
class Events {
    #kept = [];

    async storeEvent(stream, message) {
        this.#kept.push({ stream, message });
        return `${stream}_${this.#kept.length}`;
    }

    async replayEventsAfter(last, { send }) {
        const split = last.lastIndexOf('_');
        const stream = last.slice(0, split);
        for (const [index, event] of this.#kept.entries()) {
            const isNew = index >= Number(last.slice(split + 1)) && event.stream === stream;
            // An event that only opens a stream is an empty object.
            if (isNew && event.message.jsonrpc) await send(`${stream}_${index + 1}`, event.message);
        }
        return stream;
    }
}

const PATH = '/mcp';
const SSE_PATH = '/sse';

/** Listens, prints the URL, and handles SIGTERM. */
const listen = async (server, port, path, closing) => {
    await new Promise((resolve) => server.listen(port, '127.0.0.1', resolve));
    process.on('SIGTERM', async () => {
        await closing?.();
        server.closeAllConnections();
        process.exit(0);
    });
    console.error(`listening on http://127.0.0.1:${server.address().port}${path}`);
};

const nothing = (response, status) => response.writeHead(status).end();

/** A transport of either generation that is registered in `sessions` while its session lives. */
const sessioned = (Transport, sessions, retry) => {
    const transport = new Transport({
        sessionIdGenerator: randomUUID,
        eventStore: new Events(),
        retryInterval: retry,
        onsessioninitialized: (opened) => void sessions.set(opened, transport),
        onsessionclosed: (closed) => void sessions.delete(closed),
    });
    return transport;
};

/**
 * Hosts servers of the first generation, one per session.
 *
 * @param build  function that builds one
 */
export const hostV1 = async (build, port, { sse = false, retry } = {}) => {
    const sessions = new Map();
    if (sse) {
        const { SSEServerTransport } = await import('@modelcontextprotocol/sdk/server/sse.js');
        const server = createServer(async (request, response) => {
            const url = new URL(request.url, 'http://127.0.0.1');
            if (request.method === 'GET' && url.pathname === SSE_PATH) {
                const transport = new SSEServerTransport('/messages', response);
                sessions.set(transport.sessionId, transport);
                response.on('close', () => sessions.delete(transport.sessionId));
                await build().connect(transport);
            } else if (request.method === 'POST' && url.pathname === '/messages') {
                const transport = sessions.get(url.searchParams.get('sessionId'));
                if (transport === undefined) nothing(response, 404);
                else await transport.handlePostMessage(request, response);
            } else nothing(response, 404);
        });
        return listen(server, port, SSE_PATH);
    }
    const { StreamableHTTPServerTransport } = await import('@modelcontextprotocol/sdk/server/streamableHttp.js');
    const server = createServer(async (request, response) => {
        if (new URL(request.url, 'http://127.0.0.1').pathname !== PATH) return nothing(response, 404);
        const id = request.headers['mcp-session-id'];
        let transport = sessions.get(id);
        if (transport === undefined) {
            if (id !== undefined) return nothing(response, 404);
            transport = sessioned(StreamableHTTPServerTransport, sessions, retry);
            await build().connect(transport);
        }
        return transport.handleRequest(request, response);
    });
    return listen(server, port, PATH);
};

/**
 * Hosts servers of the second generation: one per session in the legacy era, one per request in the modern era.
 *
 * @param build    function that builds one
 * @param options  `era`: the only era, both if absent; `onerror`; `protect`: called with the URL of the server, returns a
 *                 function that is called with every request, and returns a response instead of the server's, or what
 *                 handlers learn about the access token
 * @returns        in the modern era: `notify` publishes changes, `farewell` ends all subscriptions gracefully
 */
export const hostV2 = async (build, port, { era, onerror, retry, protect } = {}) => {
    const { WebStandardStreamableHTTPServerTransport, createMcpHandler, isLegacyRequest } = await import(
        '@modelcontextprotocol/server'
    );
    const sessions = new Map();
    const legacy = async (request, authInfo) => {
        const id = request.headers.get('mcp-session-id') ?? undefined;
        let transport = sessions.get(id);
        if (transport === undefined) {
            if (id !== undefined) return new Response(null, { status: 404 });
            transport = sessioned(WebStandardStreamableHTTPServerTransport, sessions, retry);
            await build().connect(transport);
        }
        return transport.handleRequest(request, { authInfo });
    };
    const handler = () => createMcpHandler(build, { legacy: 'reject', onerror });
    let modern = handler();
    let gate;
    const serve = async (request) => {
        gate ??= protect?.(`http://127.0.0.1:${server.address().port}${PATH}`);
        const authInfo = await gate?.(request);
        if (authInfo instanceof Response) return authInfo;
        if (new URL(request.url).pathname !== PATH) return new Response(null, { status: 404 });
        if (era === 'legacy') return legacy(request, authInfo);
        if (era === 'modern') return modern.fetch(request, { authInfo });
        return (await isLegacyRequest(request.clone())) ? legacy(request, authInfo) : modern.fetch(request, { authInfo });
    };
    const server = createServer(getRequestListener(serve));
    await listen(server, port, PATH, () => modern.close());
    return {
        get notify() {
            return modern.notify;
        },
        // This SDK ends subscriptions only together with all open requests, so later clients get a new handler.
        farewell: async () => {
            const before = modern;
            modern = handler();
            await before.close();
        },
    };
};

export const isUrl = (word) => /^https?:\/\//.test(word);

/**
 * Returns the transport of a client to the server that its arguments name: a command, or a URL.
 *
 * @param sdk    '1' or '2'
 * @param words  arguments after `--`
 */
export const transportTo = async (sdk, words, { sse = false } = {}) => {
    const from = async (file) =>
        import(sdk === '1' ? `@modelcontextprotocol/sdk/client/${file}.js` : '@modelcontextprotocol/client');
    if (isUrl(words[0])) {
        const url = new URL(words[0]);
        if (sse) {
            const { SSEClientTransport } = await from('sse');
            return new SSEClientTransport(url);
        }
        const { StreamableHTTPClientTransport } = await from('streamableHttp');
        return new StreamableHTTPClientTransport(url);
    }
    const { StdioClientTransport } =
        sdk === '1' ? await from('stdio') : await import('@modelcontextprotocol/client/stdio');
    return new StdioClientTransport({ command: words[0], args: words.slice(1), stderr: 'inherit' });
};

/** Calls back with the negotiated revision, which the first generation passes only to its transports. */
export const agreedVersion = (transport, agreed) => {
    const keep = transport.setProtocolVersion?.bind(transport);
    transport.setProtocolVersion = (version) => {
        agreed(version);
        keep?.(version);
    };
};

/** Makes a client of the first generation offer another revision than its newest. */
export const offerVersion = (transport, version) => {
    const send = transport.send.bind(transport);
    transport.send = (message, options) => {
        const is = message.method === 'initialize';
        const params = is ? { ...message.params, protocolVersion: version } : message.params;
        return send(is ? { ...message, params } : message, options);
    };
};
