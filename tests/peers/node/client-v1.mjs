// A client on the official TypeScript SDK of the first generation, which speaks the revisions with a handshake.
//
//   node client-v1.mjs [--expect-refusal|--everything STEPS] -- SERVER [ARGS…]
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { parseArgs, run } from './steps.mjs';

const args = parseArgs();
const client = new Client({ name: 'peer-client-v1', version: '1.32.2' }, { capabilities: {} });
const transport = new StdioClientTransport(args.server);

// This SDK does not keep the version that it agreed to: it tells transports that want to know it, which those of
// HTTP do.
let version;
transport.setProtocolVersion = (agreed) => {
    version = agreed;
};

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
