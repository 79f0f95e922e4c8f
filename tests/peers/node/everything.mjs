// Uses everything that `mcp-probe serve --everything` offers, by the steps of a JSON file.
//
// Reports one line per kind of request, with their number, and one line per failed step.
import { readFileSync } from 'node:fs';

/**
 * Returns whether a value has all wanted members. Objects may have more; a text ending in `*` matches by prefix.
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

/** The newer SDK merges the two error codes for an unknown resource. */
const refusedWith = (error, code, uri) =>
    error?.code === code || (code === -32002 && error?.code === -32602 && error.data?.uri === uri);

const LISTS = {
    tools: { method: 'listTools', member: 'tools', id: 'name' },
    resources: { method: 'listResources', member: 'resources', id: 'uri' },
    templates: { method: 'listResourceTemplates', member: 'resourceTemplates', id: 'uriTemplate' },
    prompts: { method: 'listPrompts', member: 'prompts', id: 'name' },
};

/**
 * @param client   connected client
 * @param call     function that makes `tools/call` with parameters and options
 * @param options  options of every request
 * @param era      'modern' or 'legacy'
 * @param file     file of the steps
 * @param report   function that takes a name and details
 * @param latest   function that returns the progress messages of the latest call
 * @returns whether all steps succeeded
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

    // Page by page, because only one of these SDKs follows the pages itself.
    const list = async (of) => {
        const { method, member, id } = LISTS[of];
        const entries = [];
        let cursor;
        let pages = 0;
        do {
            // A cached list would hide changes of the notes, and would be returned without a cursor.
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
        if (step.leave !== undefined) {
            used.add(step.leave);
            return;
        }
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

    // Uses everything that was offered and not yet used; resources can at least be read.
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
