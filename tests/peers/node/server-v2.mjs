// A small server on the official TypeScript server SDK, with the tools that our own demonstration server has.
//
//   node server-v2.mjs [--era modern|legacy] [--log FILE] [--http PORT]
//
// Without --era it serves both eras. --log appends one JSON line per event that a client cannot see from outside
// (a call that the SDK saw cancelled, an exit by itself), so that a test can hold the peer's view against its own.
import { appendFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { hostV2 } from './http.mjs';
import { McpServer, fromJsonSchema } from '@modelcontextprotocol/server';
import { StdioServerTransport, serveStdio } from '@modelcontextprotocol/server/stdio';

const option = (name) => {
    const at = process.argv.indexOf(name);
    return at < 0 ? undefined : process.argv[at + 1];
};
const era = option('--era');
const logFile = option('--log');
const http = option('--http');

// Appended at once: a buffered line would be lost when the client ends us with a signal, and its absence would then
// look like something that did not happen.
const log = (event) => logFile && appendFileSync(logFile, `${JSON.stringify(event)}\n`);

const text = (value) => ({ content: [{ type: 'text', text: String(value) }] });

// JSON Schema rather than a schema library: what is listed on the wire is then exactly what is written here.
const object = (properties) =>
    fromJsonSchema({ type: 'object', properties, required: Object.keys(properties), additionalProperties: false });
const number = { type: 'number' };
const whole = { type: 'integer', minimum: 0 };

const build = () => {
    const server = new McpServer(
        { name: 'peer-server-v2', title: 'Peer on the TypeScript SDK', version: '2.4.0' },
        { instructions: 'A peer for interoperability tests.' },
    );

    server.registerTool(
        'echo',
        { description: 'Returns the text that it is given', inputSchema: object({ text: { type: 'string' } }) },
        async (args) => text(args.text),
    );

    server.registerTool(
        'add',
        {
            description: 'Adds two numbers',
            inputSchema: object({ a: number, b: number }),
            outputSchema: object({ sum: number }),
        },
        async ({ a, b }) => ({ ...text(a + b), structuredContent: { sum: a + b } }),
    );

    server.registerTool(
        'count',
        { description: 'Counts slowly, with progress', inputSchema: object({ to: whole, delay_ms: whole }) },
        async ({ to, delay_ms }, ctx) => {
            const { signal } = ctx.mcpReq;
            const progressToken = ctx.mcpReq._meta?.progressToken;
            try {
                for (let step = 1; step <= to; step += 1) {
                    // The wait comes first, so that a long first step is a call that stays silent.
                    await delay(delay_ms, undefined, { signal });
                    if (progressToken !== undefined) {
                        await ctx.mcpReq.notify({
                            method: 'notifications/progress',
                            params: { progressToken, progress: step, total: to, message: `${step} of ${to}` },
                        });
                    }
                }
            } catch (error) {
                // The SDK aborts both for a cancellation and for a closed pipe; only the reason tells them apart.
                if (signal.aborted) log({ event: 'aborted', tool: 'count', reason: String(signal.reason) });
                throw error;
            }
            return text(to);
        },
    );

    server.registerTool('fail', { description: 'Always fails', inputSchema: object({}) }, async () => {
        throw new Error('this tool always fails');
    });

    return server;
};

log({ event: 'start', era: era ?? 'dual' });
// Does not run when a signal ends the process, which is what makes it evidence of an orderly end.
process.on('exit', (code) => log({ event: 'exit', code }));

const onerror = (error) => console.error(`server-v2: ${error.message}`);

if (http !== undefined) {
    await hostV2(build, Number(http), { era, onerror });
} else if (era === 'legacy') {
    // Connected by hand, an instance knows the handshake only: the SDK's way to stay in the older revisions.
    await build().connect(new StdioServerTransport());
} else if (era === 'modern' || era === undefined) {
    serveStdio(build, { legacy: era === 'modern' ? 'reject' : 'serve', onerror });
} else {
    console.error(`server-v2: --era must be modern or legacy, not ${era}`);
    process.exit(2);
}
