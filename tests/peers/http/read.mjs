// Reads HTTP/1.1 with the parser of Node. An input line is `request HEX` or `response HEX`, an output line is the
// result as JSON. No ports are used: server and client get streams inside this process.

import http from 'node:http';
import { createInterface } from 'node:readline';
import { Duplex } from 'node:stream';

const ROOM = 65536;

// Escapes like `escape_ascii` of Rust.
const named = { 9: '\\t', 10: '\\n', 13: '\\r', 34: '\\"', 39: "\\'", 92: '\\\\' };
const shown = (data) =>
  [...data]
    .map((b) => named[b] ?? (b >= 32 && b < 127 ? String.fromCharCode(b) : `\\x${b.toString(16).padStart(2, '0')}`))
    .join('');

class Wire extends Duplex {
  _read() {}
  _write(_data, _encoding, done) {
    done();
  }
  setTimeout() {
    return this;
  }
  setNoDelay() {
    return this;
  }
  setKeepAlive() {
    return this;
  }
  ref() {
    return this;
  }
  unref() {
    return this;
  }
  destroySoon() {
    this.destroy();
  }
}

const settled = async () => {
  for (let n = 0; n < 12; n += 1) await new Promise((done) => setImmediate(done));
};

// A body that will not be completed is not waited for. A body of a request that failed later does not count.
const serve = async (data) => {
  const messages = [];
  let error;
  const server = http.createServer({ maxHeaderSize: ROOM, insecureHTTPParser: false }, (request, response) => {
    const parts = [];
    request.on('data', (part) => parts.push(part));
    request.on('end', () => {
      const target = shown(Buffer.from(request.url, 'latin1'));
      messages.push(`${request.method} ${target} [${shown(Buffer.concat(parts))}]`);
      response.end();
    });
    request.on('error', () => {});
  });
  server.on('checkExpectation', (_request, response) => {
    error ??= 'expectation failed';
    response.writeHead(417).end();
  });
  for (const event of ['connect', 'upgrade']) {
    server.on(event, (request, socket) => {
      messages.push(`${event}: ${request.method} ${request.url}`);
      socket.destroy();
    });
  }
  server.on('clientError', (why, socket) => {
    error ??= why.code ?? why.message;
    socket.destroy();
  });
  const wire = new Wire();
  wire.on('error', () => {});
  let answered = '';
  wire._write = (part, _encoding, done) => {
    answered += part.toString('latin1');
    done();
  };
  server.emit('connection', wire);
  wire.push(data);
  await settled();
  // A request without Host is answered with 400 and not delivered.
  if (!error && /^HTTP\/1\.1 400/m.test(answered)) error = 'answered 400';
  wire.destroy();
  return { messages, ...(error ? { error } : {}) };
};

const ask = async (data) => {
  const messages = [];
  let error;
  const wire = new Wire();
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
  agent.createConnection = () => wire;
  const request = http.request({ agent, host: 'h', path: '/', maxHeaderSize: ROOM, insecureHTTPParser: false });
  request.on('response', (response) => {
    const parts = [];
    response.on('data', (part) => parts.push(part));
    response.on('end', () => messages.push(`${response.statusCode} [${shown(Buffer.concat(parts))}]`));
    response.on('error', (why) => (error ??= why.code ?? why.message));
  });
  request.on('upgrade', (response, socket) => {
    messages.push(`upgrade: ${response.statusCode}`);
    socket.destroy();
  });
  request.on('error', (why) => (error ??= why.code ?? why.message));
  wire.on('error', (why) => (error ??= why.code ?? why.message));
  request.end();
  await settled();
  wire.push(data);
  await settled();
  const result = { messages: [...messages], ...(error ? { error } : {}) };
  wire.destroy();
  agent.destroy();
  return result;
};

for await (const line of createInterface({ input: process.stdin })) {
  const [kind, data] = line.trim().split(' ');
  const read = kind === 'request' ? serve : ask;
  console.log(JSON.stringify(await read(Buffer.from(data ?? '', 'hex'))));
}
process.exit(0);
