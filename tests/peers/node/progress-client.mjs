// A client on the first generation of the official TypeScript SDK that counts the progress its callers see.
//
//   node progress-client.mjs CALLS STEPS -- SERVER [ARGS…]
//
// It prints one JSON line: for each call of the tool `count`, the progress that its callback was given before the result.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';

const [calls, to, , command, ...args] = process.argv.slice(2);
const client = new Client({ name: 'progress-client', version: '1.32.2' });
await client.connect(new StdioClientTransport({ command, args }));
const seen = [];
for (let call = 0; call < Number(calls); call += 1) {
    const steps = [];
    await client.callTool({ name: 'count', arguments: { to: Number(to), delay_ms: 0 } }, undefined, {
        timeout: 20_000,
        onprogress: ({ progress }) => steps.push(progress),
    });
    seen.push(steps);
}
await client.close();
console.log(JSON.stringify(seen));
