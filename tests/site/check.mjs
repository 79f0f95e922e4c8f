// Looks at the documentation in a browser. See `run`.

import { existsSync, mkdirSync, readFileSync, readdirSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { parseArgs } from 'node:util'
import { Browser } from './browser.mjs'

const WIDTHS = [375, 820, 1440]
const HERE = dirname(fileURLToPath(import.meta.url))
const ROOT = resolve(HERE, '../..')
/// Numbered features of `tests/features.tsv`.
const FEATURES = 48
/// Pages that rustdoc makes of items of other projects, and of the private items of a program.
const INLINED = /\/(tls\/rustls|schemars|sync\/struct\.Arc\.html|mcp_probe\/.*\/)/
/// Links in the documentation of other projects, which rustdoc repeats at implementations of their traits.
const FOREIGN = ['crate::Span', 'super::Subscriber']
const REPOSITORY = 'https://github.com/mcp-proto/mcp-proto/'

const { values: options } = parseArgs({
    options: {
        chromium: { type: 'string' },
        doc: { type: 'string' },
        text: { type: 'string' },
        pictures: { type: 'string' },
        only: { type: 'string' },
        'links-alone': { type: 'boolean' },
    },
})
const findings = []

function report(page, what) {
    findings.push(`${page}: ${what}`)
}

/// All HTML files below a folder.
function* html(folder) {
    for (const entry of readdirSync(folder, { withFileTypes: true })) {
        const path = join(folder, entry.name)
        if (entry.isDirectory()) yield* html(path)
        else if (entry.name.endsWith('.html')) yield path
    }
}

/// Packages with their libraries, by the manifests of the repository.
function packages() {
    const adapters = readdirSync(join(ROOT, 'adapters')).map((name) => join('adapters', name))
    const found = new Map()
    for (const folder of ['core', ...adapters]) {
        const manifest = join(ROOT, folder, 'Cargo.toml')
        if (!existsSync(manifest)) continue
        const text = readFileSync(manifest, 'utf8')
        const name = text.match(/^name = "(.*)"/m)[1]
        const library = text.match(/^\[lib\]\nname = "(.*)"/m)?.[1] ?? name.replaceAll('-', '_')
        found.set(name, library)
    }
    return found
}

const libraries = packages()
const texts = new Map()

function read(path) {
    if (!texts.has(path)) texts.set(path, existsSync(path) ? readFileSync(path, 'utf8') : undefined)
    return texts.get(path)
}

/// The names by which a forge reaches the headings of a text.
function headings(path) {
    const found = new Set()
    for (const [, heading] of read(path).replace(/^```.*?^```$/gms, '').matchAll(/^#+ +(.*?) *$/gm)) {
        const name = heading.replace(/\[([^\]]*)\]\([^)]*\)/g, '$1').toLowerCase().replace(/[^\p{L}\p{N} _-]/gu, '').replaceAll(' ', '-')
        for (let n = 0; ; n += 1) {
            const own = n === 0 ? name : `${name}-${n}`
            if (!found.has(own)) {
                found.add(own)
                break
            }
        }
    }
    return found
}

/// Returns what is wrong with a link of a page; links to other sites are not followed.
function broken(link, page) {
    const isText = page.startsWith(`${options.text}/`)
    // The links of a text lead to other texts.
    const base = pathToFileURL(isText ? join(ROOT, relative(options.text, page).replace(/html$/, 'md')) : page)
    let url
    try {
        url = new URL(link.replaceAll('&amp;', '&'), base)
    } catch {
        return 'no URL'
    }
    // The place of the own packages on docs.rs is in this site.
    const there = url.href.match(/^https:\/\/docs\.rs\/([^/#]+)(?:\/[^/]+\/([^/]+)\/([^#]*))?(?:#(.*))?$/)
    if (there && libraries.has(there[1])) {
        const [, name, library = libraries.get(name), path = '', fragment] = there
        if (library !== libraries.get(name)) return `${name} has no library ${library}`
        url = new URL(`${library}/${path}`, pathToFileURL(`${options.doc}/`))
        if (fragment) url.hash = fragment
    } else if (url.href.startsWith(REPOSITORY)) {
        const path = url.pathname.match(/^\/mcp-proto\/mcp-proto\/(?:blob|tree)\/main\/(.*)$/)?.[1]
        return path === undefined || existsSync(join(ROOT, path)) ? undefined : 'there is no such file'
    }
    // An item of a package whose documentation is not in this site: rustdoc writes its path.
    const isItem = /^[A-Za-z_][\w:]*(#.*)?$/.test(link)
    const isOwn = (name) => ['crate', 'self', 'super', 'Self', ...libraries.values()].includes(name)
    if (FOREIGN.includes(link)) return undefined
    if (isItem && !isOwn(link.split(/::|#/)[0])) return undefined
    if (isItem) return 'an item that is not in the documentation'
    if (url.protocol !== 'file:') return undefined
    let path = fileURLToPath(new URL(url.pathname, 'file:'))
    if (path.endsWith('/')) path += 'index.html'
    if (!existsSync(path)) return 'there is no such file'
    const fragment = url.hash.slice(1)
    // Methods that are hidden, in the headings of implementations.
    if (link.startsWith('#tymethod.')) return undefined
    if (fragment && path.endsWith('.md')) return headings(path).has(decodeURIComponent(fragment)) ? undefined : 'there is no such heading'
    // Lines of source are written by a script.
    if (!fragment || /\/src\//.test(relative(options.doc, path).padStart(1, '/')) || !path.endsWith('.html')) return undefined
    if (/^\d+(-\d+)?$/.test(fragment)) return undefined
    // The place of an item in the modules that are private: the page leads to the public one, with the fragment.
    const onward = read(path).match(/http-equiv="refresh" content="0;URL=([^"]*)"/)?.[1]
    if (onward) return broken(`${onward}#${fragment}`, path)
    const hasPlace = [fragment, decodeURIComponent(fragment)].some((id) => read(path).includes(`id="${id}"`))
    return hasPlace ? undefined : 'there is no such place'
}

/// Checks all links of the site, without a browser.
function checkLinks() {
    const published = [...libraries.values()].map((library) => join(options.doc, library))
    let count = 0
    for (const folder of [...published, options.text].filter((folder) => existsSync(folder))) {
        for (const page of html(folder)) {
            if (INLINED.test(page)) continue
            const known = new Set()
            // Links with a class, and those of the side bar, are made by rustdoc. It also makes them to what is hidden.
            const content = read(page).replace(/<nav class="sidebar">.*?<\/nav>/s, '')
            for (const [, link] of content.matchAll(/<a href="([^"]*)"(?! class=)/g)) {
                if (known.has(link)) continue
                known.add(link)
                count += 1
                const wrong = broken(link, page)
                if (wrong) report(relative(options.doc, page), `${link}: ${wrong}`)
            }
        }
    }
    console.log(`${count} links`)
    if (count < 1000) report('site', 'hardly any link was found')
}

/// Pages that people read from top to bottom: the guide, the packages, and the texts of the repository.
function reading() {
    const pages = []
    for (const library of libraries.values()) {
        const folder = join(options.doc, library)
        if (!existsSync(folder)) {
            report(library, 'has no documentation')
            continue
        }
        pages.push(join(folder, 'index.html'))
        if (existsSync(join(folder, 'guide'))) pages.push(...html(join(folder, 'guide')))
    }
    // Tables of state machines are wider than any page.
    const texts = [...html(options.text)].filter((page) => !page.startsWith(join(options.text, 'core/docs/')))
    return [...pages, ...texts]
}

const shown = (page) => {
    const isText = page.startsWith(`${options.text}/`)
    return relative(isText ? options.text : options.doc, page).replace(/\/?index\.html$/, '')
}

/// Looks at every page at every width.
async function checkPages(browser) {
    const measure = readFileSync(join(HERE, 'measure.js'), 'utf8')
    const pages = reading().filter((page) => !options.only || page.includes(options.only))
    for (const width of WIDTHS) {
        await browser.resize(width)
        for (const page of pages) {
            await browser.go(pathToFileURL(page).href)
            for (const what of await browser.evaluate(measure)) report(`${shown(page)} at ${width}`, what)
            if (options.pictures) {
                await browser.picture(join(options.pictures, `${shown(page).replaceAll('/', '-')}-${width}.png`))
            }
        }
    }
    console.log(`${pages.length} pages at ${WIDTHS.join(', ')}`)
}

/// Asks the search of the site for each feature, by its name and by its method.
async function checkSearch(browser) {
    const rows = readFileSync(join(ROOT, 'tests/features.tsv'), 'utf8').split('\n')
        .filter((line) => line && !line.startsWith('#')).map((line) => line.split('\t'))
    const numbered = rows.filter(([number]) => /^\d+$/.test(number))
    if (numbered.length !== FEATURES) report('tests/features.tsv', `${numbered.length} numbered features`)
    let count = 0
    for (const [number, name, method, path] of rows) {
        const [, folder, module] = path.match(/^(.*)\/src\/guide\/(.*)\.md$/)
        const library = folder === 'core' ? 'mcp_proto' : `mcp_${folder.split('/')[1]}`
        const page = join(options.doc, library, 'guide', module, 'index.html')
        for (const query of [name, method].filter(Boolean)) {
            count += 1
            const start = pathToFileURL(join(options.doc, library, 'index.html'))
            start.searchParams.set('search', query)
            await browser.go(start.href)
            const results = await browser.evaluate(`new Promise((resolve) => {
                const end = Date.now() + 15000
                const look = () => {
                    const links = [...document.querySelectorAll('.search-results a')].map((a) => a.href)
                    const isDone = links.length > 0 || document.querySelector('.search-failed.active')
                    if (isDone || Date.now() > end) setTimeout(() => resolve(
                        [...document.querySelectorAll('.search-results.active a')].map((a) => a.href)), 150)
                    else setTimeout(look, 50)
                }
                look()
            })`)
            const at = results.findIndex((link) => link.startsWith(pathToFileURL(page).href))
            if (at < 0) report(`search for ${query} (${number})`, `${shown(page)} is not among ${results.length} results`)
            // Items whose own name is the query come first.
            else if (at > 19) report(`search for ${query} (${number})`, `${shown(page)} is result ${at + 1}`)
        }
    }
    console.log(`${count} searches`)
}

if (options.pictures) mkdirSync(options.pictures, { recursive: true })
checkLinks()
if (!options['links-alone']) {
    const browser = new Browser(options.chromium)
    try {
        await browser.open()
        await checkPages(browser)
        if (!options.only) {
            await browser.resize(1440)
            await checkSearch(browser)
        }
    } finally {
        await browser.close()
    }
}
for (const finding of findings) console.log(finding)
console.log(findings.length === 0 ? 'site: nothing is wrong' : `site: ${findings.length} findings`)
process.exitCode = findings.length === 0 ? 0 : 1
