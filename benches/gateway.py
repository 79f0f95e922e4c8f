"""The group `gateway` of `measure`: calls that pass `mcp-probe gateway` over HTTP, beside those that reach the server itself."""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time

from tools import build, run, slope, target

# Another gateway, if it is installed: `cargo install mcp-proxy --version 0.6.0`.
OTHER = shutil.which("mcp-proxy")
# Sessions whose memory is measured.
SESSIONS = 5_000


@contextlib.contextmanager
def behind(b):
    """A server process, and a folder with the files of gateways in front of it."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    server = subprocess.Popen([*b.one_core, b.path("bench-serve"), "blocking", str(port)])
    try:
        while True:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port)).close()
                break
            time.sleep(0.01)
        with tempfile.TemporaryDirectory() as folder:
            url = f"http://127.0.0.1:{port}/mcp"
            with open(os.path.join(folder, "mcp.json"), "w") as f:
                json.dump({"mcpServers": {"up": {"url": url}}}, f)
            with open(os.path.join(folder, "proxy.toml"), "w") as f:
                f.write(f'[proxy]\nname = "proxy"\nseparator = "_"\n[proxy.listen]\nhost = "127.0.0.1"\nport = PORT\n'
                        f'[[backends]]\nname = "up"\ntransport = "http"\nurl = "{url}"\n'
                        '[observability]\nlog_level = "error"\n')
            yield folder
    finally:
        server.kill()
        server.wait()


def ours(b, folder):
    return [os.path.join(target(), "release", "mcp-probe"), "gateway", "--config", os.path.join(folder, "mcp.json"), "--http", "127.0.0.1:{port}"]


def other(folder):
    """Its file has the port."""
    files = f"{folder}/proxy.toml > {folder}/{{port}}.toml"
    return ["sh", "-c", f"sed s/PORT/{{port}}/ {files}; exec {OTHER} --config {folder}/{{port}}.toml"]


def asked(b, era, connections, calls, tool, server, counter=()):
    ask = [era, str(connections), str(calls), "1", tool]
    return [*b.one_core, b.path("bench-http"), *ask, "--", *counter, *server]


def gateway(b, t):
    # As it is given away.
    build("--locked", "-p", "mcp-probe", given="release")
    direct = [b.path("bench-serve"), "blocking", "{port}"]
    with behind(b) as folder:
        for era in ("modern", "legacy"):
            def counted(server, tool):
                return slope(lambda counter, n: asked(b, era, 16, n, tool, server, counter), 200, 1_200)

            t.add(f"call that passes a gateway, HTTP on both sides, 16 connections, {era}", counted(ours(b, folder), "up_echo"),
                  goal=60_000, aim=50_000, unit="instructions")
            t.add("  the server itself", counted(direct, "echo"), unit="instructions")
            served = [("gateway", ours(b, folder), "up_echo"), ("server", direct, "echo")]
            if OTHER and era == "legacy":
                served.append(("other", other(folder), "up_echo"))
            found = least(b, era, served)
            t.add("  CPU of the gateway", found["gateway", 16, "cpu_us"], goal=25, aim=20, unit="µs")
            t.add("  added to the median, one connection", found["gateway", 1, "p50_us"] - found["server", 1, "p50_us"], goal=20,
                  aim=15, unit="µs")
            t.add("  calls per second, 32 connections", -found["gateway", 32, "negative_rate"])
            if ("other", 32, "negative_rate") in found:
                t.add("  the same of mcp-proxy 0.6", -found["other", 32, "negative_rate"])
                t.add("  its CPU, 16 connections", found["other", 16, "cpu_us"], unit="µs")
                t.add("  what it adds to the median", found["other", 1, "p50_us"] - found["server", 1, "p50_us"], unit="µs")
        held = json.loads(run([b.path("bench-crowd"), "session", str(SESSIONS), "--", *ours(b, folder)]))
        t.add(f"idle legacy session of a gateway, {SESSIONS:,} of them: resident memory", held["bytes_each"], goal=1_024, aim=512,
              unit="bytes")


def least(b, era, served):
    """Minimum of several repeats. The servers take turns, so that a busy moment affects all of them."""
    best = {}
    for _ in range(b.options.runs):
        for connections in (1, 16, 32):
            for name, server, tool in served:
                # The other one is at `/`.
                env = dict(os.environ, MCP_BENCH_PATH="/" if name == "other" else "/mcp")
                figures = json.loads(run(asked(b, era, connections, 20_000, tool, server), env=env))
                figures["negative_rate"] = -figures["per_s"]
                for key in ("cpu_us", "p50_us", "negative_rate"):
                    at = (name, connections, key)
                    best[at] = min(figures[key], best.get(at, figures[key]))
    return best
