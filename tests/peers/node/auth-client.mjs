// A client on the second generation of the official TypeScript SDK that authorizes itself.
//
//   node auth-client.mjs --era modern|legacy|auto [OPTION…] --call NAME[=ARGUMENTS] … -- URL
//
//   --browser COMMAND   command that opens the authorization URL, split at spaces outside of '…'; the URL is appended
//   --client-id ID      a known client instead of registration
//   --client-secret S   secret of the known client
//   --client-key FILE   private key of the known client (PEM), for private_key_jwt with client credentials
//   --client-metadata U client id metadata document
//   --grant GRANT       code (default) or client-credentials
//   --dpop              tokens bound to a key (RFC 9449)
//   --pause MS          wait before each call but the first
//
// Prints one JSON line per step. The exit code is 0 if all calls succeeded.
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import {
    Client,
    ClientCredentialsProvider,
    DpopSession,
    PrivateKeyJwtProvider,
    StreamableHTTPClientTransport,
    UnauthorizedError,
} from '@modelcontextprotocol/client';

const { values: options, positionals } = parseArgs({
    allowPositionals: true,
    options: {
        era: { type: 'string' },
        browser: { type: 'string' },
        'client-id': { type: 'string' },
        'client-secret': { type: 'string' },
        'client-key': { type: 'string' },
        'client-metadata': { type: 'string' },
        grant: { type: 'string', default: 'code' },
        dpop: { type: 'boolean', default: false },
        pause: { type: 'string', default: '0' },
        call: { type: 'string', multiple: true, default: [] },
    },
});
const [url] = positionals;
const mode = { modern: { pin: '2026-07-28' }, legacy: 'legacy', auto: 'auto' }[options.era];
if (mode === undefined) throw new Error('--era must be modern, legacy or auto');
// Longer than any login on a busy machine, and shorter than the deadline of the test that runs this program.
const REDIRECT_TIMEOUT = 30_000;

const report = (step, detail) => console.log(JSON.stringify({ step, ...detail }));

/** Listens for redirects on a loopback address (RFC 8252, section 7.3). */
class RedirectListener {
    #arrived = [];
    #waiting = [];

    async start() {
        const server = createServer((request, response) => {
            const { pathname, searchParams } = new URL(request.url, 'http://127.0.0.1');
            if (pathname !== '/callback') return response.writeHead(404).end();
            response.end('You may close this page.');
            const next = this.#waiting.shift();
            if (next === undefined) this.#arrived.push(searchParams);
            else next(searchParams);
        });
        await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
        this.url = `http://127.0.0.1:${server.address().port}/callback`;
        this.close = () => {
            server.close();
            server.closeAllConnections();
        };
    }

    async next() {
        if (this.#arrived.length > 0) return this.#arrived.shift();
        const timeout = delay(REDIRECT_TIMEOUT, undefined, { ref: false }).then(() => {
            throw new Error('the redirect did not arrive in time');
        });
        return Promise.race([new Promise((resolve) => this.#waiting.push(resolve)), timeout]);
    }
}

/** Keeps everything in memory, and opens authorization URLs with a command. */
class Provider {
    #state;
    #client;
    #tokens;
    #verifier;
    #discovery;
    #dpop = options.dpop ? DpopSession.create() : undefined;

    constructor(redirectUrl) {
        this.redirectUrl = redirectUrl;
        this.clientMetadataUrl = options['client-metadata'];
        const [id, secret] = [options['client-id'], options['client-secret']];
        if (id !== undefined) this.#client = { client_id: id, client_secret: secret };
    }

    get clientMetadata() {
        return {
            client_name: 'auth-client',
            application_type: 'native',
            redirect_uris: [this.redirectUrl],
            grant_types: ['authorization_code', 'refresh_token'],
            response_types: ['code'],
            token_endpoint_auth_method: 'none',
        };
    }

    state = () => (this.#state = randomUUID());
    clientInformation = () => this.#client;
    saveClientInformation = (client) => {
        this.#client = client;
        report('register', { client: client.client_id });
    };
    tokens = () => this.#tokens;
    saveTokens = (tokens) => {
        this.#tokens = tokens;
        report('tokens', { type: tokens.token_type, scope: tokens.scope, refreshable: tokens.refresh_token !== undefined });
    };
    saveCodeVerifier = (verifier) => void (this.#verifier = verifier);
    codeVerifier = () => this.#verifier;
    saveDiscoveryState = (state) => void (this.#discovery = state);
    discoveryState = () => this.#discovery;
    dpop = () => this.#dpop;

    redirectToAuthorization = (authorization) => {
        const asked = (name) => authorization.searchParams.get(name);
        report('authorize', { client: asked('client_id'), resource: asked('resource'), scope: asked('scope') });
        if (options.browser === undefined) throw new Error('authorization is needed, but there is no --browser');
        const [command, ...words] = options.browser.match(/'[^']*'|[^ ]+/g).map((word) => word.replaceAll("'", ''));
        spawn(command, [...words, authorization.href], { stdio: ['ignore', 'ignore', 'inherit'] });
    };

    /** The SDK leaves the comparison of `state` to its user. */
    check(redirect) {
        if (redirect.get('state') !== this.#state) throw new Error('the redirect has another state');
        return redirect;
    }
}

const listener = new RedirectListener();
await listener.start();

const newProvider = () => {
    if (options.grant === 'code') return new Provider(listener.url);
    const [clientId, clientSecret, key] = [options['client-id'], options['client-secret'], options['client-key']];
    if (key === undefined) return new ClientCredentialsProvider({ clientId, clientSecret, scope: 'mcp:read' });
    return new PrivateKeyJwtProvider({
        clientId,
        privateKey: readFileSync(key, 'utf8'),
        algorithm: 'ES256',
        scope: 'mcp:read',
    });
};
const authProvider = newProvider();
let transport;

/** Does something, and again after each authorization that it needs. */
const authorized = async (action) => {
    // At most one for the first access and one for more scopes.
    for (let left = 2; ; left -= 1) {
        try {
            return await action();
        } catch (error) {
            if (!(error instanceof UnauthorizedError) || left === 0 || options.grant !== 'code') throw error;
            await transport.finishAuth(authProvider.check(await listener.next()));
        }
    }
};

const connect = async () => {
    const client = new Client({ name: 'auth-client', version: '2.4.0' }, { versionNegotiation: { mode } });
    transport = new StreamableHTTPClientTransport(new URL(url), { authProvider });
    await client.connect(transport);
    return client;
};

const client = await authorized(connect);
report('negotiate', { era: client.getProtocolEra(), version: client.getNegotiatedProtocolVersion() });
const { tools } = await authorized(() => client.listTools());
report('tools', { names: tools.map(({ name }) => name) });
for (const [at, call] of options.call.entries()) {
    if (at > 0) await delay(Number(options.pause));
    const [, name, args = '{}'] = /^([^=]+)(?:=(.*))?$/.exec(call);
    const result = await authorized(() => client.callTool({ name, arguments: JSON.parse(args) }));
    report('call', { tool: name, text: result.content[0].text, isError: result.isError ?? false });
    if (result.isError) process.exitCode = 1;
}
await client.close();
listener.close();
report('end', {});
