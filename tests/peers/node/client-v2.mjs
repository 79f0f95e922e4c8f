// A client on the official TypeScript client SDK of the second generation, which speaks both eras.
//
//   node client-v2.mjs --era modern|legacy|auto [--expect-refusal|--everything STEPS] -- SERVER [ARGS…]
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { parseArgs, run } from './steps.mjs';

const args = parseArgs();
const mode = { modern: { pin: '2026-07-28' }, legacy: 'legacy', auto: 'auto' }[args.era];
if (mode === undefined) throw new Error('--era must be modern, legacy or auto');

const client = new Client(
    { name: 'peer-client-v2', version: '2.4.0' },
    { capabilities: {}, versionNegotiation: { mode } },
);
const transport = new StdioClientTransport(args.server);

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
