// Uses everything that `mcp-probe serve --everything` offers, as the steps of a JSON file say.
//
// One line is reported per kind of request, with how many of them there were, and one for each step that fails.
import { readFileSync } from 'node:fs';

/**
 * Whether a value has all that is wanted of it: objects may have more members, a text may go on where `*` stands.
 */
const fits = (value, wanted) => {
    if (typeof wanted === 'string' && wanted.endsWith('*')) {
        const beginning = wanted.slice(0, -1);
        return typeof value === 'string' && value.startsWith(beginning) && value.length > beginning.length;
    }
    if (wanted === null || typeof wanted !== 'object') return value === wanted;
    if (value === null || typeof value !== 'object' || Array.isArray(value) !== Array.isArray(wanted)) return false;
    if (Array.isArray(wanted)) {
        return value.length === wanted.length && wanted.every((each, index) => fits(value[index], each));
    }
    return Object.entries(wanted).every(([name, each]) => name in value && fits(value[name], each));
};

/** The newer SDK makes one of the two codes that say that there is no such resource. */
const refusedWith = (error, code, uri) =>
    error?.code === code || (code === -32002 && error?.code === -32602 && error.data?.uri === uri);

const LISTS = {
    tools: { method: 'listTools', member: 'tools', id: 'name' },
    resources: { method: 'listResources', member: 'resources', id: 'uri' },
    templates: { method: 'listResourceTemplates', member: 'resourceTemplates', id: 'uriTemplate' },
    prompts: { method: 'listPrompts', member: 'prompts', id: 'name' },
};

/**
 * @param client   connected
 * @param call     `tools/call` with its parameters and options
 * @param options  for every request
 * @param era      'modern' or 'legacy'
 * @param file     the steps
 * @param report   takes a name and details
 * @param latest   progress of the latest call, as it was on the wire
 * @returns whether all was well
 */
export const useEverything = async ({ client, call, options, era, file, report, latest }) => {
    const counts = {};
    const used = new Set();
    let good = true;
    const count = (kind) => (counts[kind] = (counts[kind] ?? 0) + 1);
    const fail = (step, error) => {
        good = false;
        report('everything', { ok: false, at: step, error });
    };

    // Page by page, since these SDKs differ in whether they do it themselves.
    const list = async (of) => {
        const { method, member, id } = LISTS[of];
        const entries = [];
        let cursor;
        let pages = 0;
        do {
            // Kept lists would hide that notes come and go, and be read back without a cursor.
            const page = await client[method]({ cursor }, { ...options, cacheMode: 'refresh' });
            entries.push(...page[member]);
            cursor = page.nextCursor;
            pages += 1;
        } while (cursor !== undefined && pages < 100);
        const ids = new Set(entries.map((entry) => entry[id]));
        if (ids.size !== entries.length) throw new Error(`entries of ${of} stand twice`);
        return entries;
    };

    const ask = async (step) => {
        const given = step.arguments === undefined ? {} : { arguments: step.arguments };
        if (step.tool !== undefined) {
            used.add(`tools ${step.tool}`);
            return call({ name: step.tool, ...given }, { ...options, onprogress: () => {} });
        }
        if (step.read !== undefined) return client.readResource({ uri: step.read }, options);
        if (step.prompt !== undefined) {
            used.add(`prompts ${step.prompt}`);
            return client.getPrompt({ name: step.prompt, ...given }, options);
        }
        const { prompt, template } = step.complete;
        const ref = prompt === undefined ? { type: 'ref/resource', uri: template } : { type: 'ref/prompt', name: prompt };
        const context = step.context === undefined ? {} : { context: { arguments: step.context } };
        const argument = { name: step.argument, value: step.value };
        return client.complete({ ref, argument, ...context }, options);
    };

    const perform = async (step) => {
        const kind = ['list', 'tool', 'read', 'prompt', 'complete'].find((kind) => kind in step);
        count(kind);
        if (kind === 'list') {
            const entries = await list(step.list);
            const found = entries.some((entry) => fits(entry, step.has ?? step.lacks));
            if (found !== (step.has !== undefined)) throw new Error(`the list is ${JSON.stringify(entries)}`);
            return;
        }
        const outcome = await ask(step).then(
            (result) => ({ result }),
            (error) => ({ error }),
        );
        if (step.error !== undefined) {
            if (!refusedWith(outcome.error, step.error[era], step.read)) {
                throw new Error(`not refused with ${step.error[era]}: ${outcome.error ?? JSON.stringify(outcome.result)}`);
            }
        } else if (outcome.error !== undefined) {
            throw outcome.error;
        } else if (!fits(outcome.result, step.result)) {
            throw new Error(`the result is ${JSON.stringify(outcome.result)}`);
        }
        if (step.progress !== undefined) {
            const wanted = step.progress.map(([progress]) => progress);
            if (!fits(latest(), wanted)) throw new Error(`progress was ${latest()}`);
        }
    };

    for (const step of JSON.parse(readFileSync(file, 'utf8'))) {
        await perform(step).catch((error) => fail(step, String(error?.message ?? error)));
    }

    // What is offered and was not tried; resources can at least be read.
    const rest = async () => {
        for (const of of ['tools', 'prompts']) {
            for (const { name } of await list(of)) {
                if (!used.has(`${of} ${name}`)) fail({ [of]: name }, 'is not tried');
            }
        }
        for (const { uri, mimeType } of await list('resources')) {
            count('read');
            const { contents } = await client.readResource({ uri }, options);
            if (!fits(contents, [{ uri, mimeType }])) fail({ read: uri }, `the result is ${JSON.stringify(contents)}`);
        }
    };
    await rest().catch((error) => fail('the rest', String(error?.message ?? error)));
    if (good) report('everything', { ok: true, counts });
    return good;
};
