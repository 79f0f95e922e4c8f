// The modules that `run` has built, by name, from the folder in MCP_WASM.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

export const path = (name) => join(process.env.MCP_WASM, `${name}.wasm`);
export const module = (name) => new WebAssembly.Module(readFileSync(path(name)));
