// Makes tokens of every algorithm, and a token that is bound to a key with its proof, by the npm package `jose`.
//
//   npm install jose@6.2.13 && node tokens.mjs >tokens.json
//
// The private keys are lost when it ends, but for that of rsa.pem, which is worth nothing.
import { createHash, createPrivateKey, createPublicKey } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { SignJWT, calculateJwkThumbprint, exportJWK, generateKeyPair } from 'jose';

const issuer = 'https://login.example.com/tenant';
const resource = 'https://tools.example.com/mcp';
const now = 1_800_000_000;

const rsa = createPrivateKey(await readFile(new URL('rsa.pem', import.meta.url)));
const pair = async (alg) =>
    /^[RP]S/.test(alg)
        ? { privateKey: rsa, publicKey: createPublicKey(rsa) }
        : generateKeyPair(alg, { extractable: true });

const sign = (alg, key, header, claims) => new SignJWT(claims).setProtectedHeader({ alg, ...header }).sign(key);
const claims = { iss: issuer, aud: resource, sub: 'alice', iat: now, exp: now + 600, scope: 'files:read mail' };

const keys = [];
const tokens = {};
for (const alg of ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'EdDSA']) {
    const { privateKey, publicKey } = await pair(alg);
    keys.push({ ...(await exportJWK(publicKey)), kid: alg, alg, use: 'sig' });
    tokens[alg] = await sign(alg, privateKey, { kid: alg, typ: 'at+jwt' }, claims);
    if (alg !== 'ES256') continue;

    const client = await pair(alg);
    const jwk = await exportJWK(client.publicKey);
    const jkt = await calculateJwkThumbprint(jwk);
    tokens.bound = await sign(alg, privateKey, { kid: alg, typ: 'at+jwt' }, { ...claims, cnf: { jkt } });
    const ath = createHash('sha256').update(tokens.bound).digest('base64url');
    const proof = { jti: 'a4b5', htm: 'POST', htu: resource, iat: now, ath };
    tokens.proof = await sign(alg, client.privateKey, { typ: 'dpop+jwt', jwk }, proof);
}
process.stdout.write(`${JSON.stringify({ keys, tokens }, null, 2)}\n`);
