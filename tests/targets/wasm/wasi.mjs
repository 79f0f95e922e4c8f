// The host of the server on stdin and stdout: WASI of Node.
//
//   node --no-warnings wasi.mjs stdio.wasm [--no-entropy]
import { readFileSync } from 'node:fs';
import { WASI } from 'node:wasi';

const wasi = new WASI({ version: 'preview1', args: ['stdio'], returnOnExit: true });
const imports = wasi.getImportObject();
// `ENOSYS`: a host without randomness.
if (process.argv.includes('--no-entropy')) imports.wasi_snapshot_preview1.random_get = () => 52;
const { instance } = await WebAssembly.instantiate(readFileSync(process.argv[2]), imports);
process.exitCode = wasi.start(instance);
