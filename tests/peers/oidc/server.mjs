// An authorization server: `oidc-provider`, a certified OpenID provider, on a loopback address.
//
//   node server.mjs [OPTION…]
//
//   --port PORT           port, a free one if absent
//   --path PATH           path of the issuer; its metadata is only where OpenID Connect Discovery puts it
//   --scope S             scope of every resource (repeatable; mcp:read and mcp:write if absent)
//   --resource URL        identifier of a known resource (repeatable; every http and https URL if absent)
//   --access-ttl SECONDS  lifetime of access tokens (3600)
//   --refresh-ttl SECONDS lifetime of refresh tokens (86400)
//   --token-delay MS      time from the effect of a token request to its response (0)
//   --alg ALG             algorithm of access tokens, ES256 (default) or RS256
//   --opaque              access tokens for introspection instead of JWTs
//   --dpop-nonces         DPoP proofs need a nonce of this server (RFC 9449, section 8)
//   --no-registration     no dynamic client registration
//   --strict-scopes       a registered client may only ask for the scopes of its registration
//   --no-documents        no client id metadata documents
//   --document URL=FILE   client id metadata document at an https URL, read from a file (repeatable)
//
// The first line on stdout is the issuer. Then follows one JSON line per request, without codes, tokens and secrets.
// Signing keys are made at the start: a server started again on the same port has rotated them.
import { generateKeyPair, randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs, promisify } from 'node:util';
import { Provider, errors } from 'oidc-provider';
import { clients } from './clients.mjs';

const { values: options } = parseArgs({
    options: {
        port: { type: 'string', default: '0' },
        path: { type: 'string', default: '' },
        scope: { type: 'string', multiple: true, default: ['mcp:read', 'mcp:write'] },
        resource: { type: 'string', multiple: true, default: [] },
        'access-ttl': { type: 'string', default: '3600' },
        'refresh-ttl': { type: 'string', default: '86400' },
        'token-delay': { type: 'string', default: '0' },
        alg: { type: 'string', default: 'ES256' },
        opaque: { type: 'boolean', default: false },
        'dpop-nonces': { type: 'boolean', default: false },
        'no-registration': { type: 'boolean', default: false },
        'strict-scopes': { type: 'boolean', default: false },
        'no-documents': { type: 'boolean', default: false },
        document: { type: 'string', multiple: true, default: [] },
    },
});
const seconds = (name) => {
    const value = Number(options[name]);
    if (!Number.isInteger(value) || value <= 0) throw new Error(`--${name} must be a number of seconds`);
    return value;
};
const accessTtl = seconds('access-ttl');
const refreshTtl = seconds('refresh-ttl');
if (!['ES256', 'RS256'].includes(options.alg)) throw new Error('--alg must be ES256 or RS256');

const print = (event) => process.stdout.write(`${JSON.stringify(event)}\n`);

/** Returns a new private key as a JWK. */
const signingKey = async (alg, type, parameters) => {
    const { privateKey } = await promisify(generateKeyPair)(type, parameters);
    return { ...privateKey.export({ format: 'jwk' }), kid: `${alg}-${randomBytes(4).toString('hex')}`, alg, use: 'sig' };
};

const documents = new Map(
    options.document.map((pair) => {
        const split = pair.lastIndexOf('=');
        return [pair.slice(0, split), pair.slice(split + 1)];
    }),
);

/**
 * Serves the known client id metadata documents. The server requests nothing else, so that no test depends on a network
 * and on a certificate.
 */
const fetchDocument = async (url) => {
    const file = documents.get(String(url));
    print({ event: 'document', url: String(url), found: file !== undefined });
    if (file === undefined) return new Response(null, { status: 404 });
    return new Response(await readFile(file), { headers: { 'content-type': 'application/json' } });
};

const isKnownResource = (resource) =>
    options.resource.length === 0
        ? ['http:', 'https:'].includes(URL.parse(resource)?.protocol)
        : options.resource.includes(resource);

const resourceServer = (_ctx, resource) => {
    if (!isKnownResource(resource)) throw new errors.InvalidTarget();
    return {
        scope: options.scope.join(' '),
        audience: resource,
        accessTokenTTL: accessTtl,
        accessTokenFormat: options.opaque ? 'opaque' : 'jwt',
        jwt: { sign: { alg: options.alg } },
    };
};

const scopes = ['openid', 'offline_access', ...options.scope];

/**
 * Makes a client id, and lets the client ask for all scopes later (RFC 7591, section 2: the server may replace what a
 * client registers). SDKs register with the scopes of their first challenge, and step up afterwards.
 */
const clientId = (ctx) => {
    if (!options['strict-scopes'] && ctx.oidc.body.scope !== undefined) ctx.oidc.body.scope = scopes.join(' ');
    return randomBytes(16).toString('base64url');
};

const configuration = async () => ({
    clients,
    clientAuthMethods: ['none', 'client_secret_basic', 'client_secret_post', 'private_key_jwt'],
    cookies: { keys: [randomBytes(32).toString('base64url')] },
    features: {
        clientCredentials: { enabled: true },
        clientIdMetadataDocument: { enabled: !options['no-documents'], ack: 'draft-02' },
        deviceFlow: { enabled: true },
        devInteractions: { enabled: true },
        dPoP: {
            enabled: true,
            nonceSecret: options['dpop-nonces'] ? randomBytes(32) : undefined,
            requireNonce: () => options['dpop-nonces'],
        },
        introspection: { enabled: true, allowedPolicy: () => true },
        registration: { enabled: !options['no-registration'], idFactory: clientId },
        resourceIndicators: { enabled: true, getResourceServerInfo: resourceServer },
        revocation: { enabled: true },
    },
    fetch: fetchDocument,
    jwks: {
        keys: await Promise.all([
            signingKey('ES256', 'ec', { namedCurve: 'P-256' }),
            signingKey('RS256', 'rsa', { modulusLength: 2048 }),
        ]),
    },
    pkce: { required: () => true },
    rotateRefreshToken: () => true,
    // Here too, because a client may register only for scopes of this list.
    scopes,
    ttl: {
        AccessToken: accessTtl,
        AuthorizationCode: 60,
        ClientCredentials: accessTtl,
        DeviceCode: 600,
        Grant: refreshTtl,
        IdToken: 3600,
        Interaction: 600,
        RefreshToken: refreshTtl,
        Session: refreshTtl,
    },
});

/** Returns how a request to an endpoint authenticated its client. */
const clientAuthentication = (ctx) => {
    const { authorization } = ctx.headers;
    if (/^basic /i.test(authorization)) return 'client_secret_basic';
    const { client_assertion: assertion, client_secret: secret } = ctx.oidc?.body ?? {};
    if (assertion !== undefined) return 'private_key_jwt';
    return secret === undefined ? 'none' : 'client_secret_post';
};

const logRequest = async (ctx, next) => {
    await next();
    const params = ctx.oidc?.params ?? {};
    print({
        event: 'request',
        method: ctx.method,
        path: ctx.path,
        status: ctx.status,
        error: ctx.body?.error,
        ...(ctx.method === 'POST' && { authentication: clientAuthentication(ctx), dpop: ctx.get('dpop') !== '' }),
        client: ctx.oidc?.client?.clientId ?? params.client_id,
        grant: params.grant_type,
        resource: params.resource,
        scope: params.scope,
        prompt: params.prompt,
        revision: ctx.get('mcp-protocol-version') || undefined,
    });
    // A client that ends meanwhile never learns its new tokens.
    if (ctx.path === '/token') await delay(Number(options['token-delay']));
};

const server = createServer();
await new Promise((resolve) => server.listen(Number(options.port), '127.0.0.1', resolve));
const issuer = `http://127.0.0.1:${server.address().port}${options.path}`;
const provider = new Provider(issuer, await configuration());
provider.use(logRequest);
for (const name of ['authorization.error', 'grant.error', 'registration_create.error', 'server_error']) {
    provider.on(name, (_ctx, { error, error_description: description, error_detail: detail, message }) =>
        print({ event: name, error: error ?? message, description, detail }),
    );
}
// A JWT is issued; what the server looks up later is saved.
const tokens = ['access_token.issued', 'access_token.saved', 'client_credentials.issued', 'client_credentials.saved'];
for (const name of [...tokens, 'refresh_token.saved', 'refresh_token.consumed', 'grant.revoked']) {
    provider.on(name, () => print({ event: name }));
}
const handle = provider.callback();
server.on('request', (request, response) => {
    if (options.path !== '') {
        const { url } = request;
        if (!url.startsWith(`${options.path}/`)) return response.writeHead(404).end();
        // As a router does that mounts a server at a path.
        Object.assign(request, { baseUrl: options.path, originalUrl: url, url: url.slice(options.path.length) });
    }
    return handle(request, response);
});
process.on('SIGTERM', () => {
    server.closeAllConnections();
    process.exit(0);
});
console.log(`listening on ${issuer}`);
