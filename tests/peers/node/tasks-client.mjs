// A client of tasks (2025-11-25) on the first generation of the official TypeScript SDK.
//
//   node tasks-client.mjs -- SERVER [ARGS…]
//   node tasks-client.mjs -- URL
//
// The server is `mcp-probe serve --everything`. One JSON line per step goes to stdout, as in steps.mjs. The client also hosts
// tasks for the questions of the server, in the task store of the SDK.
import { setTimeout as delay } from 'node:timers/promises';
import { InMemoryTaskStore } from '@modelcontextprotocol/sdk/experimental/tasks/stores/in-memory.js';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { CallToolResultSchema, ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { transportTo } from './http.mjs';
import { parseArgs } from './steps.mjs';

const TIMEOUT = { timeout: 20_000, maxTotalTimeout: 40_000 };

const args = parseArgs();
const client = new Client(
    { name: 'peer-tasks-client', version: '1.32.2' },
    {
        capabilities: {
            elicitation: { form: {} },
            tasks: { list: {}, cancel: {}, requests: { elicitation: { create: {} } } },
        },
        // Without a message queue: that is for the questions of a task.
        taskStore: new InMemoryTaskStore(),
        defaultTaskPollInterval: 50,
    },
);
const asked = [];
client.setRequestHandler(ElicitRequestSchema, async (request, extra) => {
    asked.push(request.params);
    const { properties } = request.params.requestedSchema;
    const content = {};
    for (const [name, schema] of Object.entries(properties)) {
        content[name] = schema.type === 'boolean' ? true : 'Alice';
    }
    const answer = { action: 'accept', content };
    if (request.params.task === undefined) return answer;
    const task = await extra.taskStore.createTask({ ttl: extra.taskRequestedTtl, pollInterval: 50 });
    delay(200)
        .then(() => extra.taskStore.storeTaskResult(task.taskId, 'completed', answer))
        .catch((error) => console.error(error));
    return { task };
});

const assert = (condition, message) => {
    if (!condition) throw new Error(message);
};

/** Calls a tool as a task, and returns the statuses and the end. */
const stream = async (name, args, task = {}) => {
    const seen = { statuses: [] };
    const params = { name, arguments: args };
    for await (const message of client.experimental.tasks.callToolStream(params, CallToolResultSchema, { ...TIMEOUT, task })) {
        if (message.type === 'taskCreated') seen.task = message.task;
        else if (message.type === 'taskStatus') seen.statuses.push(message.task.status);
        else if (message.type === 'result') seen.result = message.result;
        else if (message.type === 'error') seen.error = { code: message.error.code, message: message.error.message };
    }
    return seen;
};

let failed = false;
const step = async (name, work) => {
    try {
        console.log(JSON.stringify({ step: name, ok: true, ...(await work()) }));
    } catch (error) {
        failed = true;
        console.log(JSON.stringify({ step: name, ok: false, error: String(error?.message ?? error), code: error?.code }));
    }
};
const refused = async (work) => {
    try {
        await work();
    } catch (error) {
        return error.code;
    }
    throw new Error('not refused');
};

await client.connect(await transportTo('1', args.server, args));
const { tasks } = client.experimental;

/** Methods of the requests and notifications of the server. */
const received = [];
const { transport } = client;
const { onmessage } = transport;
transport.onmessage = (message, extra) => {
    if (message.method) received.push(message.method);
    onmessage.call(transport, message, extra);
};

await step('negotiate', async () => {
    const { tasks } = client.getServerCapabilities();
    assert(tasks?.requests?.tools?.call && tasks.cancel, `no tasks in ${JSON.stringify(client.getServerCapabilities())}`);
    return { tasks };
});

await step('support', async () => {
    const { tools } = await client.listTools();
    const support = {};
    for (const tool of tools) if (tool.execution?.taskSupport) support[tool.name] = tool.execution.taskSupport;
    return { support };
});

await step('complete', async () => {
    const { task, statuses, result } = await stream('slow_compute', { seconds: 1, label: 'interop' }, { ttl: 60_000 });
    assert(task.status === 'working' && task.ttl === 60_000, JSON.stringify(task));
    assert(statuses.at(-1) === 'completed' && statuses.includes('working'), statuses.join());
    assert(result._meta['io.modelcontextprotocol/related-task'].taskId === task.taskId, JSON.stringify(result));
    assert(result.content[0].text.includes('interop'), JSON.stringify(result));
    // The result can be fetched again.
    const again = await tasks.getTaskResult(task.taskId, CallToolResultSchema, TIMEOUT);
    assert(JSON.stringify(again) === JSON.stringify(result), JSON.stringify(again));
    return {};
});

await step('automatic', async () => {
    // After `support` the SDK knows which tools it has to call as tasks.
    const seen = [];
    for await (const { type } of tasks.callToolStream({ name: 'failing_job', arguments: {} }, CallToolResultSchema, TIMEOUT)) {
        seen.push(type);
    }
    assert(seen[0] === 'taskCreated' && seen.at(-1) === 'error', seen.join());
    return {};
});

await step('failed', async () => {
    // A failure of the tool is a failed task in this revision (TASK-032), and its result says why.
    const { task, statuses } = await stream('failing_job', {});
    assert(statuses.at(-1) === 'failed', statuses.join());
    const result = await tasks.getTaskResult(task.taskId, CallToolResultSchema, TIMEOUT);
    assert(result.isError === true, JSON.stringify(result));
    return { text: result.content[0].text };
});

await step('error', async () => {
    const { task, statuses } = await stream('protocol_error_job', {});
    assert(statuses.at(-1) === 'failed', statuses.join());
    return { code: await refused(() => tasks.getTaskResult(task.taskId, CallToolResultSchema, TIMEOUT)) };
});

await step('input', async () => {
    asked.length = 0;
    const { task, statuses, result } = await stream('confirm_delete', { filename: 'a.txt' });
    assert(asked.length === 1, JSON.stringify(asked));
    assert(statuses.includes('input_required'), statuses.join());
    assert(asked[0]._meta['io.modelcontextprotocol/related-task'].taskId === task.taskId, JSON.stringify(asked));
    return { text: result.content[0].text };
});

await step('two-inputs', async () => {
    asked.length = 0;
    const { result } = await stream('multi_input', {});
    assert(asked.length === 2, JSON.stringify(asked));
    return { text: result.content[0].text };
});

await step('hosted', async () => {
    asked.length = received.length = 0;
    const result = await client.callTool({ name: 'ask_as_task', arguments: {} }, CallToolResultSchema, TIMEOUT);
    assert(asked.length === 1 && asked[0].task !== undefined, JSON.stringify(asked));
    return { text: result.content[0].text, received };
});

await step('cancel', async () => {
    const created = stream('slow_compute', { seconds: 60, label: 'long' });
    // The task is created at once; the stream ends when it sees the cancellation.
    await delay(300);
    const { tasks: all } = await tasks.listTasks(undefined, TIMEOUT).catch(() => ({ tasks: undefined }));
    if (all === undefined) return { cannot: 'the server lists no tasks' };
    const running = all.filter((task) => task.status === 'working');
    assert(running.length === 1, JSON.stringify(all));
    const cancelled = await tasks.cancelTask(running[0].taskId, TIMEOUT);
    assert(cancelled.status === 'cancelled', JSON.stringify(cancelled));
    const { error } = await created;
    assert(error !== undefined, 'the stream ends with an error');
    return { again: await refused(() => tasks.cancelTask(running[0].taskId, TIMEOUT)) };
});

await step('refused', async () => ({
    plain: await refused(() => client.request({ method: 'tools/call', params: { name: 'failing_job', arguments: {} } }, CallToolResultSchema)),
    forbidden: (await stream('greet', { name: 'x' })).error.code,
    unknown: await refused(() => tasks.getTask('AAAAAAAAAAAAAAAAAAAAAA', TIMEOUT)),
}));

await client.close();
console.log(JSON.stringify({ step: 'end', ok: true }));
process.exit(failed ? 1 : 0);
