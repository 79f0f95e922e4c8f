// A small server on the official TypeScript SDK, with the tools of our own demonstration server.
//
//   node server-v2.mjs [--era modern|legacy] [--log FILE] [--http PORT]
//
// Without --era it serves both eras. --log appends one JSON line per event that a client cannot see (a call that the
// SDK saw cancelled, an exit without a signal), so that a test can compare both views.
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

// Appended synchronously: a buffered line would be lost when a signal ends the process, and would look like a missing
// event.
const log = (event) => logFile && appendFileSync(logFile, `${JSON.stringify(event)}\n`);

const text = (value) => ({ content: [{ type: 'text', text: String(value) }] });

// JSON Schema instead of a schema library, so that the listed schema is exactly the one written here.
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
                    // It waits before it reports, so that a long first step is a silent call.
                    await delay(delay_ms, undefined, { signal });
                    if (progressToken !== undefined) {
                        await ctx.mcpReq.notify({
                            method: 'notifications/progress',
                            params: { progressToken, progress: step, total: to, message: `${step} of ${to}` },
                        });
                    }
                }
            } catch (error) {
                // The SDK aborts for a cancellation and for a closed pipe. Only the reason distinguishes them.
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
// Does not run when a signal ends the process, so it is evidence of an orderly exit.
process.on('exit', (code) => log({ event: 'exit', code }));

const onerror = (error) => console.error(`server-v2: ${error.message}`);

if (http !== undefined) {
    await hostV2(build, Number(http), { era, onerror });
} else if (era === 'legacy') {
    // A directly connected instance supports only the handshake: this is how the SDK stays in the legacy revisions.
    await build().connect(new StdioServerTransport());
} else if (era === 'modern' || era === undefined) {
    serveStdio(build, { legacy: era === 'modern' ? 'reject' : 'serve', onerror });
} else {
    console.error(`server-v2: --era must be modern or legacy, not ${era}`);
    process.exit(2);
}
