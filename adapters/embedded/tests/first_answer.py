#!/usr/bin/env python3
"""Runs firmware in QEMU whose serial line is stdin and stdout, and expects the answers of both eras.

    first_answer.py QEMU [ARGS...]
"""
import json
import subprocess
import sys
import threading

meta = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
initialize = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
write = {"name": "register", "arguments": {"address": 1, "value": 42}}
measure = {"name": "sensor", "arguments": {"samples": 3}}
steps = [
    ("server/discover", {"_meta": meta}, lambda r: "2026-07-28" in r["supportedVersions"]),
    ("tools/list", {"_meta": meta}, lambda r: len(r["tools"]) == 2),
    ("tools/call", {**write, "_meta": meta}, lambda r: r["content"][0]["text"] == "42"),
    ("initialize", initialize, lambda r: r["protocolVersion"] == "2025-11-25"),
    (None, "notifications/initialized", None),
    ("tools/call", measure, lambda r: r["content"][0]["text"].startswith("20.")),
    ("ping", {}, lambda r: r == {}),
]

qemu = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
timer = threading.Timer(60, qemu.kill)
timer.start()
try:
    for number, (method, params, check) in enumerate(steps):
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        if method is None:
            message = {"jsonrpc": "2.0", "method": params}
        qemu.stdin.write(json.dumps(message).encode() + b"\n")
        qemu.stdin.flush()
        while method is not None:
            line = qemu.stdout.readline()
            if not line:
                sys.exit(f"no answer to {method}")
            answer = json.loads(line)
            if answer.get("id") != number:
                continue
            if "result" not in answer or not check(answer["result"]):
                sys.exit(f"{method}: {answer}")
            break
finally:
    timer.cancel()
    qemu.kill()
    qemu.wait()
print("answers in both eras")
