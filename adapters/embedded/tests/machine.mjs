// The firmware in QEMU: its serial lines as streams, its console, and its monitor.
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';

const MACHINES = {
    mps2: {
        command: ['qemu-system-arm', '-machine', 'mps2-an386', '-cpu', 'cortex-m4'],
        // The second UART of the board is not connected.
        serial: ['chardev:line', 'null', 'chardev:console'],
        card: 'lan9118',
        isOnBoard: true,
    },
    // With a network card its UART is the console.
    virt: {
        command: ['qemu-system-riscv32', '-machine', 'virt', '-bios', 'none', '-global', 'virtio-mmio.force-legacy=false'],
        serial: ['chardev:console'],
        card: 'virtio-net-device',
        isOnBoard: false,
    },
};

/** Connects to a socket that QEMU is about to make. */
const connectSoon = async (path) => {
    for (let attempt = 0; ; attempt += 1) {
        try {
            const socket = connect(path);
            await new Promise((resolve, reject) => socket.once('connect', resolve).once('error', reject));
            return socket;
        } catch (error) {
            if (attempt === 200) throw error;
            await delay(25);
        }
    }
};

/** Finds a TCP port that is free now. */
const freePort = async () => {
    const server = createServer().listen(0, '127.0.0.1');
    await new Promise((resolve) => server.once('listening', resolve));
    const { port } = server.address();
    await new Promise((resolve) => server.close(resolve));
    return port;
};

export class Machine {
    #events = [];
    #waiting = [];

    /**
     * Starts the firmware.
     *
     * @param elf      the program
     * @param machine  `mps2` or `virt`
     * @param network  whether it has a network card; `port` of this machine is then forwarded to its port 80
     */
    static async start({ elf, machine = 'mps2', network = false }) {
        const self = new Machine();
        self.folder = mkdtempSync(join(tmpdir(), 'firmware-'));
        const path = (name) => join(self.folder, name);
        const { command, serial, card, isOnBoard } = MACHINES[machine];
        const [emulator, ...args] = command;
        args.push('-nographic', '-monitor', 'none', '-kernel', elf);
        args.push('-qmp', `unix:${path('monitor')},server=on,wait=off`);
        args.push('-chardev', `socket,id=line,path=${path('line')},server=on,wait=off`);
        // Waits for the console, so that nothing it prints is lost.
        args.push('-chardev', `socket,id=console,path=${path('console')},server=on,wait=on`);
        serial.forEach((to) => args.push('-serial', to));
        if (network) self.port = await freePort();
        args.push('-nic', 'none');
        if (network) {
            const forward = `restrict=on,hostfwd=tcp:127.0.0.1:${self.port}-10.0.2.15:80`;
            if (isOnBoard) args.splice(-1, 1, `user,model=${card},${forward}`);
            else args.push('-netdev', `user,id=network,${forward}`, '-device', `${card},netdev=network`);
        }
        self.child = spawn(emulator, args, { stdio: ['ignore', 'inherit', 'inherit'] });
        self.console = await connectSoon(path('console'));
        createInterface({ input: self.console }).on('line', (line) => self.#printed(line));
        self.monitor = await connectSoon(path('monitor'));
        self.replies = createInterface({ input: self.monitor })[Symbol.asyncIterator]();
        await self.replies.next();
        await self.command('qmp_capabilities');
        self.started = await self.event('ready');
        return self;
    }

    #printed(line) {
        if (process.env.VERBOSE) console.error(`console: ${line}`);
        let event;
        try {
            event = JSON.parse(line);
        } catch {
            event = { event: 'noise', line };
        }
        if (event.event === 'panic') {
            console.error(`the firmware has panicked: ${line}`);
            this.child.kill('SIGKILL');
            process.exit(1);
        }
        this.#events.push(event);
        this.#waiting.splice(0).forEach((wake) => wake());
    }

    /** Returns the next line of the console of a kind, or of one of several; earlier ones are dropped. */
    async event(kind, ms = 20_000) {
        const kinds = [kind].flat();
        const until = Date.now() + ms;
        for (;;) {
            while (this.#events.length > 0) {
                const event = this.#events.shift();
                if (kinds.includes(event.event)) return event;
            }
            if (Date.now() > until) throw new Error(`the console has not printed ${kinds}`);
            await Promise.race([new Promise((wake) => this.#waiting.push(wake)), delay(100)]);
        }
    }

    /** Returns the marks of heap and stack. */
    async marks() {
        this.console.write('m');
        return this.event('marks');
    }

    /** Lets the marks of heap and stack begin at their present use. */
    async resetMarks() {
        this.console.write('r');
        await delay(20);
    }

    /** Supplies the entropy that the machine has no generator for. Returns what the firmware says to it. */
    async supplyEntropy(bytes = randomBytes(72)) {
        this.console.write(`s${bytes.toString('hex')}`);
        return this.event(['serving', 'noEntropy']);
    }

    /** Performs a command of the QEMU monitor. */
    async command(execute, argument = {}) {
        this.monitor.write(`${JSON.stringify({ execute, arguments: argument })}\n`);
        for (;;) {
            const { value } = await this.replies.next();
            const reply = JSON.parse(value);
            if (reply.error) throw new Error(value);
            if (reply.return) return;
        }
    }

    /** Resets the machine, and waits until the firmware is ready again. */
    async reset() {
        this.#events.length = 0;
        await this.command('system_reset');
        this.started = await this.event('ready');
    }

    /** Opens the serial line. One connection may be open at a time. */
    line() {
        return connectSoon(join(this.folder, 'line'));
    }

    async stop() {
        const ended = new Promise((resolve) => this.child.once('exit', resolve));
        this.child.kill();
        await ended;
        this.console.destroy();
        this.monitor.destroy();
        rmSync(this.folder, { recursive: true, force: true });
    }
}
