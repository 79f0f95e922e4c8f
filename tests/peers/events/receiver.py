"""A receiver of webhooks that verifies with the official library of Standard Webhooks, and makes ids as `mcp-webhook-events`.

    receiver.py --certificate FILE --key FILE --user NAME --name TYPE --arguments JSON

Its secrets are the environment variable SECRETS, separated by spaces. It prints its URL, and then
for each request one JSON line: the numbers of the secrets that verify it (`verified`), the ids of header and construction, and
the body. A challenge is echoed if it was verified. It ends at the end of its input.
"""

import argparse
import json
import os
import ssl
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from mcp_webhook_events import McpEvents
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

parser = argparse.ArgumentParser()
for name in ("certificate", "key", "user", "name", "arguments"):
    parser.add_argument(f"--{name}", required=True)
given = parser.parse_args()
secrets = [Webhook(secret) for secret in os.environ["SECRETS"].split()]


def report(line: dict) -> None:
    print(json.dumps(line), flush=True)


def is_verified(secret: Webhook, body: bytes, headers: dict[str, str]) -> bool:
    try:
        secret.verify(body, headers)
        return True
    except WebhookVerificationError:
        return False


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        verified = [number for number, secret in enumerate(secrets) if is_verified(secret, body, headers)]
        message = json.loads(body)
        expected = McpEvents.subscription_id(given.user, url, given.name, json.loads(given.arguments))
        ids = {"id": self.headers["X-MCP-Subscription-Id"], "expected": expected}
        report({"verified": verified, **ids, "webhook-id": self.headers["webhook-id"], "body": message})
        answer = json.dumps({"challenge": message.get("challenge")}).encode() if verified else b""
        self.send_response(200 if verified else 401)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(given.certificate, given.key)
server.socket = context.wrap_socket(server.socket, server_side=True)
url = f"https://localhost:{server.server_address[1]}/hook"
report({"listening": url})
threading.Thread(target=server.serve_forever, daemon=True).start()
sys.stdin.read()
