// A server of tasks (2025-11-25) on the first generation of the official TypeScript SDK.
//
//   node tasks-server.mjs [--http PORT]
//
// `dredge` runs as a task, waits, asks for a basin and ends. `endless` must run as a task and ends when it is cancelled.
// `plain` never runs as a task.
import { setTimeout as delay } from 'node:timers/promises';
import { InMemoryTaskMessageQueue, InMemoryTaskStore } from '@modelcontextprotocol/sdk/experimental/tasks/stores/in-memory.js';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { ElicitResultSchema } from '@modelcontextprotocol/sdk/types.js';
import { z } from 'zod';
import { hostV1 } from './http.mjs';

const taskStore = new InMemoryTaskStore();
const taskMessageQueue = new InMemoryTaskMessageQueue();

const requestedSchema = { type: 'object', properties: { basin: { type: 'string' } }, required: ['basin'] };

/** Does the work of `dredge` in the background. */
const dredge = async (depth, taskId, { taskStore: store, sendRequest }) => {
    await delay(100);
    await store.updateTaskStatus(taskId, 'input_required', 'waits for a basin');
    const params = { mode: 'form', message: 'Which basin?', requestedSchema };
    const ask = { method: 'elicitation/create', params };
    const answer = await sendRequest(ask, ElicitResultSchema, { relatedTask: { taskId } });
    await store.updateTaskStatus(taskId, 'working', 'dredges');
    await delay(100);
    const text = `dredged ${answer.content?.basin ?? answer.action} to ${depth} m`;
    await store.storeTaskResult(taskId, 'completed', { content: [{ type: 'text', text }] });
};

/** Returns the handler of a tool whose task does `work`. */
const handler = (work) => ({
    createTask: async (args, extra) => {
        const task = await extra.taskStore.createTask({ ttl: 60_000, pollInterval: 100 });
        work(args.depth, task.taskId, extra).catch((error) => console.error(error));
        return { task };
    },
    getTask: (args, extra) => extra.taskStore.getTask(extra.taskId),
    getTaskResult: (args, extra) => extra.taskStore.getTaskResult(extra.taskId),
});

const build = () => {
    const tasks = { list: {}, cancel: {}, requests: { tools: { call: {} } } };
    const server = new McpServer(
        { name: 'peer-tasks-server', version: '1.32.2' },
        { capabilities: { tasks }, taskStore, taskMessageQueue },
    );
    const inputSchema = { depth: z.number() };
    const register = (name, taskSupport, work) =>
        server.experimental.tasks.registerToolTask(name, { inputSchema, execution: { taskSupport } }, handler(work));
    register('dredge', 'required', dredge);
    register('endless', 'required', async () => {});
    server.registerTool('plain', { inputSchema }, ({ depth }) => ({ content: [{ type: 'text', text: `${depth} m` }] }));
    return server;
};

const at = process.argv.indexOf('--http');
if (at > 0) {
    await hostV1(build, Number(process.argv[at + 1]));
} else {
    const transport = new StdioServerTransport();
    process.stdin.on('end', () => process.exit(0));
    await build().connect(transport);
}
