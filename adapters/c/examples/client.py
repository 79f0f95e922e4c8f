"""Calls a tool of a server through libmcp and ctypes: client.py LIBRARY SERVER [ARGS...]"""
import ctypes as c
import subprocess
import sys
import time

class Slice(c.Structure):
    _fields_ = [("data", c.c_void_p), ("len", c.c_size_t)]
    def __str__(self): return c.string_at(self.data, self.len).decode() if self.len else ""

class Config(c.Structure):
    _fields_ = [("size", c.c_size_t), *((name, Slice) for name in ("name", "version", "capabilities", "instructions", "revisions")),
                ("entropy", c.c_void_p), ("nonce", c.c_uint64), ("unix_time", c.c_uint64), ("max_message", c.c_size_t),
                ("ping_interval", c.c_uint64), ("ping_misses", c.c_uint32), ("flags", c.c_uint32)]

class Event(c.Structure):
    _fields_ = [("kind", c.c_int), ("status", c.c_int), ("call", c.c_uint64), ("id", c.c_uint64), ("code", c.c_int64),
                ("progress", c.c_double), ("total", c.c_double), ("flags", c.c_uint32), ("attempt", c.c_uint32),
                *((name, Slice) for name in ("method", "json", "name", "arguments", "text")), ("reserved", c.c_uint64 * 4)]

def text(value): return Slice(c.cast(c.c_char_p(value), c.c_void_p), len(value))  # `value` must stay alive
def now(): return c.c_uint64(time.monotonic_ns() // 1000)

mcp = c.CDLL(sys.argv[1])
assert mcp.mcp_abi_version() == 1
server = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
client, call, out, event = c.c_void_p(), c.c_uint64(), Slice(), Event()
config = Config(size=c.sizeof(Config), name=text(b"ctypes"), version=text(b"1.0"))
assert mcp.mcp_client_new(c.byref(config), now(), c.byref(client)) == 0
assert mcp.mcp_client_call_tool(client, now(), text(b"echo"), text(b'{"text":"hello from Python"}'), None, c.byref(call)) == 0
while event.kind != 21:  # MCP_EVENT_DONE
    while mcp.mcp_client_transmit(client, c.byref(out)) == 0:
        mcp.mcp_client_consume(client, c.c_size_t(server.stdin.write(c.string_at(out.data, out.len))))
    if mcp.mcp_client_poll_event(client, now(), c.byref(event)) != 0:
        data = server.stdout.read(65536)
        mcp.mcp_client_handle_input(client, now(), data, c.c_size_t(len(data))) if data else mcp.mcp_client_handle_eof(client, now())
print(event.status, event.json)
mcp.mcp_client_free(client)
server.stdin.close()
sys.exit(server.wait() or event.status)
