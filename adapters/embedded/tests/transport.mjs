// A transport of the official clients over a stream of the machine: one message for each line, in both directions.
// The two generations expect the same members.
export class LineTransport {
    #buffer = '';

    /** @param open  function that connects and returns the stream */
    constructor(open) {
        this.open = open;
        /** Lines that were no JSON. */
        this.noise = [];
    }

    async start() {
        this.stream = await this.open();
        this.stream.setEncoding('utf8');
        this.stream.on('data', (text) => this.#received(text));
        this.stream.on('error', (error) => this.onerror?.(error));
        this.stream.on('close', () => this.onclose?.());
    }

    #received(text) {
        const lines = (this.#buffer + text).split('\n');
        this.#buffer = lines.pop();
        for (const line of lines.filter((line) => line.trim() !== '')) {
            try {
                this.onmessage?.(JSON.parse(line));
            } catch (error) {
                this.noise.push(line);
                this.onerror?.(error);
            }
        }
    }

    async send(message) {
        const line = `${JSON.stringify(message)}\n`;
        if (!this.stream.write(line)) await new Promise((resolve) => this.stream.once('drain', resolve));
    }

    async close() {
        this.stream.end();
        this.stream.destroy();
    }
}
