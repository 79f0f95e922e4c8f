// The host of a module: a transport of the official TypeScript SDKs, at whose other end our server or our client runs.
const encoder = new TextEncoder();
const PIECE = 16 << 10; // The longest input of one call.

export class WasmTransport {
    #decoder = new TextDecoder();
    #pieces = [];
    #rest = '';
    #isClosed = false;
    /** `now` gives milliseconds, `entropy` 32 bytes; `era` is 0 (both), 1 (legacy) or 2; `onevent` gets a client's events. */
    constructor(wasm, options) {
        this.exports = new WebAssembly.Instance(wasm).exports;
        const entropy = () => crypto.getRandomValues(new Uint8Array(32));
        this.options = { now: () => performance.now(), entropy, era: 0, onevent: () => {}, ...options };
    }
    async start() {
        this.command('open', [Date.now() / 1000, this.#write(this.options.entropy()), this.options.era]);
    }
    async send(message) {
        const bytes = encoder.encode(`${JSON.stringify(message)}\n`);
        for (let at = 0; at < bytes.length; at += PIECE) this.#pieces.push(bytes.subarray(at, at + PIECE));
        this.#pump();
    }
    async close() {
        if (!this.#isClosed) this.command('handle_eof');
        this.#end();
    }
    /** Calls a function of the module with the time, numbers, and the length of a text that is passed in before. */
    command(name, numbers = [], text = undefined) {
        const result = this.#call(name, ...numbers, ...(text === undefined ? [] : [this.#write(encoder.encode(text))]));
        this.#pump();
        return result;
    }
    #call(name, ...numbers) {
        const result = this.exports[name](this.options.now(), ...numbers);
        if (result < 0) throw new Error(`${name} was refused: ${result}`);
        return result;
    }
    #bytes = (place, length) => new Uint8Array(this.exports.memory.buffer, place, length);
    #write(bytes) {
        const place = this.exports.buffer(bytes.length);
        if (place === 0) throw new Error(`there is no room for ${bytes.length} bytes`);
        this.#bytes(place, bytes.length).set(bytes);
        return bytes.length;
    }
    /** Moves bytes in both directions until nothing moves, then delivers them and sets the timer. */
    #pump() {
        const { exports, options } = this;
        const events = [];
        for (let length, moves = true; moves; ) {
            moves = false;
            for (; this.#pieces.length > 0 && exports.wants_input() === 1; moves = true, this.#pieces.shift())
                this.#call('handle_input', this.#write(this.#pieces[0]));
            for (; exports.poll_event && (length = this.#call('poll_event')) > 0; moves = true)
                events.push(JSON.parse(new TextDecoder().decode(this.#bytes(exports.event(), length))));
            for (; (length = exports.transmit_len()) > 0; moves = true, exports.consume(length))
                this.#rest += this.#decoder.decode(this.#bytes(exports.transmit(), length), { stream: true });
        }
        const lines = this.#rest.split('\n');
        this.#rest = lines.pop();
        clearTimeout(this.timer);
        const due = exports.poll_timeout();
        if (due < Infinity) this.timer = setTimeout(() => this.command('handle_timeout'), due - options.now());
        for (const line of lines) this.onmessage?.(JSON.parse(line));
        for (const event of events) options.onevent(event);
        if (exports.is_drained() === 1) this.#end();
    }
    #end() {
        clearTimeout(this.timer);
        if (!this.#isClosed) this.onclose?.((this.#isClosed = true));
    }
}
