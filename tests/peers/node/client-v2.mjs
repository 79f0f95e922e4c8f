// A client on the second generation of the official TypeScript SDK, for both eras.
//
//   node client-v2.mjs --era modern|legacy|auto [--revision R] [--expect-refusal|--everything STEPS] -- SERVER [ARGS…]
//   node client-v2.mjs --era modern|legacy|auto … [--sse] -- URL
import { Client } from '@modelcontextprotocol/client';
import { transportTo } from './http.mjs';
import { parseArgs, run } from './steps.mjs';

const args = parseArgs();
const mode = { modern: { pin: '2026-07-28' }, legacy: 'legacy', auto: 'auto' }[args.era];
if (mode === undefined) throw new Error('--era must be modern, legacy or auto');

const client = new Client(
    { name: 'peer-client-v2', version: '2.4.0' },
    {
        capabilities: {},
        versionNegotiation: { mode },
        ...(args.revision === undefined ? {} : { supportedProtocolVersions: [args.revision] }),
    },
);
const transport = await transportTo('2', args.server, args);

await run(
    {
        client,
        transport,
        call: (params, options) => client.callTool(params, options),
        describe: () => ({
            era: client.getProtocolEra(),
            version: client.getNegotiatedProtocolVersion(),
            server: client.getServerVersion(),
            capabilities: client.getServerCapabilities(),
        }),
        alive: async (options) => {
            if (client.getProtocolEra() === 'modern') {
                await client.discover(options);
                return { by: 'server/discover' };
            }
            await client.ping(options);
            return { by: 'ping' };
        },
    },
    args,
);
