// The host of a module: a transport of the official TypeScript SDKs, at whose other end our server or our client runs.
const PIECE = 16 << 10; // The longest input of one call.

export class WasmTransport {
    #decoder = new TextDecoder();
    #pieces = [];
    #rest = '';
    /** `now` gives milliseconds, `entropy` 32 bytes; `era` is 0 (both), 1 (legacy) or 2; `onevent` gets a client's events. */
    constructor(wasm, options) {
        this.exports = new WebAssembly.Instance(wasm).exports;
        const entropy = () => crypto.getRandomValues(new Uint8Array(32));
        this.options = { now: () => performance.now(), entropy, era: 0, onevent: () => {}, ...options };
    }
    start = async () => void this.command('open', Date.now() / 1000, this.options.entropy(), this.options.era);
    async send(message) {
        const bytes = new TextEncoder().encode(`${JSON.stringify(message)}\n`);
        for (let at = 0; at < bytes.length; at += PIECE) this.#pieces.push(bytes.subarray(at, at + PIECE));
        this.#pump();
    }
    async close() {
        if (this.isClosed) return;
        this.isClosed = true;
        this.command('handle_eof');
        this.onclose?.();
    }
    /** Calls a function of the module with the time and arguments. Text and bytes are passed in before, and their length here. */
    command(name, ...given) {
        const numbers = given.map((value) => (typeof value === 'number' ? value : this.#write(value)));
        const result = this.exports[name](this.options.now(), ...numbers);
        if (result < 0) throw new Error(`${name} was refused: ${result}`);
        this.#pump();
        return result;
    }
    #bytes = (place, length) => new Uint8Array(this.exports.memory.buffer, place, length);
    #write(value) {
        const bytes = typeof value === 'string' ? new TextEncoder().encode(value) : value;
        const place = this.exports.buffer(bytes.length);
        if (place === 0) throw new Error(`there is no room for ${bytes.length} bytes`);
        this.#bytes(place, bytes.length).set(bytes);
        return bytes.length;
    }
    #pump() { // Moves bytes in both directions until nothing moves, then delivers messages and sets the timer.
        const { exports, options } = this;
        for (; ; this.#pieces.shift()) {
            for (let length; (length = exports.poll_event?.(options.now())) > 0; )
                queueMicrotask(options.onevent.bind(null, JSON.parse(new TextDecoder().decode(this.#bytes(exports.event(), length)))));
            for (let length; (length = exports.transmit_len()) > 0; exports.consume(length))
                this.#rest += this.#decoder.decode(this.#bytes(exports.transmit(), length), { stream: true });
            if (this.#pieces.length === 0 || exports.wants_input() !== 1) break;
            if (exports.handle_input(options.now(), this.#write(this.#pieces[0])) < 0) break; // No memory: at the next turn.
        }
        const lines = this.#rest.split('\n');
        this.#rest = lines.pop();
        clearTimeout(this.timer);
        const due = exports.poll_timeout();
        if (due < Infinity && !this.isClosed) this.timer = setTimeout(() => this.command('handle_timeout'), due - options.now());
        for (const line of lines) this.onmessage?.(JSON.parse(line));
        if (exports.is_drained() === 1) this.close();
    }
}
