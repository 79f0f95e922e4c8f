//! The table of checks, one row per rule.

use serde::Serialize;

use super::profile::{Category, Profile};

/// Severity of a violation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// A MUST of the specification is violated.
    Error,
    /// A SHOULD of the specification is violated.
    Warning,
    /// Good practice is violated.
    Note,
}

impl Severity {
    /// Returns the name: `error`, `warning` or `note`.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

/// A rule that is checked.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Rule {
    /// Name of the check. It is stable.
    pub check: &'static str,
    /// Severity of a violation.
    pub severity: Severity,
    /// Profiles that select the rule, besides the one of its categories.
    profiles: &'static [Profile],
    /// Categories of the OWASP MCP Top 10 that a violation belongs to.
    pub owasp: &'static [Category],
    /// Ids of the requirements behind the rule.
    #[serde(rename = "rules")]
    pub ids: &'static [&'static str],
    /// The rule itself.
    pub line: &'static str,
    /// Advice for a server that violates the rule.
    pub fix: &'static str,
}

impl Rule {
    /// Returns whether a profile selects the rule.
    #[must_use]
    pub fn is_in(&self, profile: Profile) -> bool {
        let selection = profile.selection();
        self.profiles.contains(&selection) || (selection == Profile::Owasp && !self.owasp.is_empty())
    }

    /// Returns what a violation of the rule violates: ids of requirements, and categories where they count.
    #[must_use]
    pub fn requirements(&self, profile: Profile) -> Vec<&'static str> {
        let is_shown = profile == Profile::Owasp || self.ids.is_empty();
        let categories = self.owasp.iter().filter(|_| is_shown).map(|category| category.id());
        categories.chain(self.ids.iter().copied()).collect()
    }

    /// Returns the advice for a server over HTTP or on stdio. Over HTTP no command is involved.
    pub(super) fn fix_for(&self, is_http: bool) -> &'static str {
        if is_http && (self == NOT_A_SERVER || self == ECHOES) {
            "check the URL and its path; --trace shows the responses"
        } else {
            self.fix
        }
    }
}

/// Constants have no unique address, so rules are compared by name.
impl PartialEq for Rule {
    fn eq(&self, other: &Self) -> bool {
        self.check == other.check
    }
}

macro_rules! rules {
    ($($name:ident $check:literal $severity:ident [$($profile:ident)*] $($category:ident)* [$($id:literal)*]
        $line:literal $fix:literal)*) => {
        $(pub(super) const $name: &Rule = &Rule {
            check: $check,
            severity: Severity::$severity,
            profiles: &[$(Profile::$profile),*],
            owasp: &[$(Category::$category),*],
            ids: &[$($id),*],
            line: $line,
            fix: $fix,
        };)*

        /// All rules.
        pub(super) const ALL: &[&Rule] = &[$($name),*];
    };
}

/// Returns the rules that a profile selects, in the order of reports.
pub fn rules(profile: Profile) -> impl Iterator<Item = &'static Rule> {
    ALL.iter().copied().filter(move |rule| rule.is_in(profile))
}

rules! {
    // Whether there is a server at all.
    NOT_A_SERVER "not-a-server" Error [Spec Hosted Owasp] ["LIFE-003" "VER-011"]
        "a server answers `initialize`, `server/discover`, or both"
        "check the command and its arguments; `--stderr show` prints its stderr"
    ECHOES "echoes" Error [Spec Hosted Owasp] ["BASE-017" "STDIO-005"]
        "a server answers requests and does not send them back"
        "this is not an MCP server: check the command"
    NO_ANSWER "no-answer" Error [Spec Hosted Owasp] ["BASE-022" "BASE-023"]
        "each request is answered"
        "answer each request with a result or an error; --timeout gives a slow server more time"
    DIED "died" Error [Spec Owasp] ["STDIO-011"]
        "a server runs until its input ends, whatever input it gets"
        "answer with an error instead of ending"
    STUCK_BY_LINE "stuck-by-line" Error [Spec] ["STDIO-011" "ERR-023"]
        "a bad line does not end the session"
        "skip the line and continue reading"
    GAVE_UP "gave-up" Warning [Spec Hosted Owasp] ["STDIO-011"]
        "a server can be checked to the end"
        "fix the cause of the failures, then check again"

    // Output on stdout.
    NOISE "stdout-noise" Error [Spec] ["STDIO-005"]
        "stdout contains only messages"
        "write logs to stderr"
    FLOOD "flood" Error [Spec Hosted] ["STDIO-005" "STDIO-012"]
        "stdout is not flooded with unsolicited output"
        "write messages only when there is one to send, each on a line of bounded length"
    NOT_UTF8 "not-utf8" Error [Spec Hosted] ["BASE-002" "STDIO-004"]
        "messages are UTF-8 without a byte order mark"
        "write UTF-8 without a byte order mark to stdout"
    MALFORMED "malformed-message" Error [Spec Hosted] ["BASE-001" "BASE-009" "BASE-010" "BASE-011" "BASE-017"]
        "each message is a JSON-RPC 2.0 request, notification or response"
        "write messages as JSON-RPC 2.0 defines them"
    SENT_BATCH "sent-batch" Error [Spec Hosted] ["BATCH-004"]
        "no batches are sent in revisions without them"
        "send each message on a line of its own"
    STRAY_ANSWER "stray-answer" Error [Spec Hosted] ["BASE-008"]
        "each request is answered once, and nothing else is answered"
        "repeat the id of the request, and answer it once"
    ID_CHANGED "id-changed" Error [Spec Hosted] ["BASE-008"]
        "an answer repeats the id of its request, with its type"
        "keep ids as they are: 7 and \"7\" are different"
    NOTIFICATION_ANSWERED "notification-answered" Error [Spec Hosted] ["BASE-016"]
        "notifications are not answered"
        "ignore unknown notifications"
    SERVER_REQUEST "server-request" Error [Spec Hosted] ["LIFE-011" "BASE-019"]
        "a server sends no requests that the client did not declare, and none at all in the modern era"
        "check the client's capabilities before sending it a request"
    UNASKED_NOTIFICATION "unasked-notification" Error [Spec Hosted]
        ["LOG-001" "LOG-007" "TOOL-020" "RES-028" "PROG-010" "SUB-003"]
        "notifications are sent only if they are declared, and requested where that is required"
        "declare the capability, and wait until the client requests it"

    // Shutdown.
    STAYS "stays" Warning [Spec] ["STDIO-021" "LIFE-017"]
        "a server ends soon after its stdin was closed"
        "end when stdin reports the end of input"
    LEFTOVERS "leftovers" Note [Spec] ["STDIO-020"]
        "no processes are left behind"
        "end the processes that the server has started before it ends"

    // HTTP.
    CHALLENGE "challenge" Error [Spec Hosted] Mcp07 ["AUTH-004" "AUTH-020"]
        "a 401 response has a challenge for `Bearer` or `DPoP`"
        "add `WWW-Authenticate: Bearer resource_metadata=\"…\"`"
    CHALLENGE_SCOPE "challenge-scope" Warning [Spec Hosted] Mcp02 ["AUTH-051"]
        "the challenge of a 401 response names the scopes to ask for"
        "add `scope=\"…\"` to the challenge"
    RESOURCE_METADATA "resource-metadata" Error [Spec Hosted] Mcp07 ["AUTH-021"]
        "a server that requires tokens describes itself: at the URL that its challenge names, or at a well-known one"
        "serve the document of RFC 9728, and name it by `resource_metadata` in the challenge"
    RESOURCE_IDENTIFIER "resource-identifier" Error [Spec Hosted] Mcp07 ["AUTH-021" "AUTH-044"]
        "the `resource` of the document is the URL of the server, or a path above it"
        "set it to the URL by which clients know the server"
    AUTHORIZATION_SERVERS "authorization-servers" Error [Spec Hosted] Mcp07 ["AUTH-019"]
        "the document names at least one authorization server, by an https URL"
        "list the issuer identifiers in `authorization_servers`"
    OFFLINE_ACCESS "offline-access" Warning [Spec Hosted] Mcp01 ["AUTH-060"]
        "neither challenges nor the document name the scope `offline_access`"
        "leave it out: clients ask for it themselves"
    UNPROTECTED "unprotected" Error [Spec Hosted] Mcp07 ["AUTH-004" "AUTH-009"]
        "a server that requires tokens serves no request without a valid one, whatever its method"
        "validate the token before anything else"
    CHALLENGE_METHODS "challenge-methods" Warning [Spec Hosted] Mcp07 ["AUTH-004"]
        "GET and DELETE without a token are challenged as POST is, or get 405"
        "answer with 401 and the challenge: clients also learn there that a token is needed, or has expired"
    INVALID_TOKEN "invalid-token" Error [Spec Hosted] Mcp07 ["AUTH-004" "AUTH-009"]
        "an invalid token gets 401, with a challenge for `Bearer` or `DPoP`"
        "answer with 401 and the challenge, so that the client gets another token"
    INVALID_TOKEN_ERROR "invalid-token-error" Warning [Spec Hosted] Mcp07 ["AUTH-009"]
        "the challenge about an invalid token says so"
        "add `error=\"invalid_token\"` to the challenge"
    SERVER_UNREACHABLE "server-unreachable" Warning [Spec Hosted] Mcp07 ["AUTH-027"]
        "named authorization servers can be reached, so that their metadata is checked"
        "check again from where clients are, with the authorization server running"
    SERVER_METADATA "server-metadata" Error [Spec Hosted] Mcp07 ["AUTH-027"]
        "named authorization servers publish their metadata at a well-known location of the issuer identifier"
        "serve it as RFC 8414 or OpenID Connect Discovery defines, or correct `authorization_servers`"
    SERVER_ISSUER "server-issuer" Error [Spec Hosted] Mcp07 ["AUTH-030"]
        "the `issuer` in the metadata of an authorization server is the named one, character by character"
        "use one spelling in both: clients refuse the metadata otherwise, even for a slash at the end"
    SERVER_ENDPOINTS "server-endpoints" Error [Spec Hosted] Mcp01 ["AUTH-061"]
        "an authorization server has a token endpoint, and its endpoints are https"
        "publish https URLs"
    SERVER_PKCE "server-pkce" Error [Spec Hosted] Mcp07 ["AUTH-041" "AUTH-042"]
        "an authorization server that grants codes advertises the PKCE method `S256`"
        "list it in `code_challenge_methods_supported`: clients refuse the server otherwise"
    HTTP_UNANSWERED "http-unanswered" Error [Spec Hosted] ["HTTP-021"]
        "each request is answered with a message in the response to it"
        "answer with a result or an error, even with an error status"
    HTTP_CONTENT_TYPE "http-content-type" Error [Spec Hosted] ["HTTP-021"]
        "requests are answered with `application/json` or `text/event-stream`"
        "set `Content-Type` to one of the two"
    HTTP_BODY "http-body" Error [Spec Hosted] ["HTTP-021" "BASE-001"]
        "bodies and events hold one message each"
        "write JSON-RPC 2.0 and nothing else"
    HTTP_STATUS "http-status" Error [Spec Hosted] ["HTTP-023" "HTTP-024" "HTTP-025" "HTTP-026" "HTTP-027"]
        "results have the status 200; in the modern era -32601 has 404, and -32022, -32021 and -32020 have 400"
        "send the result or error with that status"
    HTTP_ACCEPTED "http-accepted" Error [Spec Hosted] ["HTTP-018"]
        "a notification is accepted with 202 and an empty body"
        "answer with 202 and no body"
    HTTP_BUFFERING "http-buffering" Warning [Spec Hosted] ["SSE-007"]
        "event streams ask proxies not to buffer them"
        "add `X-Accel-Buffering: no`"
    HTTP_ORIGIN "http-origin" Error [Spec Hosted] Mcp07 ["HTTP-003" "HTTP-004"]
        "requests from web pages of other origins are refused with 403"
        "check `Origin` before anything else: otherwise any web page can talk to a server on its visitor's machine"
    HTTP_GET "http-get" Error [Spec Hosted] ["HTTP-049"]
        "GET is answered with an event stream, or with 405"
        "answer with 405 if there is no such stream"
    HTTP_GET_MODERN "http-get-modern" Warning [Spec Hosted] ["HTTP-039"]
        "a modern-only server refuses GET with 405"
        "answer with 405 and `Allow: POST`"
    HTTP_SESSION_ID "http-session-id" Error [Spec Hosted] Mcp07 ["HTTP-066"]
        "session ids consist of visible ASCII characters"
        "use random bytes in hexadecimal digits, for example"
    HTTP_SESSION_UNKNOWN "http-session-unknown" Error [Spec Hosted] Mcp07 ["HTTP-071"]
        "requests in an ended or unknown session get 404"
        "answer with 404, so that the client starts a new session"
    HTTP_SESSION_MISSING "http-session-missing" Warning [Spec Hosted] Mcp07 ["HTTP-069"]
        "if the server uses sessions, requests without a session id get 400"
        "answer with 400"
    HTTP_DELETE "http-delete" Error [Spec Hosted] Mcp07 ["HTTP-074" "HTTP-071"]
        "DELETE ends a session, or is refused with 405"
        "end the session, so that later requests in it get 404"
    HTTP_VERSION "http-version" Error [Spec Hosted] ["HTTP-077"]
        "from 2025-06-18 on, an unknown revision in `MCP-Protocol-Version` is refused with 400"
        "refuse it with that status"
    HTTP_MIRROR "http-mirror" Error [Spec Hosted] ["HTTP-027" "HTTP-031" "HTTP-036"]
        "modern requests whose header differs from the body, or lacks a field, are refused with 400 and -32020"
        "compare `MCP-Protocol-Version`, `Mcp-Method` and `Mcp-Name` with the body"

    // Handshake and discovery.
    INITIALIZE_RESULT "initialize-result" Error [Spec Hosted] ["LIFE-003"]
        "`initialize` is answered with `protocolVersion`, `capabilities` and `serverInfo`"
        "answer with all of them"
    CAPABILITIES "capabilities" Error [Spec Hosted] ["LIFE-014" "SCHEMA-011"]
        "capabilities are objects with members of the right type"
        "write `\"tools\":{}` for a capability without details"
    EXTENSION_ID "extension-id" Error [Spec Hosted] ["EXT-002"]
        "extensions have identifiers with a prefix"
        "use a prefix from your domain, as in `com.example/feature`"
    VERSION_ECHOED "version-unknown" Error [Spec Hosted] ["VER-004"]
        "an unknown revision is answered with a released one that the server speaks"
        "answer with the newest revision that the server speaks, not with the requested one"
    VERSION_REFUSED "version-refused" Error [Spec Hosted] ["VER-004" "ERR-017"]
        "an unknown revision is answered with another one"
        "answer `initialize` with the newest revision that the server speaks instead of an error"
    VERSION_UNSTABLE "version-unstable" Error [Spec Hosted] ["VER-003"]
        "a request for a revision that the server offers is answered with that revision"
        "repeat the requested revision if the server supports it"
    VERSION_MODERN "version-modern" Warning [Spec Hosted] ["VER-005"]
        "`initialize` is never answered with a modern revision"
        "answer with the newest revision that has a handshake"
    INITIALIZE_UNNAMED "initialize-unnamed" Warning [Spec Hosted] ["VER-032"]
        "a server without a handshake names its revisions in its error to `initialize`"
        "name the revisions in the message and in `data.supported`"
    DISCOVER_RESULT "discover-result" Error [Spec Hosted] ["VER-011" "VER-013"]
        "`server/discover` is answered with `supportedVersions` and `capabilities`"
        "answer with both"
    DISCOVER_VERSIONS "discover-versions" Error [Spec Hosted] ["VER-009" "VER-013"]
        "`supportedVersions` lists exactly the supported revisions"
        "list every supported revision, and support every listed one"
    UNSUPPORTED_VERSION "unsupported-version" Error [Spec Hosted] ["VER-009" "ERR-008"]
        "an unknown revision in `_meta` is refused with -32022, `data.supported` and `data.requested`"
        "refuse it with that code and both members"
    MISSING_META "missing-meta" Error [Spec Hosted] ["META-014"]
        "a modern request without the required members of `_meta` is refused with -32602"
        "check the revision and the client's capabilities in the `_meta` of each request"
    RESULT_TYPE "result-type" Error [Spec Hosted] ["BASE-026" "BASE-027"]
        "each modern result has a `resultType`"
        "add `\"resultType\":\"complete\"`"
    CACHE_HINTS "cache-hints" Error [Spec Hosted] ["CACHE-001" "CACHE-002" "CACHE-003"]
        "results that can be cached have `ttlMs`, an integer of at least 0, and `cacheScope`, `public` or `private`"
        "add both; 0 and `private` are always valid"
    CACHE_SCOPE "cache-scope" Error [Spec Hosted] Mcp10 ["CACHE-017"]
        "all pages of a list have the same `cacheScope`"
        "choose one `cacheScope` for the whole list"
    SERVER_INFO "server-info" Warning [Spec Hosted] ["META-018"]
        "each modern result has the name and the version of the server in its `_meta`"
        "add `io.modelcontextprotocol/serverInfo`"
    REMOVED_METHOD "removed-method" Error [Spec Hosted] ["LIFE-024" "PING-006"]
        "modern requests for methods that were removed get -32601"
        "refuse `ping` in modern requests"
    RESERVED_CODE "reserved-code" Error [Spec Hosted] ["ERR-005" "ERR-009"]
        "no error code is used that modern revisions reserve or have removed"
        "use the codes of the specification, or others outside of -32768..-32000"

    // Capabilities.
    DECLARED_NOT_SERVED "declared-not-served" Error [Spec Hosted] ["TOOL-002" "RES-002" "PROMPT-002" "ERR-002"]
        "declared capabilities are served"
        "serve it, or do not declare it"
    SERVED_NOT_DECLARED "served-not-declared" Error [Spec Hosted] ["TOOL-001" "RES-001" "PROMPT-001" "COMP-001" "LIFE-023"]
        "served features are declared as capabilities"
        "declare it, or refuse it with -32601"
    UNDECLARED_CODE "undeclared-code" Warning [Spec Hosted] ["ERR-002"]
        "undeclared features are refused with -32601"
        "refuse it with that code"
    TEMPLATES_NOT_SERVED "templates-not-served" Note [Spec] ["RES-004"]
        "a server with resources answers `resources/templates/list`"
        "answer with an empty list"

    SUBSCRIPTION "subscription" Error [Spec Hosted] ["SUB-004" "SUB-006"]
        "a subscription is acknowledged with its honoured parts, before any other message about it"
        "send `notifications/subscriptions/acknowledged` first, with `notifications`"
    SUBSCRIPTION_ID "subscription-id" Error [Spec Hosted] ["SUB-008"]
        "each notification of a subscription has the id of its request in `_meta`"
        "add `io.modelcontextprotocol/subscriptionId`, with the unchanged id"
    SUBSCRIPTION_FILTER "subscription-filter" Error [Spec Hosted] ["SUB-003" "SUB-006"]
        "a subscription covers only what was requested"
        "acknowledge the filter or a part of it"

    // Answers.
    PING "ping" Error [Spec Hosted] ["PING-002"]
        "`ping` is answered with an empty result"
        "answer with `{}`"
    PARALLEL "parallel" Error [Spec Hosted] ["STDIO-010"]
        "several requests may be in flight"
        "read the next request while others are running, or answer them in turn"
    UNKNOWN_METHOD "unknown-method" Error [Spec Hosted] ["ERR-002"]
        "an unknown method is refused with -32601"
        "refuse it with that code"
    PARSE_ERROR "parse-error" Error [Spec Hosted] ["ERR-023"]
        "invalid JSON gets -32700, if it is answered at all"
        "use that code"
    NULL_ID "null-id" Note [Spec] ["BASE-013"]
        "from 2025-11-25 on, an error about an unreadable message has no `id`"
        "leave `id` out"
    ENVELOPE_ACCEPTED "envelope-accepted" Warning [Spec Hosted] ["BASE-001" "BASE-004" "BASE-007"]
        "requests that violate JSON-RPC are not served"
        "check `jsonrpc`, `id` and `params` before the method"
    ENVELOPE_CODE "envelope-code" Warning [Spec Hosted] ["ERR-001" "BASE-001"]
        "requests that violate JSON-RPC are refused with -32600, invalid params with -32602"
        "use that code"
    ENVELOPE_SILENT "envelope-silent" Note [Spec] ["BASE-001"]
        "requests that violate JSON-RPC are refused rather than ignored"
        "answer with -32600, so that the client need not wait"
    PARAMS_ACCEPTED "params-accepted" Error [Spec Hosted] Mcp05 ["TOOL-021" "RES-005" "PROMPT-004"]
        "requests without required params are refused"
        "check the params first"
    PARAMS_CODE "params-code" Warning [Spec Hosted] ["ERR-001" "ERR-018"]
        "requests without required params are refused with -32602"
        "use that code"
    BATCH_REFUSED "batch-refused" Error [Spec Hosted] ["BATCH-001" "BATCH-007"]
        "batches are supported in 2025-03-26"
        "answer each request of the array"
    BATCH_ACCEPTED "batch-accepted" Warning [Spec Hosted] ["BATCH-004"]
        "batches are refused in revisions without them"
        "refuse arrays with -32600"
    UNKNOWN_TOOL_ACCEPTED "unknown-tool-accepted" Error [Spec Hosted] Mcp05 ["TOOL-021"]
        "a call of an unknown tool fails"
        "refuse it with -32602"
    UNKNOWN_TOOL_RESULT "unknown-tool-result" Warning [Spec Hosted] ["TOOL-024" "ERR-018"]
        "a call of an unknown tool is refused with an error, not with a result with `isError`"
        "refuse it with -32602"
    UNKNOWN_TOOL_CODE "unknown-tool-code" Warning [Spec Hosted] ["ERR-018"]
        "a call of an unknown tool is refused with -32602"
        "use that code"
    UNKNOWN_PROMPT "unknown-prompt" Warning [Spec Hosted] ["PROMPT-010" "ERR-018"]
        "an unknown prompt is refused with -32602"
        "refuse it with that code"
    PROMPT_ARGUMENT "prompt-argument" Warning [Spec Hosted] ["PROMPT-010" "PROMPT-011"]
        "a prompt without an argument that it requires is refused with -32602"
        "check the required arguments first"
    UNKNOWN_RESOURCE "unknown-resource" Warning [Spec Hosted] ["RES-015" "ERR-010"]
        "an unknown resource is refused with -32002 in the legacy era"
        "refuse it with that code, and with the URI in `data.uri`"
    UNKNOWN_RESOURCE_MODERN "unknown-resource-modern" Error [Spec Hosted] ["RES-016" "RES-017"]
        "an unknown resource is refused with -32602 in the modern era"
        "refuse it with that code, and with the URI in `data.uri`"
    RESOURCE_DATA "resource-data" Note [Spec] ["RES-015" "RES-016"]
        "the error about an unknown resource has its URI in `data.uri`"
        "add `data.uri`"
    LOG_LEVEL "log-level" Warning [Spec Hosted] ["LOG-006"]
        "an unknown log level is refused with -32602"
        "refuse it with that code"
    COMPLETION_REF "completion-ref" Warning [Spec Hosted] ["COMP-007"]
        "completions for an unknown prompt are refused with -32602"
        "refuse it with that code"

    // Lists.
    LIST_SHAPE "list-shape" Error [Spec Hosted] ["PAGE-003" "SCHEMA-011"]
        "a list is an array of objects, and `nextCursor` a string"
        "leave `nextCursor` out on the last page"
    CURSOR_LOOP "cursor-loop" Error [Spec Hosted] ["PAGE-003" "PAGE-012"]
        "each cursor leads to another page"
        "leave `nextCursor` out on the last page, and let each cursor name another page"
    LIST_ENDLESS "list-endless" Warning [Spec Hosted] ["PAGE-012"]
        "lists end"
        "make pages larger, or the list shorter"
    DUPLICATE "duplicate" Warning [Spec Hosted] Mcp03 ["TOOL-028" "RES-008" "RES-009" "PROMPT-005"]
        "nothing is listed twice"
        "give each entry a unique name"
    DUPLICATE_PAGES "duplicate-pages" Warning [Spec Hosted] Mcp03 ["PAGE-010"]
        "pages do not overlap"
        "start each page after the last entry of the previous one"
    ORDER "order" Warning [Spec Hosted] ["TOOL-004"]
        "an unchanged list has the same order each time"
        "sort it, or keep it in the order of registration"
    ORDER_OTHER "order-other" Note [Spec] ["PAGE-010"]
        "unchanged lists have the same order each time, even where the revision does not require it"
        "sort it, or keep it in the order of registration"
    INVALID_CURSOR "invalid-cursor" Warning [Spec Hosted] ["PAGE-011" "ERR-018"]
        "a cursor that the server did not issue is refused with -32602"
        "refuse it with that code, even if there is only one page"

    // List entries.
    ENTRY "entry" Error [Spec Hosted] ["TOOL-006" "RES-008" "RES-009" "PROMPT-005" "SCHEMA-011"]
        "list entries have the required members, with the right types"
        "see the schema of the revision"
    TOOL_NAME "tool-name" Warning [Spec Hosted] ["TOOL-028"]
        "tool names have 1 to 128 characters: letters, digits, `_`, `-` and `.`"
        "rename it"
    PLAIN_NAME "plain-name" Note [Spec] ["PROMPT-005"]
        "names have 1 to 128 characters, none of them a control character"
        "rename it"
    NO_DESCRIPTION "no-description" Note [Spec] ["TOOL-006" "RES-008" "RES-009" "PROMPT-005"]
        "entries have a description"
        "add `description`: models and users choose by it"
    NO_TITLE "no-title" Note [Spec] ["META-035"]
        "entries have a title for users"
        "add `title`, for people to read; the name is for programs"
    NO_ARGUMENT_DESCRIPTION "no-argument-description" Note [Spec] ["TOOL-006" "PROMPT-005"]
        "arguments are described"
        "add `description`"
    NO_MIME_TYPE "no-mime-type" Note [Spec] ["RES-008"]
        "resources have a MIME type"
        "add `mimeType`"
    ANNOTATIONS_CONTRADICT "annotations-contradict" Warning [Spec Hosted] Mcp03 ["TOOL-027"]
        "annotations of a tool do not contradict each other"
        "leave `destructiveHint` out where `readOnlyHint` is true"
    ANNOTATION_VALUE "annotation-value" Error [Spec Hosted] ["CONT-004" "BASE-046" "TOOL-027"]
        "annotations have values of the right type"
        "`audience` is an array of `user` and `assistant`, `priority` lies between 0 and 1, hints are true or false"
    INPUT_SCHEMA "input-schema" Error [Spec Hosted] ["TOOL-007"]
        "each tool has an `inputSchema` that is an object with `\"type\":\"object\"`"
        "write `{\"type\":\"object\",\"additionalProperties\":false}` for a tool without parameters"
    OUTPUT_SCHEMA "output-schema" Error [Spec Hosted] ["TOOL-009"]
        "an `outputSchema` is an object; before 2026-07-28 it has `\"type\":\"object\"`"
        "wrap the result into an object, or leave the schema out"
    SCHEMA_INVALID "schema-invalid" Error [Spec Hosted] ["SCHEMA-005"]
        "schemas are valid in their dialect"
        "correct the schema"
    SCHEMA_DIALECT "schema-dialect" Note [Spec] ["SCHEMA-002" "SCHEMA-004"]
        "schemas use 2020-12, which all clients support, or draft-07, which most clients support"
        "write it in 2020-12"
    SCHEMA_DRAFT_07 "schema-draft-07" Warning [Spec Hosted] ["SCHEMA-001" "SCHEMA-005"]
        "a schema that does not name its dialect is valid in 2020-12"
        "add `\"$schema\":\"http://json-schema.org/draft-07/schema#\"`, or write it in 2020-12"
    SCHEMA_REFERENCE "schema-reference" Warning [Spec Hosted] Mcp04 ["SCHEMA-006" "SCHEMA-008"]
        "schemas have no external references, because clients do not fetch them"
        "put the target under `$defs`"
    SCHEMA_LIMIT "schema-limit" Note [Spec] ["SCHEMA-009"]
        "schemas are small enough for clients to accept"
        "make it smaller"
    SCHEMA_UNCHECKED "schema-unchecked" Note [Spec] ["SCHEMA-009"]
        "schemas use only patterns and references that every client supports"
        "avoid look-around and back-references in patterns, and avoid `$id` in subschemas"
    SCHEMA_REQUIRED "schema-required" Note [Spec] ["SCHEMA-005"]
        "required members are declared in `properties`"
        "declare them"
    SCHEMA_IMPOSSIBLE "schema-impossible" Warning [Spec Hosted] ["SCHEMA-005"]
        "at least one value fits a schema"
        "declare the required members, or allow additional ones"
    CONSTRAINTS_UNSEEN "constraints-unseen" Note [Spec] ["TOOL-032"]
        "what a schema says of ranges, lengths and patterns is checked by the server, which no request of this check shows"
        "check them in the tool, or validate arguments by the schema: the types of a language often do not, and clients need not"
    NO_PARAMETERS "no-parameters" Note [Spec] ["TOOL-008"]
        "a tool without parameters has `\"additionalProperties\":false`"
        "add it"
    DUPLICATE_ARGUMENT "duplicate-argument" Warning [Spec Hosted] ["PROMPT-005"]
        "each argument of a prompt has its own name"
        "rename one of them"
    RESOURCE_URI "resource-uri" Error [Spec Hosted] ["RES-026" "RES-008"]
        "resource URIs are valid (RFC 3986)"
        "start it with a scheme, and write invalid characters as %XX"
    URI_TEMPLATE "uri-template" Error [Spec Hosted] ["RES-009"]
        "URI templates are valid (RFC 6570)"
        "correct it"
    APP_TOOL "app-tool" Error [Spec Hosted] ["APP-001" "APP-005" "APP-007"]
        "what a tool says about its app in `_meta.ui` is valid"
        "name the page as `ui://…` in `resourceUri`, and the parties as strings in `visibility`"
    APP_PAGE "app-page" Error [Spec Hosted] ["APP-002" "APP-004" "APP-009"]
        "the page that a tool names can be read and is `text/html;profile=mcp-app`"
        "offer the resource with that media type, and with members of the right type in `_meta.ui`"
    EVENTS_DECLARED "events-declared" Error [Spec Hosted] ["EVT-001" "EVT-002"]
        "events are declared as an object among the extensions"
        "write `\"extensions\":{\"io.modelcontextprotocol/events\":{}}`, and `\"events\":{}` for older clients"
    EVENT_LIST "event-list" Error [Spec Hosted] ["EVT-010"]
        "`events/list` answers with `events`, and with a new `nextCursor` while there are more"
        "answer each page, and leave `nextCursor` out of the last one"
    EVENT_TYPE "event-type" Error [Spec Hosted] ["EVT-011" "EVT-012"]
        "an event type has a name of its own, modes of delivery, and two schemas"
        "write `name`, `delivery` of `poll`, `push` and `webhook`, `inputSchema` and `payloadSchema`"
    EVENT_POLL "event-poll" Error [Spec Hosted] ["EVT-040" "EVT-041" "EVT-042" "EVT-140"]
        "a poll without a cursor answers with no events, and with a cursor or null"
        "begin with what happens from now on, and write `events` as an array"
    EVENT_REFUSED "event-refused" Note [Spec] ["EVT-046" "EVT-087" "EVT-088"]
        "event types can be polled by this caller; one that is refused is not checked"
        "check with a caller who may subscribe, when no limit is reached"
    EVENT_POLL_TIME "event-poll-time" Warning [Spec Hosted] ["EVT-045"]
        "a poll tells the time to the next one, up to a day"
        "write `nextPollMs` as a number of milliseconds"
    EVENT_UNKNOWN "event-unknown" Warning [Spec Hosted] ["EVT-046"]
        "an unknown event type is refused with NotFound, which is -32023 (-32011 in the sketch)"
        "answer with that code"
    TEMPLATE_PLAIN "template-plain" Note [Spec] ["RES-009"]
        "templates have variables"
        "list it as a resource"
    MIME_TYPE "mime-type" Warning [Spec Hosted] ["CONT-003"]
        "MIME types have the form `type/subtype`"
        "correct it"
    ICON "icon" Error [Spec Hosted] ["META-027"]
        "icons have a `src` that is a URL with https or http, or a data: URI, and sizes, for example `48x48` or `any`"
        "correct it"
    ICON_HTTP "icon-http" Note [Spec] ["META-031"]
        "icons use https or data:, because clients refuse other schemes"
        "use https"
    DEPRECATED "deprecated-feature" Note [Spec Hosted] ["LOG-015" "ROOT-013" "SAMP-026" "AUTH-018"]
        "a server uses no feature that the specification deprecates"
        "migrate before the earliest removal"
    META_KEY "meta-key" Error [Spec Hosted] ["META-003" "META-004"]
        "keys of `_meta` are a name, or a prefix of labels with dots, a slash and a name"
        "rename it"

    // Servers on the public internet.
    PLAIN_HTTP "plain-http" Error [Hosted] Mcp01 Mcp07 ["SEC-013"]
        "clients of other machines reach the server by https"
        "serve https, or put a proxy in front that does: tokens and answers can be read and changed on the way"
    NO_AUTHORIZATION "no-authorization" Warning [Hosted] Mcp07 ["AUTH-002"]
        "a server over HTTP requires authorization"
        "require tokens, unless everyone may do what the server does"
    CORS_CREDENTIALS "cors-credentials" Error [Hosted] Mcp07 ["HTTP-003"]
        "web pages of other origins cannot use the credentials of their visitors"
        "allow named origins only, or leave out `Access-Control-Allow-Credentials`"
    SESSION_ID_WEAK "session-id-weak" Warning [Hosted] Mcp07 ["SEC-005"]
        "session ids cannot be guessed"
        "use at least 128 random bits, in hexadecimal digits, for example"
    BODY_LIMIT "body-limit" Note [Hosted] ["HTTP-081"]
        "bodies larger than a limit are refused with 413"
        "set a limit, of 16 MiB at most: a few large bodies exhaust the memory otherwise"
    SERVER_PRODUCT "server-product" Note [Hosted] Mcp10 []
        "responses do not name the version of the software that serves them"
        "remove the version from `Server` and `X-Powered-By`"
    STACK_TRACE "stack-trace" Warning [Hosted] Mcp10 ["LOG-011"]
        "errors have no stack traces"
        "log the details at the server, and answer with a message"

    // Texts that a model reads, and other traces of the OWASP MCP Top 10.
    HIDDEN_TEXT "hidden-text" Warning [] Mcp03 []
        "texts for models have nothing that people do not see"
        "remove invisible characters and HTML comments"
    INSTRUCTIONS_IN_TEXT "instructions-in-text" Warning [] Mcp03 Mcp06 []
        "descriptions say what an entry does, and give the model no orders about other things"
        "describe the entry; before you trust a server of others, ask why it says this"
    SECRET_FILES "secret-files" Warning [] Mcp03 Mcp01 []
        "texts for models name no files with secrets"
        "leave them out: a model that reads them may pass their content on"
    TOOL_LOOKALIKE "tool-lookalike" Warning [] Mcp03 []
        "the names of tools cannot be mistaken for each other"
        "rename one of them"
    SECRET_LISTED "secret-listed" Error [] Mcp01 Mcp10 []
        "lists have no keys, tokens or passwords"
        "revoke the secret, and remove it"
    WIDE_SCOPE "wide-scope" Warning [Hosted] Mcp02 ["AUTH-055"]
        "scopes are narrow: none allows everything"
        "offer a scope for each kind of operation"
    UNPINNED_PACKAGE "unpinned-package" Warning [] Mcp04 []
        "a command that fetches a package names its version"
        "write the version: `npx -y package@1.2.3`, `uvx package==1.2.3`"
    TOOL_RUNS_COMMANDS "tool-runs-commands" Note [] Mcp05 ["TOOL-032"]
        "tools take no commands or code to run"
        "offer the operations themselves; otherwise run them in a sandbox, and let the user confirm each"
    // Categories that a server does not show: never green in silence.
    SCOPES_UNSEEN "scopes-unseen" Note [] Mcp02 []
        "the rights of a server are visible as scopes of its tokens"
        "look at them: a server that is no HTTP server has the rights of its user"
    PACKAGES_UNSEEN "packages-unseen" Note [] Mcp04 []
        "the packages of a server are visible in its command"
        "look at its lock files: a server at a URL shows nothing of them"
    AUTHORIZATION_UNSEEN "authorization-unseen" Note [] Mcp07 []
        "a server decides by tokens who may use it"
        "look at who can start or reach it: a server that is no HTTP server has no authorization of its own"
    AUDIT_UNSEEN "audit-unseen" Note [] Mcp08 []
        "logs and telemetry can be checked from outside"
        "look whether each call is recorded with its caller: the server shows nothing of it"
    SHADOW_UNSEEN "shadow-unseen" Note [] Mcp09 []
        "servers that nobody has approved can be found from one server"
        "look at the inventory, and at the configurations of clients: one server does not show the others"
}

#[cfg(test)]
mod tests {
    use std::{env, fs};

    use super::*;

    #[test]
    fn page_of_checks_has_every_rule() {
        let mut page = String::from(
            "# Checks of `mcp-probe check`\n\n\
             An error violates a MUST of the specification, a warning a SHOULD, a note good practice. The ids are those of the\n\
             requirements in `tests/spec-map.tsv`. `--profile` selects rules: `spec` is the default, `strict` the same with every finding\n\
             a failure, `hosted` for servers on the public internet, and `owasp` has the rules with a category of the OWASP MCP Top 10\n\
             (a beta), which are listed below. This page is written by a test from the rules themselves.\n\n\
             | check | | profiles | rule | requirements | what to do |\n|---|---|---|---|---|---|\n",
        );
        for rule in ALL {
            let categories = rule.owasp.iter().map(|category| category.id());
            let selected = Profile::ALL.into_iter().filter(|profile| rule.is_in(*profile));
            let names = selected.map(|profile| profile.as_str().to_owned()).filter(|name| name != "strict");
            let profiles: Vec<_> = names.chain(categories.map(str::to_owned)).collect();
            let cells = [&profiles.join(", "), rule.line, &rule.ids.join(", "), rule.fix];
            let cells = cells.map(|text| text.replace('|', "\\|"));
            page += &format!("| `{}` | {} | {} |\n", rule.check, rule.severity.word(), cells.join(" | "));
        }
        page += "\nThe categories of the OWASP MCP Top 10:\n\n";
        for category in Category::ALL {
            page += &format!("- {}: {}\n", category.id(), category.title());
        }
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/checks.md");
        if env::var_os("UPDATE_CHECKS").is_some() {
            fs::write(path, &page).expect("written");
        }
        let written = fs::read_to_string(path).unwrap_or_default();
        assert!(written == page, "checks.md: run this test with UPDATE_CHECKS=1");
    }
}
