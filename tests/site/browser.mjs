// Chromium without a window, driven by the DevTools protocol over two pipes: no package is needed.

import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const PATIENCE = 60_000

export class Browser {
    #process
    #profile
    #input
    #next = 1
    #pending = new Map()
    #waiting = new Map()

    constructor(program) {
        this.#profile = mkdtempSync(join(tmpdir(), 'chromium-'))
        this.#process = spawn(program, [
            '--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--hide-scrollbars',
            '--allow-file-access-from-files', '--no-first-run', '--remote-debugging-pipe',
            `--user-data-dir=${this.#profile}`, 'about:blank',
        ], { stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'] })
        this.#process.once('exit', () => this.#fail(new Error(`${program} has ended`)))
        this.#input = this.#process.stdio[3]
        // A write after its end is reported by `exit`.
        this.#input.on('error', () => {})
        let rest = Buffer.alloc(0)
        this.#process.stdio[4].on('data', (chunk) => {
            rest = Buffer.concat([rest, chunk])
            // Messages end in NUL.
            for (let end; (end = rest.indexOf(0)) >= 0; rest = rest.subarray(end + 1)) {
                this.#receive(JSON.parse(rest.subarray(0, end).toString()))
            }
        })
    }

    #fail(error) {
        for (const { reject } of [...this.#pending.values(), ...this.#waiting.values()]) reject(error)
    }

    #receive(message) {
        const pending = this.#pending.get(message.id)
        if (pending) {
            this.#pending.delete(message.id)
            if (message.error) pending.reject(new Error(message.error.message))
            else pending.resolve(message.result)
        }
        const waiting = this.#waiting.get(message.method)
        if (waiting) {
            this.#waiting.delete(message.method)
            waiting.resolve()
        }
    }

    send(method, params = {}) {
        const id = this.#next++
        this.#input.write(JSON.stringify({ id, method, params, sessionId: this.session }) + '\0')
        return new Promise((resolve, reject) => this.#pending.set(id, { resolve, reject }))
    }

    #event(method) {
        return new Promise((resolve, reject) => {
            const timer = setTimeout(() => reject(new Error(`no ${method} within ${PATIENCE} ms`)), PATIENCE)
            const end = (settle) => (value) => { clearTimeout(timer); settle(value) }
            this.#waiting.set(method, { resolve: end(resolve), reject: end(reject) })
        })
    }

    /// Opens a tab for all that follows.
    async open() {
        const { targetId } = await this.send('Target.createTarget', { url: 'about:blank' })
        const { sessionId } = await this.send('Target.attachToTarget', { targetId, flatten: true })
        this.session = sessionId
        await this.send('Page.enable')
    }

    async resize(width, height = 900) {
        await this.send('Emulation.setDeviceMetricsOverride', {
            width, height, deviceScaleFactor: 1, mobile: width < 600,
        })
    }

    async go(url) {
        const loaded = this.#event('Page.loadEventFired')
        const { errorText } = await this.send('Page.navigate', { url })
        if (errorText) throw new Error(`${url}: ${errorText}`)
        await loaded
    }

    /// Evaluates an expression, or a promise, in the page.
    async evaluate(expression) {
        const { result, exceptionDetails } = await this.send('Runtime.evaluate', {
            expression, awaitPromise: true, returnByValue: true,
        })
        if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text)
        return result.value
    }

    /// Waits until an expression holds in the page.
    async until(expression) {
        for (const end = Date.now() + PATIENCE; Date.now() < end; await new Promise((resolve) => setTimeout(resolve, 20))) {
            if (await this.evaluate(`Boolean(${expression})`)) return
        }
        throw new Error(`never: ${expression}`)
    }

    /// Writes a picture of the whole page.
    async picture(path) {
        const { cssContentSize } = await this.send('Page.getLayoutMetrics')
        const { data } = await this.send('Page.captureScreenshot', {
            format: 'png', captureBeyondViewport: true, clip: { ...cssContentSize, scale: 1 },
        })
        writeFileSync(path, Buffer.from(data, 'base64'))
    }

    async close() {
        const ended = new Promise((resolve) => this.#process.once('exit', resolve))
        this.#process.kill()
        await ended
        rmSync(this.#profile, { recursive: true, force: true, maxRetries: 5 })
    }
}
