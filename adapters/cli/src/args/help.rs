//! Texts that `--help` prints after the options: examples and longer explanations.

use crate::features;

/// Concatenates the usage lines of a command, one for each form of a server.
macro_rules! usage {
    ($head:literal) => {
        concat!(
            $head,
            " <SERVER>\n       <SERVER>: <URL>\n                 ",
            "tcp://<HOST>:<PORT> | unix:<PATH> | --serial <DEVICE[:BAUD]>\n                 ",
            "-- <CMD>...\n                 ",
            "--config <FILE> --server <NAME>"
        )
    };
}
pub(super) use usage;

/// Concatenates the usage lines of a command on servers over HTTP.
macro_rules! remote_usage {
    ($head:literal) => {
        concat!($head, " <URL>\n       ", $head, " --config <FILE> --server <NAME>")
    };
}
pub(super) use remote_usage;

/// Returns the text after the options of the program.
pub(super) fn after_help() -> String {
    let missing = features::describe_missing().map(|missing| format!("\n\n{missing}"));
    format!("{AFTER_HELP}{}", missing.unwrap_or_default())
}

const AFTER_HELP: &str = "\
Examples:
  mcp-probe demo
  mcp-probe inspect -- npx -y @modelcontextprotocol/server-everything
  mcp-probe call echo text=hello -- mcp-probe serve
  mcp-probe call read_sensor --serial /dev/ttyACM0
  mcp-probe call count to=5 --trace -- mcp-probe serve --era modern

Exit codes:
  0  success
  1  the operation failed: an error response, a tool that reports an error,
     a failed step
  2  the command line is invalid
  3  no connection: the program does not start, is not an MCP server, speaks
     other revisions, or died
  4  no answer in time
  5  the server sent an input request, and no answer was available
  6  authorization is needed, was refused or failed (`mcp-probe login URL`)";

pub(super) const INSPECT_HELP: &str = "\
Examples:
  mcp-probe inspect -- python my_server.py
  mcp-probe inspect --era legacy --stderr null -- python my_server.py
  mcp-probe inspect --env API_TOKEN -- my-server   (passes API_TOKEN on)
  mcp-probe inspect --header 'X-Api-Key: env:API_KEY' https://example.com/mcp
  mcp-probe inspect --config .vscode/mcp.json --server files
  mcp-probe inspect tcp://192.168.4.1:7000   (a board on the network)
  mcp-probe inspect --serial /dev/ttyUSB0:115200   (a board on a serial line)
  mcp-probe inspect --json -- my-server | jq .tools[].name";

pub(super) const CALL_HELP: &str = "\
NAME=VALUE takes its type from the tool's schema: a=5 is a number if the schema
says so, and the string 5 otherwise. Arrays and objects are written as JSON.
NAME:=JSON sends any value whatever the schema says. The words come before the
server: behind -- they belong to its command.

A server may send input requests before it answers. On a terminal you answer
them: a form is filled in field by field (five wrong values for a field end the
call), a web page is shown (nothing is opened automatically), and a request to a
model is answered by you. Everything else waits while you answer. Programs use
--answer KEY=JSON:
  KEY   The key of the request, chosen by the server (2026-07-28), or its kind:
        elicit, sample, roots. Answers with the same KEY are used in order, and
        the last one repeats. Requests of legacy servers have no key: each gets
        the first answer that fits.
  JSON  The values of a form, with its defaults for fields left out; a string,
        as the text of a model; a list of roots, as paths or objects; or a
        complete result of the protocol. decline and cancel are written without
        quotes, as is accept for a web page or for a form with its defaults.
The client declares only the kinds of input that it can answer.

Examples:
  mcp-probe call add a=20 b=22 -- mcp-probe serve
  mcp-probe call add --args '{\"a\": 20, \"b\": 22}' -- mcp-probe serve
  mcp-probe call add --args @numbers.json b:=22 -- mcp-probe serve
  mcp-probe call count to=100 --timeout 500ms --trace -- mcp-probe serve
  mcp-probe call count to=100 --total 2s -- mcp-probe serve
  mcp-probe call login password=x --trace --hide password -- my-server
  mcp-probe call sign --answer 'guest={\"name\": \"Ada\"}' -- \\
      mcp-probe serve --everything
  mcp-probe call test_input_required_result_list_roots --root . -- \\
      mcp-probe serve --everything
  mcp-probe call test_logging_tool --log info -- mcp-probe serve --everything";

pub(super) const CHECK_HELP: &str = "\
An error violates a MUST of the specification, a warning a SHOULD, a note good
practice. The exit code is 1 when there are errors, or warnings with --strict.

Examples:
  mcp-probe check -- python my_server.py
  mcp-probe check http://127.0.0.1:8080/mcp
  mcp-probe check unix:/run/my-server.sock
  mcp-probe check --json --strict -- my-server | jq -r '.[].what'
  mcp-probe check --sarif -- python my_server.py > check.sarif
  mcp-probe check --junit http://127.0.0.1:8080/mcp > check.xml
  mcp-probe check --protocol-version 2025-06-18 -- my-server
  mcp-probe check --rules";

pub(super) const READ_HELP: &str = "\
Examples:
  mcp-probe read test://static-text -- mcp-probe serve --everything
  mcp-probe read --json file:///etc/hostname -- my-server | \\
      jq -r .contents[0].blob | base64 -d";

pub(super) const EVENTS_LIST_HELP: &str = "\
Examples:
  mcp-probe events list -- mcp-probe serve --everything
  mcp-probe events list --json http://127.0.0.1:8080/mcp | jq -r .events[].name";

pub(super) const EVENTS_POLL_HELP: &str = "\
Examples:
  mcp-probe events poll tide.changed http://127.0.0.1:8080/mcp
  mcp-probe events poll tide.changed harbour=Cobh --cursor C \\
      http://127.0.0.1:8080/mcp";

pub(super) const EVENTS_FOLLOW_HELP: &str = "\
Streams need a server of 2026-07-28; others are polled. With --json a line has
the members of the event, and its cursor if it came on a stream. The exit code
is 1 when the server ends the subscription, 3 when the connection is lost.

Examples:
  mcp-probe events follow tide.changed harbour=Cobh --count 3 -- \\
      mcp-probe serve --everything
  mcp-probe events follow ship.arrived --json --for 60s -- \\
      mcp-probe serve --everything | jq -r .data.ship";

pub(super) const EVENTS_SUBSCRIBE_HELP: &str = "\
Examples:
  mcp-probe events subscribe build.finished branch=main \\
      --url https://hooks.example.com/mcp --listen 127.0.0.1:8080 \\
      https://example.com/mcp
  mcp-probe events subscribe build.finished --secret-env HOOK_SECRET \\
      --url https://hooks.example.com/mcp https://example.com/mcp";

pub(super) const EVENTS_RECEIVE_HELP: &str = "\
Examples:
  mcp-probe events receive --listen 127.0.0.1:8080 --secret-env HOOK_SECRET
  mcp-probe events receive --listen 127.0.0.1:0 --path /hooks \\
      --secret-file hook.secret --json";

pub(super) const EVENTS_VERIFY_HELP: &str = "\
A signature that does not fit is tried with known mistakes: the text of the
secret as the key, white space at the end of the body, the body alone, and time
before id.

Examples:
  mcp-probe events verify --head head.txt --body body.json \\
      --secret-file hook.secret
  mcp-probe events verify --head head.txt --body body.json --at 1795600800 \\
      --secret-env HOOK_SECRET";

pub(super) const EVENTS_SEND_HELP: &str = "\
Examples:
  mcp-probe events send http://127.0.0.1:8080/ --challenge \\
      --secret-env HOOK_SECRET
  mcp-probe events send http://127.0.0.1:8080/ --secret-env HOOK_SECRET \\
      --name build.finished --data '{\"build\": 7}'";

pub(super) const SKILLS_LIST_HELP: &str = "\
Examples:
  mcp-probe skills list -- mcp-probe serve --everything
  mcp-probe skills list --json http://127.0.0.1:8080/mcp | jq -r .skills[].uri";

pub(super) const SKILLS_SHOW_HELP: &str = "\
Examples:
  mcp-probe skills show berth-planning -- mcp-probe serve --everything
  mcp-probe skills show berth-planning --file references/HARBOURS.md -- \\
      mcp-probe serve --everything";

pub(super) const SKILLS_VERIFY_HELP: &str = "\
A match says that a server agrees with itself. It says nothing about trust.

Examples:
  mcp-probe skills verify -- mcp-probe serve --everything
  mcp-probe skills verify skill://acme/refunds/SKILL.md \\
      http://127.0.0.1:8080/mcp";

pub(super) const PIN_HELP: &str = "\
A server can change what its tools say after you have approved them. Look at
them (mcp-probe inspect), pin them, and let `verify` tell what has changed.

Examples:
  mcp-probe pin --output mail.lock.json https://example.com/mcp";

pub(super) const VERIFY_HELP: &str = "\
Examples:
  mcp-probe verify mail.lock.json https://example.com/mcp
  mcp-probe verify --sarif mail.lock.json -- my-server > findings.sarif";

pub(super) const PROMPT_HELP: &str = "\
Examples:
  mcp-probe prompt travel_plan country=norway days=5 -- \\
      mcp-probe serve --everything";

pub(super) const COMPLETE_HELP: &str = "\
Examples:
  mcp-probe complete prompt:travel_plan country n -- \\
      mcp-probe serve --everything
  mcp-probe complete prompt:travel_plan country --typed -- \\
      mcp-probe serve --everything   (texts from stdin, as they are typed)
  mcp-probe complete 'atlas://{country}/{city}' city --with country=norway -- \\
      mcp-probe serve --everything";

pub(super) const LISTEN_HELP: &str = "\
A change names what has changed, not how. Several changes of one list or
resource may be reported as one. The exit code is 0 when the server ends the
subscription gracefully, 3 when the connection is lost. With --log, log messages
of a legacy server are shown on stderr. Modern servers log only during calls.

Examples:
  mcp-probe listen clock://running --count 3 -- mcp-probe serve --everything
  mcp-probe listen --json --for 60s -- my-server | jq -r .changed";

pub(super) const BRIDGE_HELP: &str = "\
On stdin and stdout the bridge serves one client. It connects to the server with
the identity and the capabilities that the client's first message declares. Over
HTTP it serves any number of clients. They share one connection to the server,
with one identity and its rights: the server sees mcp-probe as a client with all
capabilities.

On a socket (--listen) each client has its own connection to the server, or its
own process of it, as on stdin and stdout. With --share all have one, which sees
mcp-probe as a client without roots and sampling: not every client need have
them. A serial line has room for one client; another one is disconnected.

Log messages, and input requests of a legacy server, may not name the call that
they belong to. They go to the only client that they can belong to. If several
clients have running calls, they are not passed on, and the server gets an error
for such a request.

Everyone who can reach the address can use the server. Only programs and web
pages of this machine are let in, unless --allow-host and --allow-origin add
others.

Custom requests and notifications pass too. Those of clients always pass. Those
of a legacy server go to the only legacy client; a modern client receives
nothing outside of its calls. Tasks do not pass (calls are made without them),
and neither does progress on input requests.

The bridge ends when its client does, on Ctrl-C or on SIGTERM. After a signal,
running calls have one second to finish and the server half a second to end.
When the server is gone, its running calls get an error, and it is started
again, after a minute at most. Calls wait for it if that is 5 seconds away at
most. If it cannot be started at first, the exit code is 3. A server at a URL
that is unreachable for a while fails only the calls of that time.

A server that requires authorization gets the tokens that `mcp-probe login` has
stored. They are renewed while the bridge runs.

In a client's configuration, for a server over HTTP:
  {\"command\": \"mcp-probe\", \"args\": [\"bridge\", \"http://127.0.0.1:8080/mcp\"]}

Examples:
  mcp-probe inspect -- mcp-probe bridge http://127.0.0.1:8080/mcp
  mcp-probe bridge --bearer env:TOKEN http://127.0.0.1:8080/mcp
  mcp-probe bridge --http 127.0.0.1:8080 -- \\
      npx -y @modelcontextprotocol/server-everything
  mcp-probe bridge --client-era legacy -- my-modern-server
  mcp-probe bridge --serial /dev/ttyUSB0   (stdio for a board on a serial line)
  mcp-probe bridge --listen tcp://127.0.0.1:7000 -- my-server
  mcp-probe bridge --http 127.0.0.1:8080 tcp://192.168.4.1:7000";

pub(super) const GATEWAY_HELP: &str = "\
The file has the form that clients use, with members for the gateway beside
those of the server:
  {\"mcpServers\": {
    \"files\": {\"command\": \"npx\", \"args\": [\"-y\", \"my-files\"],
              \"hide\": [\"delete_*\"], \"limits\": {\"calls\": 16}},
    \"search\": {\"url\": \"https://search.example.com/mcp\"}
  }}
The tool read of files is files_read for clients. In a name of a server, all but
letters and digits becomes -. Resources keep their URIs.

  limits      calls: calls in flight, beyond which they are refused (64, without
              lists); timeout: time to wait for one answer, in place of
              --timeout
  allow       tools and prompts by their names, resources by their URIs: nothing
              else is shown and used; * stands for any characters
  hide        the same for what is not shown, and not used; URIs in other
              spellings too, but a server may know more: allow is the safe rule
  principals  names of principals, each with allow and hide in place of those
              above; with --protect they are the subjects of tokens
  disabled    true: the server is not used

Where rules are about URIs, those with . or .. as a segment are refused.
Templates of resources are compared as they are written: to hide one does not
hide the URIs that it makes. A server of which nothing is shown is not named.

The file is looked at each second, and read again on SIGHUP. Servers that are
new in it are started, those that are gone are ended, and those that changed are
replaced, each after the end of the last one; the others go on. A file that is
wrong changes nothing. Notes on stderr tell of servers that are ready, fail and
are started again. A list names those that are missing in _meta, without
details.
With several clients servers are told of no roots and no sampling.

Over HTTP, GET /health tells monitors, without a token: status is ok, degraded
(a server has failed) or down (all have); servers, unless tokens are required,
is a list of name and state. A server is ready while it is connected, failed
from its death, or from a start in vain, until it has been started again, which
may take until a client needs it, and idle otherwise. Servers that rules hide
are left out. The HTTP status is always 200.

A server that requires authorization gets the tokens that `mcp-probe login` has
stored. Tokens of clients are never passed on.

Examples:
  mcp-probe inspect -- mcp-probe gateway --config mcp.json
  mcp-probe gateway --config mcp.json --http 127.0.0.1:8080
  mcp-probe gateway --config mcp.json --listen unix:/run/tools.sock
  mcp-probe gateway --config mcp.json --http 0.0.0.0:8443 \\
      --allow-host tools.example.com --tls-cert chain.pem --tls-key key.pem \\
      --protect https://login.example.com \\
      --audience https://tools.example.com:8443/mcp";

pub(super) const LOGIN_HELP: &str = "\
The browser is opened at the page of the authorization server, which redirects
it to a port of this machine. Without a browser here, use --no-browser or
--device. The client registers itself unless --client-id or --client-metadata
name it.

Examples:
  mcp-probe login https://mcp.example.com/mcp
  mcp-probe login --browser 'firefox --private-window' --scope files:read \\
      https://mcp.example.com/mcp
  mcp-probe login --no-browser https://mcp.example.com/mcp
  mcp-probe login --device --client-id my-client https://mcp.example.com/mcp
  mcp-probe login --grant client-credentials --client-id ci \\
      --client-secret env:SECRET https://mcp.example.com/mcp
  mcp-probe login --grant assertion --client-id job --assertion @/run/token \\
      https://mcp.example.com/mcp";

pub(super) const COMPLETIONS_HELP: &str = "\
Examples:
  mcp-probe completions bash > \\
      ~/.local/share/bash-completion/completions/mcp-probe
  mcp-probe completions zsh > ~/.zfunc/_mcp-probe   (~/.zfunc must be in fpath)
  mcp-probe completions fish > ~/.config/fish/completions/mcp-probe.fish";

pub(super) const SERVE_HELP: &str = "\
Examples:
  mcp-probe inspect -- mcp-probe serve --everything
  mcp-probe inspect -- mcp-probe serve
  mcp-probe call echo text=hello -- mcp-probe serve --era legacy
  mcp-probe serve --everything --http 127.0.0.1:8080
  mcp-probe serve --listen unix:/tmp/demo.sock
  mcp-probe inspect unix:/tmp/demo.sock   (in another terminal)
  mcp-probe serve --listen tcp://127.0.0.1:7000 --max-connections 4
  mcp-probe serve --serial /dev/ttyGS0:115200
  mcp-probe serve --http 127.0.0.1:8080 --runtime threads --shards 2
  mcp-probe serve --http 127.0.0.1:8080 --rate-limit 100/1m \\
      --audit-log calls.jsonl
  mcp-probe serve --http [::]:8443 --allow-host tools.example.com \\
      --tls-cert chain.pem --tls-key key.pem

--tls-cert and --tls-key need an mcp-probe built with the feature tls.";
