"""Reads HTTP/1.1 with h11. An input line is `request HEX` or `response HEX`, an output line is the result as JSON."""

import json
import sys

import h11

ROOM = 65536


def shown(data):
    """Escapes like `escape_ascii` of Rust."""
    named = {9: "\\t", 10: "\\n", 13: "\\r", 34: '\\"', 39: "\\'", 92: "\\\\"}
    return "".join(named.get(b) or (chr(b) if 32 <= b < 127 else f"\\x{b:02x}") for b in data)


def serve(data):
    c = h11.Connection(h11.SERVER, max_incomplete_event_size=ROOM)
    messages, head, body = [], None, b""
    if data:  # Nothing would be taken for the end.
        c.receive_data(data)
    try:
        while True:
            event = c.next_event()
            if event in (h11.NEED_DATA, h11.PAUSED):
                return {"messages": messages}
            if isinstance(event, h11.Request):
                head, body = f"{shown(event.method)} {shown(event.target)} [", b""
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                messages.append(head + shown(body) + "]")
                c.send(h11.Response(status_code=200, headers=[("Content-Length", "0")]))
                c.send(h11.EndOfMessage())
                if c.our_state is not h11.DONE or c.their_state is not h11.DONE:
                    return {"messages": messages}
                c.start_next_cycle()
            else:
                return {"messages": messages}
    except h11.ProtocolError as error:
        return {"messages": messages, "error": str(error)}


def ask(data):
    c = h11.Connection(h11.CLIENT, max_incomplete_event_size=ROOM)
    c.send(h11.Request(method="GET", target="/", headers=[("Host", "h")]))
    c.send(h11.EndOfMessage())
    messages, head, body = [], None, b""
    if data:  # Nothing would be taken for the end.
        c.receive_data(data)
    try:
        while True:
            event = c.next_event()
            if event in (h11.NEED_DATA, h11.PAUSED):
                # Bytes after a complete response answer no request.
                left, _ = c.trailing_data
                reused = c.our_state is h11.DONE and c.their_state is h11.DONE
                return {"messages": messages, **({"error": "more than was asked for"} if reused and left else {})}
            if isinstance(event, h11.Response):
                head, body = f"{event.status_code} [", b""
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                messages.append(head + shown(body) + "]")
            elif isinstance(event, h11.ConnectionClosed):
                return {"messages": messages}
    except h11.ProtocolError as error:
        return {"messages": messages, "error": str(error)}


for line in sys.stdin:
    kind, _, data = line.strip().partition(" ")
    print(json.dumps((serve if kind == "request" else ask)(bytes.fromhex(data))))
