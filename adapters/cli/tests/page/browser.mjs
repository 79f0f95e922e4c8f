// Uses pages of traces as a reader does, in headless Chromium. With a folder as third argument it leaves pictures there.
import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { Browser } from "../../../../tests/site/browser.mjs";

const [folder, chromium, pictures] = process.argv.slice(2);
const browser = new Browser(chromium);
const ask = (expression) => browser.evaluate(expression);
const picture = async (name) => pictures && browser.picture(`${pictures}/${name}.png`);

const until = (expression) => browser.until(expression);
const count = () => ask("document.getElementById('count').textContent");
const key = (name) => ask(`document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: "${name}", bubbles: true, cancelable: true }))`);
const set = (id, value) => ask(`(() => { const one = document.getElementById("${id}"); one.value = ${JSON.stringify(value)};
    one.dispatchEvent(new Event("${id === "text" ? "input" : "change"}", { bubbles: true })) })()`);
const sides = () => ask("[...new Set([...document.querySelectorAll('#rows .row')].map(row => row.classList.contains('c') ? 'c' : 's'))].sort().join()");

async function open(name) {
    await browser.go("about:blank");
    await browser.go(pathToFileURL(`${folder}/${name}.html`).href);
    await until("document.getElementById('count').textContent");
}

try {
    await browser.open();
    await browser.send("Page.addScriptToEvaluateOnNewDocument", {
        source: `window.failures = [];
            window.hit = what => failures.push("the trace has run a script: " + what);
            addEventListener("error", event => failures.push(event.message ?? "a part was not loaded"), true);
            addEventListener("securitypolicyviolation", event => failures.push(event.violatedDirective + " " + event.blockedURI));`,
    });
    const names = readdirSync(folder).filter((name) => name.endsWith(".html")).map((name) => name.slice(0, -5));
    assert.ok(names.length >= 8, names.join());
    for (const name of names) {
        for (const width of [360, 800, 1280]) {
            await browser.resize(width, 800);
            await open(name);
            assert.ok((await ask("document.querySelectorAll('#rows .row').length")) > 3, name);
            assert.equal(await sides(), "c,s", name);
            await ask("document.querySelector('#rows .row').click()");
            const [content, window] = await ask("[document.documentElement.scrollWidth, innerWidth]");
            assert.ok(content <= window, `${name} at ${width} px: ${content} of ${window} px`);
            assert.deepEqual(await ask("failures"), [], `${name} at ${width} px`);
            await picture(`${name}-${width}`);
        }
    }

    // Filters, alone and together, say how much they leave.
    await open("python-legacy");
    const all = Number.parseInt(await count(), 10);
    await set("side", "c");
    assert.equal(await sides(), "c");
    const [ofClient] = (await count()).match(/^\d+(?= of )/);
    await set("side", "s");
    assert.equal(Number(ofClient) + Number.parseInt(await count(), 10), all);
    await set("side", "");
    await set("method", "tools/call");
    assert.ok(await ask("[...document.querySelectorAll('#rows .name')].every(name => name.textContent.startsWith('tools/call'))"));
    await set("text", "no such text");
    await until("document.querySelector('#rows .none')");
    await set("text", "");
    await set("method", "");
    await until("document.getElementById('count').textContent.indexOf(' of ') < 0");

    // The keys lead from a request to its response and back.
    await ask("document.getElementById('list').focus()");
    // What is selected last does not fit the filter, so the first that does comes next.
    await key("End");
    await set("method", "initialize");
    await ask("document.getElementById('list').focus()");
    await key("ArrowDown");
    await key("Enter");
    assert.equal(await ask("JSON.parse(document.getElementById('message').textContent).method"), "initialize");
    await key("r");
    assert.ok(await ask("JSON.parse(document.getElementById('message').textContent).result.protocolVersion"));
    await key("r");
    assert.equal(await ask("JSON.parse(document.getElementById('message').textContent).method"), "initialize");
    await key("Escape");
    assert.equal(await ask("document.getElementById('details').hidden"), true);

    // Hostile text is text.
    await open("hostile");
    for (const row of await ask("[...document.querySelectorAll('#rows .row')].map(row => row.id)")) {
        await ask(`document.getElementById("${row}").click()`);
        assert.match(await ask("document.getElementById('what').textContent"), /tools\/call|stderr|no message/);
        assert.equal(await ask("document.querySelectorAll(':is(#rows, #details, header) :is(script, img, svg, iframe, b)').length"), 0);
    }
    await ask("document.getElementById('errors').click()");
    assert.match(await count(), /^3 of 4 rows$/);
    await new Promise((resolve) => setTimeout(resolve, 100));
    assert.deepEqual(await ask("failures"), []);
} finally {
    await browser.close();
}
