//! What is checked: one row per rule

use serde::Serialize;

/// How bad it is when a rule is broken
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Severity {
    /// A MUST of the specification is broken
    Error,
    /// A SHOULD is
    Warning,
    /// Good practice is
    Note,
}

/// Something that is checked
#[derive(Debug, Serialize)]
pub(crate) struct Rule {
    /// Its name, which stays the same
    pub(crate) check: &'static str,
    pub(crate) severity: Severity,
    /// The requirements that stand behind it
    pub(crate) rules: &'static [&'static str],
    /// What has to hold
    pub(crate) line: &'static str,
    /// What to do when it does not
    pub(crate) fix: &'static str,
}

/// Constants have no address of their own; the name tells rules apart
impl PartialEq for Rule {
    fn eq(&self, other: &Self) -> bool {
        self.check == other.check
    }
}

macro_rules! rules {
    ($($name:ident $check:literal $severity:ident [$($id:literal)*] $line:literal $fix:literal)*) => {
        $(pub(super) const $name: &Rule = &Rule {
            check: $check,
            severity: Severity::$severity,
            rules: &[$($id),*],
            line: $line,
            fix: $fix,
        };)*

        /// All of them
        pub(crate) const ALL: &[&Rule] = &[$($name),*];
    };
}

rules! {
    // Whether there is a server at all.
    NOT_A_SERVER "not-a-server" Error ["LIFE-003" "VER-011"]
        "a server answers `initialize`, `server/discover`, or both"
        "check the command and its arguments; `--stderr show` shows what it has to say"
    ECHOES "echoes" Error ["BASE-017" "STDIO-005"]
        "a server answers requests and does not send them back"
        "this is no MCP server: check the command"
    NO_ANSWER "no-answer" Error ["BASE-022" "BASE-023"]
        "each request is answered"
        "answer each request with a result or an error; --timeout gives a slow server more time"
    DIED "died" Error ["STDIO-011"]
        "a server stays until its input ends, whatever it is sent"
        "answer with an error instead of ending"
    STUCK_BY_LINE "stuck-by-line" Error ["STDIO-011" "ERR-023"]
        "a bad line does not end the session"
        "skip the line and read on"
    GAVE_UP "gave-up" Warning ["STDIO-011"]
        "a server can be checked to the end"
        "correct what made the server fail so often, then check again"

    // What comes out of stdout.
    NOISE "stdout-noise" Error ["STDIO-005"]
        "there is nothing but messages on stdout"
        "write logs to stderr"
    FLOOD "flood" Error ["STDIO-005" "STDIO-012"]
        "stdout is not flooded with what nobody asked for"
        "write messages only when there is one to send, each on a line of bounded length"
    NOT_UTF8 "not-utf8" Error ["BASE-002" "STDIO-004"]
        "messages are UTF-8 without a byte order mark"
        "write UTF-8 without a byte order mark to stdout"
    MALFORMED "malformed-message" Error ["BASE-001" "BASE-009" "BASE-010" "BASE-011" "BASE-017"]
        "each message is a JSON-RPC 2.0 request, notification or response"
        "write messages of the form that JSON-RPC 2.0 gives them"
    SENT_BATCH "sent-batch" Error ["BATCH-004"]
        "no batches are sent in revisions that have none"
        "send each message on a line of its own"
    STRAY_ANSWER "stray-answer" Error ["BASE-008"]
        "each request is answered once, and nothing else is"
        "repeat the id of the request, and answer it once"
    ID_CHANGED "id-changed" Error ["BASE-008"]
        "an answer repeats the id of its request, with its type"
        "keep ids as they are: 7 and \"7\" are different"
    NOTIFICATION_ANSWERED "notification-answered" Error ["BASE-016"]
        "notifications are not answered"
        "ignore notifications that are not known"
    SERVER_REQUEST "server-request" Error ["LIFE-011" "BASE-019"]
        "a server sends no requests that the client did not declare, and none at all in the modern era"
        "look at the client's capabilities before asking it for something"
    UNASKED_NOTIFICATION "unasked-notification" Error
        ["LOG-001" "LOG-007" "TOOL-020" "RES-028" "PROG-010" "SUB-003"]
        "notifications are sent only when they were declared, and asked for where they have to be"
        "declare the capability, and wait until the client has asked"

    // Its end.
    STAYS "stays" Warning ["STDIO-021" "LIFE-017"]
        "a server ends soon after its stdin was closed"
        "end when reading stdin gives the end of the stream"
    LEFTOVERS "leftovers" Note ["STDIO-020"]
        "no processes are left behind"
        "end the processes that the server has started before it ends"

    // What its messages come in over HTTP.
    HTTP_UNANSWERED "http-unanswered" Error ["HTTP-021"]
        "each request is answered with a message in the response to it"
        "answer with a result or an error, also where the status says that something is wrong"
    HTTP_CONTENT_TYPE "http-content-type" Error ["HTTP-021"]
        "requests are answered with `application/json` or `text/event-stream`"
        "say which of the two it is in `Content-Type`"
    HTTP_BODY "http-body" Error ["HTTP-021" "BASE-001"]
        "bodies and events hold one message each"
        "write JSON-RPC 2.0 and nothing else"
    HTTP_STATUS "http-status" Error ["HTTP-023" "HTTP-024" "HTTP-025" "HTTP-026" "HTTP-027"]
        "results have the status 200; in the modern era -32601 has 404, and -32022, -32021 and -32020 have 400"
        "use that status"
    HTTP_ACCEPTED "http-accepted" Error ["HTTP-018"]
        "a notification is accepted with 202 and an empty body"
        "answer it so"
    HTTP_BUFFERING "http-buffering" Warning ["SSE-007"]
        "streams of events ask proxies not to hold them back"
        "add `X-Accel-Buffering: no`"
    HTTP_ORIGIN "http-origin" Error ["HTTP-003" "HTTP-004"]
        "what a page of another origin sends is refused with 403"
        "look at `Origin` before anything else: without that, any web page can talk to a server on its visitor's machine"
    HTTP_GET "http-get" Error ["HTTP-049"]
        "GET is answered with a stream of events, or with 405"
        "answer with 405 where there is no such stream"
    HTTP_GET_MODERN "http-get-modern" Warning ["HTTP-039"]
        "a server of the modern era alone refuses GET with 405"
        "answer with 405 and `Allow: POST`"
    HTTP_SESSION_ID "http-session-id" Error ["HTTP-066"]
        "session ids are of visible ASCII characters"
        "write random bytes in hexadecimal digits, for instance"
    HTTP_SESSION_UNKNOWN "http-session-unknown" Error ["HTTP-071"]
        "requests of a session that is over, or never was, get 404"
        "answer with 404, so that the client begins a new one"
    HTTP_SESSION_MISSING "http-session-missing" Warning ["HTTP-069"]
        "where there are sessions, requests without one get 400"
        "answer with 400"
    HTTP_DELETE "http-delete" Error ["HTTP-074" "HTTP-071"]
        "DELETE ends a session, or is refused with 405"
        "end it, so that what is asked in it later gets 404"
    HTTP_VERSION "http-version" Error ["HTTP-077"]
        "from 2025-06-18 on, an unknown revision in `MCP-Protocol-Version` is refused with 400"
        "refuse it so"
    HTTP_MIRROR "http-mirror" Error ["HTTP-027" "HTTP-031" "HTTP-036"]
        "modern requests whose header differs from the body, or lacks something, are refused with 400 and -32020"
        "compare `MCP-Protocol-Version`, `Mcp-Method` and `Mcp-Name` with the body"

    // How it introduces itself.
    INITIALIZE_RESULT "initialize-result" Error ["LIFE-003"]
        "`initialize` is answered with `protocolVersion`, `capabilities` and `serverInfo`"
        "answer with all of them"
    CAPABILITIES "capabilities" Error ["LIFE-014" "SCHEMA-011"]
        "capabilities are objects, and what they hold is of the right type"
        "write `\"tools\":{}` for a capability without details"
    EXTENSION_ID "extension-id" Error ["EXT-002"]
        "extensions have identifiers with a prefix"
        "name it after a domain of yours, as in `com.example/feature`"
    VERSION_ECHOED "version-unknown" Error ["VER-004"]
        "an unknown revision is answered with a released one that the server speaks"
        "answer with the newest revision that the server speaks, not with what was asked"
    VERSION_REFUSED "version-refused" Error ["VER-004" "ERR-017"]
        "an unknown revision is answered with another one"
        "answer `initialize` with the newest revision that the server speaks instead of an error"
    VERSION_UNSTABLE "version-unstable" Error ["VER-003"]
        "a revision that the server offers is the one it answers with when asked for it"
        "repeat the asked revision if the server speaks it"
    VERSION_MODERN "version-modern" Warning ["VER-005"]
        "`initialize` is never answered with a modern revision"
        "answer with the newest revision that has a handshake"
    INITIALIZE_UNNAMED "initialize-unnamed" Warning ["VER-032"]
        "a server without a handshake names its revisions in the error that it gives to `initialize`"
        "put the revisions into the message and into `data.supported`"
    DISCOVER_RESULT "discover-result" Error ["VER-011" "VER-013"]
        "`server/discover` is answered with `supportedVersions` and `capabilities`"
        "answer with both"
    DISCOVER_VERSIONS "discover-versions" Error ["VER-009" "VER-013"]
        "`supportedVersions` is what the server speaks"
        "list what is spoken, and speak what is listed"
    UNSUPPORTED_VERSION "unsupported-version" Error ["VER-009" "ERR-008"]
        "an unknown revision in `_meta` is refused with -32022, `data.supported` and `data.requested`"
        "refuse it so"
    MISSING_META "missing-meta" Error ["META-014"]
        "a modern request without what it needs in `_meta` is refused with -32602"
        "look for the revision and for the client's capabilities in the `_meta` of each request"
    RESULT_TYPE "result-type" Error ["BASE-026" "BASE-027"]
        "each modern result says `resultType`"
        "add `\"resultType\":\"complete\"`"
    CACHE_HINTS "cache-hints" Error ["CACHE-001" "CACHE-002" "CACHE-003"]
        "results that can be cached have `ttlMs`, an integer of at least 0, and `cacheScope`, `public` or `private`"
        "add both; 0 and `private` are always right"
    CACHE_SCOPE "cache-scope" Error ["CACHE-017"]
        "all pages of a list have the same `cacheScope`"
        "decide it for the list"
    SERVER_INFO "server-info" Warning ["META-018"]
        "each modern result has the name and the version of the server in its `_meta`"
        "add `io.modelcontextprotocol/serverInfo`"
    REMOVED_METHOD "removed-method" Error ["LIFE-024" "PING-006"]
        "modern requests for methods that were removed get -32601"
        "refuse `ping` when the request is a modern one"
    RESERVED_CODE "reserved-code" Error ["ERR-005" "ERR-009"]
        "no error code is used that the modern revisions reserve or have dropped"
        "use the codes of the specification, and others outside of -32768..-32000"

    // What it says that it has.
    DECLARED_NOT_SERVED "declared-not-served" Error ["TOOL-002" "RES-002" "PROMPT-002" "ERR-002"]
        "what is declared as a capability is there"
        "serve it, or do not declare it"
    SERVED_NOT_DECLARED "served-not-declared" Error ["TOOL-001" "RES-001" "PROMPT-001" "COMP-001" "LIFE-023"]
        "what is there is declared as a capability"
        "declare it, or refuse it with -32601"
    UNDECLARED_CODE "undeclared-code" Warning ["ERR-002"]
        "what is not declared is refused with -32601"
        "refuse it with that code"
    TEMPLATES_NOT_SERVED "templates-not-served" Note ["RES-004"]
        "a server with resources answers `resources/templates/list`"
        "answer with an empty list"

    SUBSCRIPTION "subscription" Error ["SUB-004" "SUB-006"]
        "a subscription is acknowledged with what of it is honoured, before anything else is said about it"
        "send `notifications/subscriptions/acknowledged` first, with `notifications`"
    SUBSCRIPTION_ID "subscription-id" Error ["SUB-008"]
        "each notification of a subscription has the id of its request in `_meta`"
        "add `io.modelcontextprotocol/subscriptionId`, with the id as it came"
    SUBSCRIPTION_FILTER "subscription-filter" Error ["SUB-003" "SUB-006"]
        "a subscription is for nothing that was not asked for"
        "acknowledge what is in the filter, or less"

    // How it answers.
    PING "ping" Error ["PING-002"]
        "`ping` is answered with an empty result"
        "answer with `{}`"
    PARALLEL "parallel" Error ["STDIO-010"]
        "several requests may be in flight"
        "read the next request while others are worked on, or answer them in turn"
    UNKNOWN_METHOD "unknown-method" Error ["ERR-002"]
        "an unknown method is refused with -32601"
        "refuse it with that code"
    PARSE_ERROR "parse-error" Error ["ERR-023"]
        "what is no JSON gets -32700, if it is answered at all"
        "use that code"
    NULL_ID "null-id" Note ["BASE-013"]
        "from 2025-11-25 on, an error about a message that was not understood has no `id`"
        "leave `id` out"
    ENVELOPE_ACCEPTED "envelope-accepted" Warning ["BASE-001" "BASE-004" "BASE-007"]
        "requests that are none by the rules of JSON-RPC are not served"
        "look at `jsonrpc`, `id` and `params` before the method"
    ENVELOPE_CODE "envelope-code" Warning ["ERR-001" "BASE-001"]
        "requests that are none by the rules of JSON-RPC are refused with -32600, bad params with -32602"
        "use that code"
    ENVELOPE_SILENT "envelope-silent" Note ["BASE-001"]
        "requests that are none by the rules of JSON-RPC are refused rather than ignored"
        "answer with -32600, so that the client need not wait"
    PARAMS_ACCEPTED "params-accepted" Error ["TOOL-021" "RES-005" "PROMPT-004"]
        "requests without the params that they need are refused"
        "look at the params first"
    PARAMS_CODE "params-code" Warning ["ERR-001" "ERR-018"]
        "requests without the params that they need are refused with -32602"
        "use that code"
    BATCH_REFUSED "batch-refused" Error ["BATCH-001" "BATCH-007"]
        "batches are understood in 2025-03-26"
        "answer each request of the array"
    BATCH_ACCEPTED "batch-accepted" Warning ["BATCH-004"]
        "batches are refused in revisions that have none"
        "refuse arrays with -32600"
    UNKNOWN_TOOL_ACCEPTED "unknown-tool-accepted" Error ["TOOL-021"]
        "a call of an unknown tool fails"
        "refuse it with -32602"
    UNKNOWN_TOOL_RESULT "unknown-tool-result" Warning ["TOOL-024" "ERR-018"]
        "a call of an unknown tool is refused with an error, not with a result that says `isError`"
        "refuse it with -32602"
    UNKNOWN_TOOL_CODE "unknown-tool-code" Warning ["ERR-018"]
        "a call of an unknown tool is refused with -32602"
        "use that code"
    UNKNOWN_PROMPT "unknown-prompt" Warning ["PROMPT-010" "ERR-018"]
        "an unknown prompt is refused with -32602"
        "refuse it with that code"
    PROMPT_ARGUMENT "prompt-argument" Warning ["PROMPT-010" "PROMPT-011"]
        "a prompt without an argument that it requires is refused with -32602"
        "look for the required arguments first"
    UNKNOWN_RESOURCE "unknown-resource" Warning ["RES-015" "ERR-010"]
        "an unknown resource is refused with -32002 in the legacy era"
        "refuse it with that code, and with the URI in `data.uri`"
    UNKNOWN_RESOURCE_MODERN "unknown-resource-modern" Error ["RES-016" "RES-017"]
        "an unknown resource is refused with -32602 in the modern era"
        "refuse it with that code, and with the URI in `data.uri`"
    RESOURCE_DATA "resource-data" Note ["RES-015" "RES-016"]
        "the error about an unknown resource has its URI in `data.uri`"
        "add it"
    LOG_LEVEL "log-level" Warning ["LOG-006"]
        "an unknown log level is refused with -32602"
        "refuse it with that code"
    COMPLETION_REF "completion-ref" Warning ["COMP-007"]
        "completions for an unknown prompt are refused with -32602"
        "refuse it with that code"

    // Its lists.
    LIST_SHAPE "list-shape" Error ["PAGE-003" "SCHEMA-011"]
        "a list is an array of objects, and `nextCursor` a string"
        "leave `nextCursor` out on the last page"
    CURSOR_LOOP "cursor-loop" Error ["PAGE-003" "PAGE-012"]
        "each cursor leads further"
        "leave `nextCursor` out on the last page, and make each one name another page"
    LIST_ENDLESS "list-endless" Warning ["PAGE-012"]
        "lists end"
        "make pages larger, or the list shorter"
    DUPLICATE "duplicate" Warning ["TOOL-028" "RES-008" "RES-009" "PROMPT-005"]
        "nothing is listed twice"
        "give each its own name"
    DUPLICATE_PAGES "duplicate-pages" Warning ["PAGE-010"]
        "pages do not overlap"
        "let a page begin behind the last entry of the one before"
    ORDER "order" Warning ["TOOL-004"]
        "a list that did not change has the same order each time"
        "sort it, or keep it in the order of registration"
    ORDER_OTHER "order-other" Note ["PAGE-010"]
        "lists that did not change have the same order each time, also where the revision does not say so"
        "sort it, or keep it in the order of registration"
    INVALID_CURSOR "invalid-cursor" Warning ["PAGE-011" "ERR-018"]
        "a cursor that the server did not give is refused with -32602"
        "refuse it with that code, also where there is only one page"

    // What is in them.
    ENTRY "entry" Error ["TOOL-006" "RES-008" "RES-009" "PROMPT-005" "SCHEMA-011"]
        "entries of lists have the members that they need, of the right types"
        "see the schema of the revision"
    TOOL_NAME "tool-name" Warning ["TOOL-028"]
        "names of tools have 1 to 128 characters out of letters, digits, `_`, `-` and `.`"
        "rename it"
    PLAIN_NAME "plain-name" Note ["PROMPT-005"]
        "names have 1 to 128 characters, none of them a control character"
        "rename it"
    NO_DESCRIPTION "no-description" Note ["TOOL-006" "RES-008" "RES-009" "PROMPT-005"]
        "what is offered is described"
        "add `description`: it is what a model or a person chooses by"
    NO_TITLE "no-title" Note ["META-035"]
        "what people see has a title"
        "add `title`, for people to read; the name is for programs"
    NO_ARGUMENT_DESCRIPTION "no-argument-description" Note ["TOOL-006" "PROMPT-005"]
        "arguments are described"
        "add `description`"
    NO_MIME_TYPE "no-mime-type" Note ["RES-008"]
        "resources say of which type they are"
        "add `mimeType`"
    ANNOTATIONS_CONTRADICT "annotations-contradict" Warning ["TOOL-027"]
        "annotations of a tool do not contradict each other"
        "leave `destructiveHint` out where `readOnlyHint` is true"
    ANNOTATION_VALUE "annotation-value" Error ["CONT-004" "BASE-046" "TOOL-027"]
        "annotations have values of the right type"
        "`audience` is an array of `user` and `assistant`, `priority` lies between 0 and 1, hints are true or false"
    INPUT_SCHEMA "input-schema" Error ["TOOL-007"]
        "each tool has an `inputSchema` that is an object and says `\"type\":\"object\"`"
        "write `{\"type\":\"object\",\"additionalProperties\":false}` for a tool without parameters"
    OUTPUT_SCHEMA "output-schema" Error ["TOOL-009"]
        "an `outputSchema` is an object; before 2026-07-28 it says `\"type\":\"object\"`"
        "wrap the result into an object, or leave the schema out"
    SCHEMA_INVALID "schema-invalid" Error ["SCHEMA-005"]
        "schemas are valid in their dialect"
        "correct the schema"
    SCHEMA_DIALECT "schema-dialect" Note ["SCHEMA-002" "SCHEMA-004"]
        "schemas are of 2020-12, which all clients know, or of draft-07, which most do"
        "write it in 2020-12"
    SCHEMA_DRAFT_07 "schema-draft-07" Warning ["SCHEMA-001" "SCHEMA-005"]
        "a schema that does not name its dialect is valid in 2020-12"
        "add `\"$schema\":\"http://json-schema.org/draft-07/schema#\"`, or write it in 2020-12"
    SCHEMA_REFERENCE "schema-reference" Warning ["SCHEMA-006" "SCHEMA-008"]
        "schemas refer to nothing outside of themselves, as no client fetches that"
        "put it under `$defs`"
    SCHEMA_LIMIT "schema-limit" Note ["SCHEMA-009"]
        "schemas are of a size that clients accept"
        "make it smaller"
    SCHEMA_UNCHECKED "schema-unchecked" Note ["SCHEMA-009"]
        "schemas have only patterns and references that each client can follow"
        "do without look-around and back-references in patterns, and without `$id` in subschemas"
    SCHEMA_REQUIRED "schema-required" Note ["SCHEMA-005"]
        "required members are declared in `properties`"
        "declare them"
    SCHEMA_IMPOSSIBLE "schema-impossible" Warning ["SCHEMA-005"]
        "some value fits a schema"
        "declare the required members, or allow additional ones"
    NO_PARAMETERS "no-parameters" Note ["TOOL-008"]
        "a tool without parameters says `\"additionalProperties\":false`"
        "add it"
    DUPLICATE_ARGUMENT "duplicate-argument" Warning ["PROMPT-005"]
        "each argument of a prompt has its own name"
        "rename one of them"
    RESOURCE_URI "resource-uri" Error ["RES-026" "RES-008"]
        "resources have URIs by RFC 3986"
        "begin it with a scheme, and write what else it may not hold as %XX"
    URI_TEMPLATE "uri-template" Error ["RES-009"]
        "templates are ones by RFC 6570"
        "correct it"
    TEMPLATE_PLAIN "template-plain" Note ["RES-009"]
        "templates have variables"
        "list it as a resource"
    MIME_TYPE "mime-type" Warning ["CONT-003"]
        "MIME types have the form `type/subtype`"
        "correct it"
    ICON "icon" Error ["META-027"]
        "icons have a `src` that is a URL with https or http, or a data: URI, and sizes such as `48x48` or `any`"
        "correct it"
    ICON_HTTP "icon-http" Note ["META-031"]
        "icons come by https or as data:, as clients refuse others"
        "use https"
    META_KEY "meta-key" Error ["META-003" "META-004"]
        "keys of `_meta` are a name, or a prefix of labels with dots, a slash and a name"
        "rename it"
}
