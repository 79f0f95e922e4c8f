// A host of apps on the official SDK: it shows a page of a server in `App`, behind `AppBridge`.
//
//   node host.mjs TOOL APP_TOOL -- SERVER [ARGS…]
//
// TOOL has the page, APP_TOOL is called by the page. One JSON object is printed.
import { Client, InMemoryTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { App } from '@modelcontextprotocol/ext-apps';
import {
    AppBridge,
    RESOURCE_MIME_TYPE,
    buildAllowAttribute,
    getToolUiResourceUri,
    isToolVisibilityAppOnly,
} from '@modelcontextprotocol/ext-apps/app-bridge';

const [tool, appTool, dashes, command, ...args] = process.argv.slice(2);
if (dashes !== '--') throw new Error('usage: host.mjs TOOL APP_TOOL -- SERVER [ARGS…]');

const ui = { mimeTypes: [RESOURCE_MIME_TYPE] };
const client = new Client(
    { name: 'peer-host', version: '2.0.4' },
    { capabilities: { extensions: { 'io.modelcontextprotocol/ui': ui } }, versionNegotiation: { mode: 'auto' } },
);
await client.connect(new StdioClientTransport({ command, args, stderr: 'inherit' }));

const { tools } = await client.listTools();
const named = (name) => tools.find((entry) => entry.name === name);
const uri = getToolUiResourceUri(named(tool));
const { contents } = await client.readResource({ uri });
const meta = contents[0]._meta?.ui;

// The page and its host, each with the library that the SDK has for it.
const bridge = new AppBridge(client, { name: 'peer-host', version: '2.0.4' }, { serverTools: {}, serverResources: {} });
const [hostSide, pageSide] = InMemoryTransport.createLinkedPair();
const initialized = new Promise((resolve) => (bridge.oninitialized = resolve));
await bridge.connect(hostSide);
const page = new App({ name: 'page', version: '1.0.0' }, {}, { autoResize: false });
const shown = new Promise((resolve) => (page.ontoolresult = resolve));
await page.connect(pageSide);
await initialized;

const result = await client.callTool({ name: tool, arguments: {} });
await bridge.sendToolInput({ arguments: {} });
await bridge.sendToolResult(result);
const called = await page.callServerTool({ name: appTool, arguments: {} });
const own = await page.readServerResource({ uri });

console.log(
    JSON.stringify({
        server: client.getServerCapabilities().extensions,
        uri,
        mimeType: contents[0].mimeType,
        html: contents[0].text.slice(0, 15),
        meta,
        allow: buildAllowAttribute(meta?.permissions),
        appOnly: tools.filter(isToolVisibilityAppOnly).map((entry) => entry.name),
        shown: (await shown).content[0].text,
        called: called.content[0].text,
        samePage: own.contents[0].text === contents[0].text,
    }),
);
await client.close();
