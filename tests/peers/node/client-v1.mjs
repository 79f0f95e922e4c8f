// A client on the first generation of the official TypeScript SDK, for the legacy revisions.
//
//   node client-v1.mjs [--revision R] [--expect-refusal|--everything STEPS] -- SERVER [ARGS…]
//   node client-v1.mjs … [--sse] -- URL
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { agreedVersion, offerVersion, transportTo } from './http.mjs';
import { parseArgs, run } from './steps.mjs';

const args = parseArgs();
const client = new Client({ name: 'peer-client-v1', version: '1.32.2' }, { capabilities: {} });
const transport = await transportTo('1', args.server, args);

// This SDK does not store the negotiated version. It passes it to transports that accept it, as the HTTP ones do.
let version;
agreedVersion(transport, (agreed) => (version = agreed));
if (args.revision !== undefined) offerVersion(transport, args.revision);

await run(
    {
        client,
        transport,
        call: (params, options) => client.callTool(params, undefined, options),
        describe: () => ({
            era: 'legacy',
            version,
            server: client.getServerVersion(),
            capabilities: client.getServerCapabilities(),
        }),
        alive: async (options) => {
            await client.ping(options);
            return { by: 'ping' };
        },
    },
    args,
);
