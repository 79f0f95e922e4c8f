// A protected server on the second generation of the official TypeScript SDK. It accepts the JWTs of one issuer.
//
//   node auth-server.mjs --issuer URL [--scope S] [--era modern|legacy] [--port PORT]
//
// Every request needs the scope S (mcp:read), and the tool `write` mcp:write too. `whoami` returns what the SDK knows of
// the access token.
import { createRemoteJWKSet, jwtVerify } from 'jose';
import { parseArgs } from 'node:util';
import {
    McpServer,
    OAuthError,
    OAuthErrorCode,
    fromJsonSchema,
    getOAuthProtectedResourceMetadataUrl,
    oauthMetadataResponse,
    requireBearerAuth,
    requireScopes,
} from '@modelcontextprotocol/server';
import { hostV2 } from './http.mjs';

const { values: options } = parseArgs({
    options: {
        issuer: { type: 'string' },
        scope: { type: 'string', default: 'mcp:read' },
        era: { type: 'string' },
        port: { type: 'string', default: '0' },
    },
});
if (options.issuer === undefined) throw new Error('--issuer is missing');

const fetched = await fetch(`${options.issuer}/.well-known/oauth-authorization-server`);
const oauthMetadata = await fetched.json();
if (oauthMetadata.issuer !== options.issuer) throw new Error(`the issuer is ${oauthMetadata.issuer}`);
const keys = createRemoteJWKSet(new URL(oauthMetadata.jwks_uri));

/** Verifies JWT access tokens (RFC 9068) for one resource. */
const verifier = (resource) => ({
    verifyAccessToken: async (token) => {
        try {
            const { payload } = await jwtVerify(token, keys, {
                issuer: options.issuer,
                audience: resource.href,
                typ: 'at+jwt',
                algorithms: ['ES256', 'RS256'],
                requiredClaims: ['exp', 'sub', 'client_id'],
            });
            return {
                token,
                clientId: payload.client_id,
                scopes: payload.scope?.split(' ') ?? [],
                expiresAt: payload.exp,
                resource,
                extra: { subject: payload.sub },
            };
        } catch (error) {
            console.error(`auth-server: ${error.code}: ${error.message}`);
            throw new OAuthError(OAuthErrorCode.InvalidToken, 'the access token is not valid');
        }
    },
});

const protect = (url) => {
    const resource = new URL(url);
    const served = { oauthMetadata, resourceServerUrl: resource, scopesSupported: [options.scope, 'mcp:write'] };
    const gate = requireBearerAuth({
        verifier: verifier(resource),
        requiredScopes: [options.scope],
        resourceMetadataUrl: getOAuthProtectedResourceMetadataUrl(resource),
        expectedResource: resource,
    });
    return async (request) => oauthMetadataResponse(request, served) ?? (await gate(request));
};

const text = (value) => ({ content: [{ type: 'text', text: value }] });
const inputSchema = fromJsonSchema({ type: 'object', properties: {}, additionalProperties: false });

const build = () => {
    const server = new McpServer({ name: 'auth-server', version: '2.4.0' });
    server.registerTool('whoami', { inputSchema }, (_, ctx) => {
        const { clientId: client, scopes, extra } = ctx.http.authInfo;
        return text(JSON.stringify({ client, scopes, subject: extra.subject }));
    });
    const scopeChallenge = requireScopes(options.scope, 'mcp:write');
    server.registerTool('write', { inputSchema, scopeChallenge }, () => text('written'));
    return server;
};

const onerror = (error) => console.error(`auth-server: ${error.message}`);
await hostV2(build, Number(options.port), { era: options.era, onerror, protect });
