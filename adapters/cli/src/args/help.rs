//! What `--help` says behind the options: examples, and what takes more words

pub(super) const AFTER_HELP: &str = "\
Examples:
  mcp-probe demo
  mcp-probe inspect -- npx -y @modelcontextprotocol/server-everything
  mcp-probe call echo --args '{\"text\": \"hello\"}' -- mcp-probe serve
  mcp-probe call count --args '{\"to\": 5}' --trace -- mcp-probe serve --era modern

Exit codes:
  0  all went well
  1  the operation failed: an error answer, a tool that reports an error, a failed step
  2  the command line is wrong
  3  no connection: the program does not start, is no MCP server, speaks other revisions, or died
  4  no answer in time
  5  the server asked for something, and there was no answer to that";

pub(super) const INSPECT_HELP: &str = "\
Examples:
  mcp-probe inspect -- python my_server.py
  mcp-probe inspect --era legacy --stderr null -- npx -y @modelcontextprotocol/server-everything
  mcp-probe inspect --env API_TOKEN -- my-server          (passes our API_TOKEN on)
  mcp-probe inspect --json -- my-server | jq .tools[].name";

pub(super) const CALL_HELP: &str = "\
A server may ask for something before it answers. On a terminal you are asked: a form is filled
in field by field, a web page is shown (nothing is opened by itself), and of a model you take the
place. Nothing else moves while a question waits for you. For programs there is --answer KEY=JSON:
  KEY   The server's name for the question (2026-07-28), or its kind: elicit, sample, roots.
        Answers with the same KEY are used in their order, the last one again. Servers of the
        legacy era do not name their questions: each gets the first answer that fits.
  JSON  What is filled into a form, with its defaults for what is left out; a text, which a model
        says; a list of roots, as paths or objects; or a whole result as the protocol has it.
        decline and cancel, and accept for a web page or a form as it stands, have no quotes.
Only what can be answered is declared to the server.

Examples:
  mcp-probe call add --args '{\"a\": 20, \"b\": 22}' -- mcp-probe serve
  mcp-probe call count --args '{\"to\": 100}' --timeout 500ms --trace -- mcp-probe serve
  mcp-probe call count --args '{\"to\": 100}' --total 2s -- mcp-probe serve
  mcp-probe call login --args '{\"password\": \"x\"}' --trace --hide password -- my-server
  mcp-probe call sign --answer 'guest={\"name\": \"Ada\"}' -- mcp-probe serve --everything
  mcp-probe call test_input_required_result_list_roots --root . -- mcp-probe serve --everything
  mcp-probe call test_logging_tool --log info -- mcp-probe serve --everything";

pub(super) const CHECK_HELP: &str = "\
An error is a MUST of the specification that is broken, a warning a SHOULD, a note good practice.
The exit code is 1 when there are errors, or warnings with --strict.

Examples:
  mcp-probe check -- python my_server.py
  mcp-probe check http://127.0.0.1:8080/mcp
  mcp-probe check --json --strict -- my-server | jq -r '.[].what'
  mcp-probe check --protocol-version 2025-06-18 -- my-server
  mcp-probe check --rules";

pub(super) const READ_HELP: &str = "\
Examples:
  mcp-probe read test://static-text -- mcp-probe serve --everything
  mcp-probe read --json file:///etc/hostname -- my-server | jq -r .contents[0].blob | base64 -d";

pub(super) const PROMPT_HELP: &str = "\
Examples:
  mcp-probe prompt travel_plan --args '{\"country\": \"norway\", \"days\": \"5\"}' -- mcp-probe serve --everything";

pub(super) const COMPLETE_HELP: &str = "\
Examples:
  mcp-probe complete prompt:travel_plan country n -- mcp-probe serve --everything
  mcp-probe complete 'atlas://{country}/{city}' city --with country=norway -- mcp-probe serve --everything";

pub(super) const LISTEN_HELP: &str = "\
A change says that something is another than it was, not how; what changes faster than it is read
is told once. The exit code is 0 when the server ends the subscription in good order, 3 when the
connection is lost. With --log, what a server of the legacy era logs is shown on stderr; those of
2026-07-28 log about calls only.

Examples:
  mcp-probe listen clock://running --count 3 -- mcp-probe serve --everything
  mcp-probe listen --json --for 60s -- my-server | jq -r .changed";

pub(super) const BRIDGE_HELP: &str = "\
On stdin and stdout there is one client. The server is connected to as by that client: what it is
and what it can do, as its first message says. Over HTTP there may be any number of clients, and
all of them share one connection to the server, with one identity and its rights: the server sees
mcp-probe as a client that can do everything. What the server says without saying whose it is
(log messages, or what a server of the legacy era asks) goes to the only client that it can be
for; where several have calls under way it is not passed on, and the server is told so.
Who can reach the address can use the server; only programs and pages of this machine are let in
unless --allow-host and --allow-origin say otherwise.

Requests and notifications that the protocol does not have pass, too: those of clients always, those
of a server of the legacy era to the only client of that era there is, as one of 2026-07-28 is asked
and told nothing outside of its calls. What does not pass: tasks (calls are made without them), and
progress on what a server asks.

The bridge ends when its client does, or with Ctrl-C or SIGTERM, after which calls in work have a
second, and the server half of one; and with exit code 3 when the server is gone, after telling so
to all who wait. A server at a URL that is out of reach for a while fails the calls of that while.

In a client's configuration, for a server over HTTP:
  {\"command\": \"mcp-probe\", \"args\": [\"bridge\", \"http://127.0.0.1:8080/mcp\"]}

Examples:
  mcp-probe inspect -- mcp-probe bridge http://127.0.0.1:8080/mcp
  mcp-probe bridge --bearer env:TOKEN http://127.0.0.1:8080/mcp
  mcp-probe bridge --http 127.0.0.1:8080 -- npx -y @modelcontextprotocol/server-everything
  mcp-probe bridge --client-era legacy -- my-modern-server";

pub(super) const SERVE_HELP: &str = "\
Examples:
  mcp-probe inspect -- mcp-probe serve --everything
  mcp-probe inspect -- mcp-probe serve
  mcp-probe call echo --args '{\"text\": \"hello\"}' -- mcp-probe serve --protocol-version 2025-06-18
  mcp-probe serve --everything --http 127.0.0.1:8080
  mcp-probe serve --http 127.0.0.1:8080 --runtime threads --shards 2
  mcp-probe serve --http [::]:8443 --allow-host tools.example.com --tls-cert chain.pem --tls-key key.pem

--tls-cert and --tls-key are there when mcp-probe was built with the feature tls.";
