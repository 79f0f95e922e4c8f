// Uses the page as a reader does, in headless Chromium. With a folder as third argument it leaves pictures there.
import assert from "node:assert/strict";
import { pathToFileURL } from "node:url";
import { Browser } from "../../../tests/site/browser.mjs";

const [page, chromium, pictures] = process.argv.slice(2);
const browser = new Browser(chromium);

/// Waits until an expression holds in the page.
async function until(expression) {
    try {
        await browser.until(expression);
    } catch (error) {
        assert.fail(`${error.message}; message: ${await browser.evaluate("byId('message').textContent")}`);
    }
}

async function open(fragment) {
    await browser.go("about:blank");
    await browser.go(`${pathToFileURL(page)}#${fragment}`);
    await until("document.documentElement.dataset.ready");
}

const click = (id) => browser.evaluate(`byId("${id}").click()`);
const at = () => browser.evaluate("at");
const address = () => browser.evaluate("location.hash");
/// What a reader sees of the world: rows, states and invariants.
const seen = () => browser.evaluate(`[...document.querySelectorAll("#rows li:not([hidden]) button, #states div, #invariants li")]
    .map(element => element.getAttribute("aria-label") ?? element.innerText).join("\\n")`);
async function fits(what) {
    const [content, window] = await browser.evaluate("[document.documentElement.scrollWidth, innerWidth]");
    assert.ok(content <= window, `${what}: ${content} of ${window} px`);
    const wide = await browser.evaluate(`[...document.querySelectorAll("body *:not(#rows *, pre, summary *)")]
        .filter(element => element.getBoundingClientRect().right > innerWidth || element.getBoundingClientRect().left < 0)
        .map(element => element.outerHTML.slice(0, 100))`);
    assert.deepEqual(wide, [], what);
}
const picture = async (name) => pictures && browser.picture(`${pictures}/${name}.png`);

try {
    await browser.open();
    await browser.send("Page.addScriptToEvaluateOnNewDocument", {
        source: `window.failures = [];
            addEventListener("error", event => failures.push(event.message));
            addEventListener("unhandledrejection", event => failures.push(String(event.reason)));
            console.error = console.warn = (...texts) => failures.push(texts.join(" "));`,
    });
    const unbroken = async () => assert.deepEqual(await browser.evaluate("failures"), []);

    // A page at each width has no line that is wider than it, whatever is open.
    for (const width of [360, 800, 1280]) {
        await browser.resize(width, 800);
        for (const fragment of ["", "seed=2&faults=all&clients=4&steps=300&at=200", "planted=1&reduced=1&client=legacy", "binding=http&seed=2&faults=all&clients=2&steps=400&at=150", "binding=http-sse&seed=2&faults=all,http1&clients=2&steps=400&at=150", "binding=http&seed=2&faults=all,events&clients=2&steps=400&at=150"]) {
            await open(fragment);
            // The newest row is in sight, above the buttons.
            const [rows, buttons] = await browser.evaluate(`["#scroll", "nav"].map(one => document.querySelector(one).getBoundingClientRect())
                .map((place, n) => n ? place.top : place.bottom)`);
            assert.ok(rows <= buttons, `${fragment} at ${width} px: ${rows} px`);
            await browser.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })");
            await browser.evaluate("document.querySelector('#rows .sent:not([hidden]) button')?.click()");
            await fits(`#${fragment} at ${width} px`);
            await unbroken();
        }
    }

    // Steps forth and back.
    await browser.resize(360, 800);
    await open("seed=5&faults=all&clients=2");
    assert.equal(await at(), 0);
    const steps = [];
    for (let n = 0; n < 20; n++) {
        steps.push([await at(), await seen()]);
        await click("step");
        assert.notEqual(await seen(), steps.at(-1)[1]);
        assert.match(await address(), new RegExp(`&at=${await at()}$`));
    }
    // Some steps show nothing, and are left out.
    assert.ok(await at() > 20);
    for (const step of steps.reverse()) {
        await click("back");
        assert.deepEqual([await at(), await seen()], step);
    }
    await picture("begin");

    // A run comes to its end, as a jump does.
    await browser.evaluate("controls.speed.value = 60; controls.speed.dispatchEvent(new Event('change', { bubbles: true }))");
    await click("run");
    await until("at === frames.length - 1 && timer === undefined");
    const end = await seen();
    assert.equal(await browser.evaluate("document.querySelectorAll('#rows li:not([hidden])').length === rows.length"), true);
    await click("back");
    assert.notEqual(await seen(), end);
    await click("end");
    assert.equal(await seen(), end);
    await picture("end");

    // The address of a step shows the same, opened anew.
    await browser.evaluate("go(Math.floor(frames.length / 2))");
    const [middle, link] = [await seen(), await address()];
    await open(link.slice(1));
    assert.equal(await seen(), middle);
    assert.equal(await address(), link);
    // So does one that is followed from within the page.
    await browser.evaluate("location.hash = '#seed=6'");
    await until("controls.seed.value === '6'");
    assert.notEqual(await seen(), middle);

    // A control changes the world and the address.
    await browser.evaluate("controls.clients.value = '3'; controls.clients.dispatchEvent(new Event('change', { bubbles: true }))");
    assert.match(await address(), /seed=6&binding=stdio&clients=3/);
    assert.match(await browser.evaluate("byId('rows').innerText"), /process starts/);
    assert.equal(await browser.evaluate("frames[0].states.size"), 6);
    await browser.evaluate("controls.show.value = '2'; controls.show.dispatchEvent(new Event('change', { bubbles: true }))");
    assert.match(await address(), /&show=2&/);
    assert.equal(await browser.evaluate("rows.every(row => row.side === 'world' || row.n === 2)"), true);

    // Over HTTP there are exchanges, whose arrows begin and end at both sides.
    await open("seed=6");
    await browser.evaluate("controls.binding.value = 'http'; controls.binding.dispatchEvent(new Event('change', { bubbles: true }))");
    assert.match(await address(), /seed=6&binding=http&/);
    await click("end");
    for (const kind of ["requested", "responded", "finished"]) {
        assert.ok(await browser.evaluate(`document.querySelectorAll("#rows .${kind}:not([hidden]) use[href='#${kind}']").length`) > 1, kind);
    }
    const [messages, arrows] = await browser.evaluate("[rows.filter(row => row.kind === 'sent').length, document.querySelectorAll('#rows line[marker-end]').length]");
    assert.ok(messages > 10);
    assert.equal(arrows, messages);
    assert.match(await browser.evaluate("byId('summary').textContent"), /seed 6, http, /);

    // Events have signs of their own, on each binding.
    for (const binding of ["stdio", "http", "http-sse"]) {
        await open(`seed=3&binding=${binding}&faults=events&clients=2&steps=300`);
        await click("end");
        for (const kind of ["published", "handed-out", "posted"]) {
            assert.ok(await browser.evaluate(`document.querySelectorAll("#rows .${kind}:not([hidden]) use[href='#${kind}']").length`) > 1, `${kind} over ${binding}`);
        }
        await browser.evaluate("document.querySelector('#rows .posted button').click()");
        assert.match(await browser.evaluate("byId('json').textContent"), /webhook-signature/i);
        await picture(`events-${binding}`);
    }
    // HTTP+SSE names the URL for messages on its stream.
    await open("seed=6&binding=http-sse&client=legacy");
    await click("end");
    assert.match(await browser.evaluate("byId('rows').innerText"), /names the URL for messages/);
    await picture("http-sse");

    // A message is shown in full.
    await open("seed=1&at=91");
    await browser.evaluate("document.querySelector('#rows .sent button').click()");
    assert.equal(await browser.evaluate("JSON.parse(byId('json').textContent).method"), "server/discover");
    await picture("message");

    // Whatever stands in an address: a message, and no failure.
    for (const fragment of ["at=99999999999999999999&speed=-4&show=9", "seed=%00%ff&clients=1e9", "faults=<b>x</b>", "&&&=&at=&show=&speed=&=" + "é".repeat(5_000)]) {
        await open(fragment);
        assert.ok(await browser.evaluate("byId('warnings').children.length > 0 && byId('warnings').querySelector('b') === null"), fragment);
        await fits(`#${fragment.slice(0, 40)}`);
        await unbroken();
    }

    // The button and `all` in an address choose the same faults, and the summary names them.
    await open("seed=1");
    await click("storm");
    const faults = await browser.evaluate("world.settings.faults");
    await open("seed=1&faults=all");
    assert.deepEqual(await browser.evaluate("world.settings.faults"), faults);
    assert.match(await browser.evaluate("byId('summary').textContent"), /, all faults$/);
    await open("seed=2&binding=http&faults=all,events&clients=2&steps=300");
    assert.match(await browser.evaluate("byId('summary').textContent"), /, all faults, events$/);
    await click("end");
    assert.ok(await browser.evaluate("document.querySelectorAll(\"#rows .gap:not([hidden]) use[href='#gap']\").length") > 0);

    // A search finds nothing in a sound world until it is stopped, and the planted bug otherwise.
    await open("seed=1&faults=all");
    await click("search");
    await until("/Seeds 1 to [0-9]+: no failure/.test(byId('message').textContent)");
    await click("search");
    assert.equal(await browser.evaluate("byId('message').textContent"), "The search was stopped.");
    await open("seed=1&planted=1");
    await click("search");
    await until("!byId('test').hidden");
    assert.match(await browser.evaluate("byId('message').textContent"), /violates result_reaches_its_call/);
    assert.match(await address(), /planted=1&reduced=1/);
    assert.equal(await browser.evaluate("document.querySelectorAll('#rows .wrong:not([hidden])').length"), 1);
    assert.equal(await browser.evaluate("document.querySelectorAll('#invariants .violated').length"), 1);
    const found = await at();
    // From the whole run a button leads there, too.
    const reduced = [await address(), await seen()];
    await browser.evaluate("controls.reduced.checked = false; controls.reduced.dispatchEvent(new Event('change', { bubbles: true }))");
    assert.equal(await browser.evaluate("byId('test').hidden"), true);
    await browser.evaluate("[...document.querySelectorAll('#invariants button')].find(one => one.textContent.startsWith('Reduce')).click()");
    assert.deepEqual([await address(), await seen()], reduced);
    await browser.evaluate("go(0)");
    await browser.evaluate("document.querySelector('#invariants button').click()");
    assert.equal(await at(), found);
    await browser.evaluate("navigator.clipboard.writeText = async text => { window.copied = text }");
    await click("copy");
    assert.equal(await browser.evaluate("copied"), await browser.evaluate("location.href"));
    await click("copy-test");
    assert.match(await browser.evaluate("copied"), /#\[test\]\nfn world_of_seed_/);
    await unbroken();
    await picture("found");
    for (const value of ["dark", "light"]) {
        await browser.send("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value }] });
        await browser.resize(1280, 900);
        await open("seed=9&faults=all&clients=2&at=60");
        await picture(value);
        for (const [width, clients] of [[360, 1], [1280, 2]]) {
            await browser.resize(width, 900);
            await open(`binding=http&seed=9&client=legacy&faults=all&clients=${clients}&steps=400&at=195`);
            await picture(`http-${value}-${width}`);
            await open(`binding=http&seed=2&faults=all,events&clients=${clients}&steps=400&at=150`);
            await picture(`events-${value}-${width}`);
        }
    }
} finally {
    await browser.close();
}
