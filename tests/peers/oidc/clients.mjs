// Clients that are known to the authorization server before they first ask.
import { createPublicKey } from 'node:crypto';
import { readFileSync } from 'node:fs';

const SECRET = 'secret-of-the-tests';
// `client_secret_basic` has to percent-encode it before Base64 (RFC 6749, section 2.3.1).
const ODD_SECRET = 'secret+of/the=tests&100%';

const key = createPublicKey(readFileSync(new URL('client-key.pem', import.meta.url))).export({ format: 'jwk' });
const keys = { jwks: { keys: [{ ...key, kid: 'client-key', alg: 'ES256', use: 'sig' }] } };

// A native client on a loopback address may use any port (RFC 8252, section 7.3), but only these paths.
const redirects = ['http://127.0.0.1', 'http://localhost', 'http://[::1]'].flatMap((origin) =>
    ['/', '/callback', '/oauth/callback'].map((path) => `${origin}${path}`),
);
const code = {
    application_type: 'native',
    grant_types: ['authorization_code', 'refresh_token'],
    redirect_uris: redirects,
    response_types: ['code'],
};
const machine = { grant_types: ['client_credentials'], redirect_uris: [], response_types: [] };
const secret = { client_secret: SECRET };
const signed = { token_endpoint_auth_method: 'private_key_jwt', token_endpoint_auth_signing_alg: 'ES256', ...keys };

export const clients = [
    { client_id: 'public', token_endpoint_auth_method: 'none', ...code },
    // Its access tokens are always bound to a key (RFC 9449, section 5.2).
    { client_id: 'bound', token_endpoint_auth_method: 'none', dpop_bound_access_tokens: true, ...code },
    { client_id: 'basic', token_endpoint_auth_method: 'client_secret_basic', ...secret, ...code },
    { client_id: 'basic-odd', token_endpoint_auth_method: 'client_secret_basic', client_secret: ODD_SECRET, ...code },
    { client_id: 'post', token_endpoint_auth_method: 'client_secret_post', ...secret, ...code },
    { client_id: 'jwt', ...signed, ...code },
    { client_id: 'machine-basic', token_endpoint_auth_method: 'client_secret_basic', ...secret, ...machine },
    { client_id: 'machine-post', token_endpoint_auth_method: 'client_secret_post', ...secret, ...machine },
    { client_id: 'machine-jwt', ...signed, ...machine },
    {
        client_id: 'device',
        token_endpoint_auth_method: 'none',
        application_type: 'native',
        grant_types: ['urn:ietf:params:oauth:grant-type:device_code', 'refresh_token'],
        redirect_uris: [],
        response_types: [],
    },
    // A resource server, which asks for introspection (RFC 7662) and gets no tokens.
    {
        client_id: 'resource-server',
        token_endpoint_auth_method: 'client_secret_basic',
        ...secret,
        grant_types: [],
        redirect_uris: [],
        response_types: [],
    },
];
