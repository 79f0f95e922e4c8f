/* The Model Context Protocol as a C library: clients and servers as state machines over bytes.
 *
 * Made from the Rust source by cbindgen. The README beside it has the loop and examples. In short:
 *
 * - Text is UTF-8 with a length (mcp_slice). Structured values are JSON text. Times are microseconds of one monotonic clock.
 * - A handle is used by one thread at a time; a second one gets MCP_ERROR_BUSY.
 * - Errors are negative. A function that fails has changed nothing, except with MCP_ERROR_PANIC.
 * - A slice that a function stores belongs to the handle. Its function says for how long it can be read.
 * - Set the member `size` of a structure that has it, and all others that are not needed to 0.
 *
 * Licensed under MIT or Apache-2.0, at your option. */


#ifndef MCP_H
#define MCP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

// Version of the binary interface that the header describes. Compare it with `mcp_abi_version()`.
#define MCP_ABI_VERSION 1

// A list: tools.
#define MCP_LIST_TOOLS 1

// A list: resources.
#define MCP_LIST_RESOURCES 2

// A list: resource templates.
#define MCP_LIST_RESOURCE_TEMPLATES 3

// A list: prompts.
#define MCP_LIST_PROMPTS 4

// `mcp_config.flags`: tools may run as tasks. A server needs `entropy`.
#define MCP_TASKS 1

// `mcp_config.flags`: limits for little memory: messages up to 8 KiB, 8 calls at once, 64 faulty messages in a row.
#define MCP_SMALL_LIMITS 2

// `mcp_config.flags`: requests with any method that the protocol does not define are accepted.
#define MCP_ANY_METHOD 4

// `mcp_config.flags`, client: the server is known to require `initialize`.
#define MCP_KNOWN_LEGACY 8

// `mcp_config.flags`, client: the server is known to answer `server/discover`.
#define MCP_KNOWN_MODERN 16

// `mcp_config.flags`: drafts of the specification are followed where they differ from the releases.
#define MCP_DRAFT 32

// `mcp_config.flags`: in sessions up to 2025-06-18 a message whose id cannot be read is answered, too, by an error with the id `null`.
#define MCP_NULL_IDS 64

// `mcp_call_options.flags`: the server is asked for progress.
#define MCP_CALL_WANTS_PROGRESS 1

// `mcp_call_options.flags`: `mcp_client_call_tool` asks for a task, and follows it (`MCP_TASKS`).
#define MCP_CALL_AS_TASK 2

// `mcp_event.flags`: the client asks for progress of the call.
#define MCP_EVENT_WANTS_PROGRESS 1

// `mcp_event.flags`: the call may become a task (`mcp_server_begin_task`).
#define MCP_EVENT_TASK_ALLOWED 2

// `mcp_event.flags`: the client asks for a task. `MCP_EVENT_TASK_ALLOWED` is set, too.
#define MCP_EVENT_TASK_REQUESTED 4

// `mcp_event.flags`: the call runs a task.
#define MCP_EVENT_TASK_RUN 8

// `mcp_event.flags`: the resource has a subscriber now.
#define MCP_EVENT_SUBSCRIBED 16

// `mcp_event.flags`: the server may work if it is started again, with `MCP_KNOWN_LEGACY`.
#define MCP_EVENT_RETRY_LEGACY 32

// A change: the list of tools.
#define MCP_CHANGE_TOOLS 1

// A change: the list of prompts.
#define MCP_CHANGE_PROMPTS 2

// A change: the lists of resources and resource templates.
#define MCP_CHANGE_RESOURCES 3

// A change: the content of one resource, by its URI.
#define MCP_CHANGE_RESOURCE 4

// The outcome of a function, or of a call in an event. Errors are negative.
//
// A function that returns an error has changed nothing and sent nothing, except for `MCP_ERROR_PANIC`.
typedef enum mcp_status {
  // Success.
  MCP_OK = 0,
  // Success, and there is nothing: no event, nothing to write, no deadline, no such member or answer.
  MCP_DONE = 1,
  // A null pointer, a handle of another kind, a wrong length, a size that is not set, an unknown flag or number.
  MCP_ERROR_INVALID_ARGUMENT = -1,
  // A text is not UTF-8.
  MCP_ERROR_INVALID_UTF8 = -2,
  // A text is not JSON, is nested more than 128 deep, or is not an object where one is needed.
  MCP_ERROR_INVALID_JSON = -3,
  // The JSON value does not have the form that belongs here.
  MCP_ERROR_INVALID_VALUE = -4,
  // The buffer is too small. The length that is needed was told.
  MCP_ERROR_BUFFER_TOO_SMALL = -5,
  // The id names nothing, or something that has ended.
  MCP_ERROR_STALE = -6,
  // The connection is not ready yet.
  MCP_ERROR_NOT_READY = -7,
  // The connection has ended.
  MCP_ERROR_CLOSED = -8,
  // The function must not be called now: input after its end, or more bytes consumed than there were.
  MCP_ERROR_WRONG_ORDER = -9,
  // A limit is reached.
  MCP_ERROR_LIMIT = -10,
  // The peer lacks the capability, or the revision in use has no such feature.
  MCP_ERROR_UNSUPPORTED = -11,
  // The configuration does not declare the capability.
  MCP_ERROR_NOT_DECLARED = -12,
  // The method or the member is reserved for the protocol.
  MCP_ERROR_RESERVED = -13,
  // The feature needs `mcp_config.entropy`.
  MCP_ERROR_NO_ENTROPY = -14,
  // The peer answered with an error: `mcp_event.code`, `text` and `json`.
  MCP_ERROR_RPC = -20,
  // No answer came in time.
  MCP_ERROR_TIMED_OUT = -21,
  // The call or its task was cancelled.
  MCP_ERROR_CANCELLED = -22,
  // Input that the call needs was refused.
  MCP_ERROR_REFUSED = -23,
  // The answer of the peer is not valid.
  MCP_ERROR_BAD_ANSWER = -24,
  // The task is lost: the peer does not know it, or its time has passed.
  MCP_ERROR_TASK_LOST = -25,
  // Another thread, or a caller further up, uses the handle.
  MCP_ERROR_BUSY = -40,
  // A defect of this library: please report it. The handle is of no use any more.
  MCP_ERROR_PANIC = -41,
  // The handle is of no use any more, after `MCP_ERROR_PANIC`. It can only be freed.
  MCP_ERROR_POISONED = -42,
} mcp_status;

// The kind of an event. Each names the members of `mcp_event` that it sets; the others are 0 or empty.
typedef enum mcp_event_kind {
  // No event.
  MCP_EVENT_NONE = 0,
  // The connection has ended. The last event. `text` has the reason; `flags` may have `MCP_EVENT_RETRY_LEGACY`.
  MCP_EVENT_CLOSED = 1,
  // The peer deviated from the protocol, which affects nothing else. `text` describes it.
  MCP_EVENT_DIAGNOSTIC = 2,
  // A notification that the library does not handle: `method`, `json` (parameters).
  MCP_EVENT_NOTIFICATION = 3,
  // Server: a request. Answer `call` by exactly one of `mcp_server_respond`, `mcp_server_respond_text`,
  // `mcp_server_respond_error`, `mcp_server_ask`, `mcp_server_elicit` and `mcp_server_begin_task`.
  //
  // `method`, `json` (parameters), and for a call of a tool `name` and `arguments`. `attempt` counts the earlier
  // deliveries, after input was asked for. `flags`.
  MCP_EVENT_CALL = 10,
  // Server: `call` ended before it was answered, so work on it should stop. `text` has the reason.
  MCP_EVENT_CALL_CANCELLED = 11,
  // Server: a call that waited for input has ended, and is not delivered again. `text` has the state that was kept.
  MCP_EVENT_INPUT_DROPPED = 12,
  // Server: a client opened a session (revisions up to 2025-11-25). `text` has the revision.
  MCP_EVENT_SESSION_OPENED = 13,
  // Server: the resource with the URI `text` got its first subscriber (`MCP_EVENT_SUBSCRIBED` in `flags`), or lost its
  // last one.
  MCP_EVENT_RESOURCE_INTEREST = 14,
  // Client: the connection is ready. `text` has the revision; `mcp_client_peer` tells more.
  MCP_EVENT_READY = 20,
  // Client: `call` has ended. `status` is `MCP_OK`, and `json` the result; or `status` is an error, `text` describes
  // it, and for `MCP_ERROR_RPC` `code` is that of the peer and `json` its data.
  MCP_EVENT_DONE = 21,
  // Client: progress of `call`: `progress`, `total` (negative if unknown), `text`.
  MCP_EVENT_PROGRESS = 22,
  // Client: `call` follows a task, or the state of its task has changed: `json`.
  MCP_EVENT_TASK = 23,
  // Client: the server asks for input. Answer `id` by exactly one of `mcp_client_answer` and `mcp_client_refuse`.
  //
  // `call`, 0 if it is not known which call needs it. `method`, `json` (parameters), and `name`, the key that the
  // server uses, if any.
  MCP_EVENT_INPUT = 24,
  // Client: the input `id` is not needed any more.
  MCP_EVENT_INPUT_WITHDRAWN = 25,
  // Client: the server has acknowledged the subscription `id`. `json` is the part of the filter that it honours.
  MCP_EVENT_SUBSCRIPTION_ACKNOWLEDGED = 26,
  // Client: something has changed: `code` (`MCP_CHANGE_…`), and for a resource its URI, `text`.
  //
  // `id` is the subscription, or 0 if the server announces it without one.
  MCP_EVENT_CHANGED = 27,
  // Client: the subscription `id` has ended. `status` is `MCP_OK` if the server announced that; otherwise changes may
  // have been missed.
  MCP_EVENT_SUBSCRIPTION_ENDED = 28,
  // Client: a log message: `name` (level), `text` (logger), `json` (data).
  MCP_EVENT_LOG = 29,
  // Client: the user has finished the page of the elicitation `text` (2025-11-25).
  MCP_EVENT_ELICITATION_COMPLETE = 30,
  // Client: a request with a custom method (`MCP_ANY_METHOD`). Answer `id` by exactly one of `mcp_client_respond`
  // and `mcp_client_refuse`. `method`, `json` (parameters).
  MCP_EVENT_REQUEST = 31,
  // Client: the request `id` was cancelled.
  MCP_EVENT_REQUEST_CANCELLED = 32,
} mcp_event_kind;

// A client on a byte stream. Only one thread may use it at a time.
typedef struct mcp_client mcp_client;

// A server on a byte stream. Only one thread may use it at a time.
typedef struct mcp_server mcp_server;

// A piece of memory that belongs to the other side: text in UTF-8, mostly JSON. It has no NUL at its end.
//
// `data` may be null if `len` is 0. Make one of a C string with `mcp_str`.
typedef struct mcp_slice {
  // First byte.
  const char *data;
  // Number of bytes.
  size_t len;
} mcp_slice;

// The configuration of a client or a server. Set `size`, `name` and `version`; all else may be 0.
//
// It is copied: nothing of it is used after the function that takes it.
typedef struct mcp_config {
  // `sizeof(mcp_config)`.
  size_t size;
  // Name of the program.
  struct mcp_slice name;
  // Version of the program.
  struct mcp_slice version;
  // JSON object of capabilities, as the specification has it: `{"tools":{}}`. Others are refused unseen.
  struct mcp_slice capabilities;
  // Server: instructions for a model.
  struct mcp_slice instructions;
  // Names of the revisions to use, separated by spaces; empty for all: `2025-11-25 2026-07-28`.
  struct mcp_slice revisions;
  // 32 bytes of a cryptographic source, or null. Server: keys of sealed state and ids of tasks are derived from them.
  //
  // Without them, what needs them is refused (`MCP_ERROR_NO_ENTROPY`). 32 equal bytes are refused.
  const uint8_t *entropy;
  // A number that differs between handles with the same `entropy`.
  uint64_t nonce;
  // Unix time in seconds at the `now` of the same function. Server: sealed state and tasks expire by it.
  uint64_t unix_time;
  // Longest message that is received, in bytes; 0 for the default, 16 MiB (8 KiB with `MCP_SMALL_LIMITS`).
  size_t max_message;
  // Time of silence after which a peer of the legacy era is pinged, in microseconds; 0 for never.
  uint64_t ping_interval;
  // Number of pings that may remain without an answer before the connection ends.
  uint32_t ping_misses;
  // `MCP_TASKS`, `MCP_SMALL_LIMITS`, `MCP_ANY_METHOD`, `MCP_KNOWN_LEGACY`, `MCP_KNOWN_MODERN`, `MCP_DRAFT`,
  // `MCP_NULL_IDS`.
  uint32_t flags;
} mcp_config;

// An event. Its slices are valid until the next poll for an event, and until the handle is freed.
//
// Ids are never 0 and never used twice on a handle.
typedef struct mcp_event {
  // Kind of the event, which tells the members that are set.
  enum mcp_event_kind kind;
  // Outcome.
  enum mcp_status status;
  // Id of a call.
  uint64_t call;
  // Id of an input, a subscription or a request.
  uint64_t id;
  // Error code of the peer, or kind of a change.
  int64_t code;
  // Progress so far.
  double progress;
  // Progress at the end; negative if it is not known.
  double total;
  // `MCP_EVENT_…` flags.
  uint32_t flags;
  // Number of earlier deliveries.
  uint32_t attempt;
  // Method.
  struct mcp_slice method;
  // JSON text.
  struct mcp_slice json;
  // Name.
  struct mcp_slice name;
  // Arguments of a tool: a JSON object.
  struct mcp_slice arguments;
  // Text for people, a URI or a revision.
  struct mcp_slice text;
  // Not used.
  uint64_t reserved[4];
} mcp_event;

// A peer as it describes itself, which is not verified. Each slice may be empty.
typedef struct mcp_peer {
  // Revision in use, for example `2025-11-25`.
  struct mcp_slice revision;
  // JSON object with name and version.
  struct mcp_slice info;
  // JSON object of its capabilities.
  struct mcp_slice capabilities;
  // Instructions of a server for a model; untrusted text.
  struct mcp_slice instructions;
  // 1 if the revision is of the modern era (2026-07-28), otherwise 0.
  uint32_t is_modern;
} mcp_peer;

// Options of a call. Set `size`; all else may be 0.
typedef struct mcp_call_options {
  // `sizeof(mcp_call_options)`.
  size_t size;
  // Longest time without an answer or progress in microseconds; 0 for the default, 60 s.
  uint64_t timeout;
  // Longest time in all in microseconds; 0 for the default, 10 minutes.
  uint64_t total_timeout;
  // JSON object with further members of `_meta`, or empty.
  struct mcp_slice meta;
  // `MCP_CALL_WANTS_PROGRESS`, `MCP_CALL_AS_TASK`.
  uint32_t flags;
  // Not used; 0.
  uint32_t reserved;
} mcp_call_options;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Returns the version of the binary interface of the library that runs.
uint32_t mcp_abi_version(void);

// Returns the version of the library, `0.1.0` for example. It is static and ends with NUL.
const char *mcp_version(void);

// Creates a client on a byte stream. Its first request is ready to be written.
//
// `now` is in microseconds of a monotonic clock, here and everywhere: any epoch will do, the same for all functions of
// a handle. An older `now` counts as the last one; a debug build of the library ends the handle.
enum mcp_status mcp_client_new(const struct mcp_config *config, uint64_t now, struct mcp_client **client);

// Frees a client. Null is ignored. `MCP_ERROR_BUSY` if another thread uses it: then it is not freed.
enum mcp_status mcp_client_free(struct mcp_client *client);

// Copies the message of the last error of this handle into `buffer`, with a NUL. It is cut to `capacity` bytes
// (`MCP_ERROR_BUFFER_TOO_SMALL`); `length`, if not null, is its whole length without the NUL.
enum mcp_status mcp_client_last_error(const struct mcp_client *client, char *buffer, size_t capacity, size_t *length);

// Takes bytes that were read. They are copied, and decoded by `mcp_client_poll_event`.
//
// Read only while `mcp_client_wants_input`, or what waits here has no bound.
enum mcp_status mcp_client_handle_input(struct mcp_client *client, uint64_t now, const uint8_t *data, size_t len);

// Reports the end of the input: the server is gone.
enum mcp_status mcp_client_handle_eof(struct mcp_client *client, uint64_t now);

// Processes the deadlines that have passed. Early calls have no effect.
enum mcp_status mcp_client_handle_timeout(struct mcp_client *client, uint64_t now);

// Records that the caller does not read at present, so that silence of the server is no missed ping.
enum mcp_status mcp_client_hold_keep_alive(struct mcp_client *client, uint64_t now);

// Stores the next event in `event`. `MCP_DONE` if there is none until there is more input or time has passed.
enum mcp_status mcp_client_poll_event(struct mcp_client *client, uint64_t now, struct mcp_event *event);

// Stores when `mcp_client_handle_timeout` is to be called. `MCP_DONE` if nothing waits for a time.
enum mcp_status mcp_client_poll_timeout(struct mcp_client *client, uint64_t *deadline);

// Stores the bytes to write next. They are valid until the next function on this handle. `MCP_DONE` if there are none.
//
// Call `mcp_client_consume` with the number of bytes that were written.
enum mcp_status mcp_client_transmit(struct mcp_client *client, struct mcp_slice *bytes);

// Removes the first `count` bytes of what `mcp_client_transmit` stored.
enum mcp_status mcp_client_consume(struct mcp_client *client, size_t count);

// Returns whether to read.
bool mcp_client_wants_input(const struct mcp_client *client);

// Returns whether the connection is finished: closed, nothing to write, no event left. True for a handle that cannot be
// used, so that no loop waits for ever.
bool mcp_client_is_drained(const struct mcp_client *client);

// Ends the connection: open calls end with `MCP_ERROR_CLOSED`. What is ready to be written still can be.
enum mcp_status mcp_client_close(struct mcp_client *client, uint64_t now);

// Stores the server, once the connection is ready. Its slices are valid until the next call of this function.
enum mcp_status mcp_client_peer(struct mcp_client *client, struct mcp_peer *peer);

// Makes a call, and stores its id in `call`. Its outcome is an event (`MCP_EVENT_DONE`).
//
// `params` is a JSON object or empty. `options` may be null. A call waits here until the connection is ready.
enum mcp_status mcp_client_call(struct mcp_client *client,
                                uint64_t now,
                                struct mcp_slice method,
                                struct mcp_slice params,
                                const struct mcp_call_options *options,
                                uint64_t *call);

// Calls a tool, and stores the id of the call in `call`. `arguments` is a JSON object or empty; `options` may be null.
enum mcp_status mcp_client_call_tool(struct mcp_client *client,
                                     uint64_t now,
                                     struct mcp_slice name,
                                     struct mcp_slice arguments,
                                     const struct mcp_call_options *options,
                                     uint64_t *call);

// Requests a page of a list (`MCP_LIST_…`), and stores the id of the call in `call`.
//
// `cursor` is the member `nextCursor` of the page before, decoded, or empty for the first page. `options` may be null.
enum mcp_status mcp_client_list(struct mcp_client *client,
                                uint64_t now,
                                uint32_t list,
                                struct mcp_slice cursor,
                                const struct mcp_call_options *options,
                                uint64_t *call);

// Checks whether the server is alive, and stores the id of the call in `call`. `options` may be null.
enum mcp_status mcp_client_ping(struct mcp_client *client,
                                uint64_t now,
                                const struct mcp_call_options *options,
                                uint64_t *call);

// Cancels a call. It ends with `MCP_ERROR_CANCELLED`. `reason` may be empty.
enum mcp_status mcp_client_cancel(struct mcp_client *client, uint64_t now, uint64_t call, struct mcp_slice reason);

// Subscribes to changes, and stores the id of the subscription.
//
// `filter` is a JSON object as `subscriptions/listen` has it: `{"toolsListChanged":true,"resourceSubscriptions":["a://b"]}`.
enum mcp_status mcp_client_subscribe(struct mcp_client *client,
                                     uint64_t now,
                                     struct mcp_slice filter,
                                     uint64_t *subscription);

// Ends a subscription. Nothing more is reported for it.
enum mcp_status mcp_client_unsubscribe(struct mcp_client *client, uint64_t now, uint64_t subscription);

// Answers an input request. `response` is a JSON object, for a form `{"action":"accept","content":{"name":"Ada"}}`.
//
// Whether it fits the form is not checked here.
enum mcp_status mcp_client_answer(struct mcp_client *client, uint64_t now, uint64_t input, struct mcp_slice response);

// Answers a request with a custom method. `result` is a JSON object.
enum mcp_status mcp_client_respond(struct mcp_client *client, uint64_t now, uint64_t request, struct mcp_slice result);

// Refuses an input request or a request with a custom method, by its id, with a code and a sentence.
enum mcp_status mcp_client_refuse(struct mcp_client *client,
                                  uint64_t now,
                                  uint64_t id,
                                  int64_t code,
                                  struct mcp_slice message);

// Sends a notification with a custom method. `params` is a JSON object or empty.
enum mcp_status mcp_client_notify(struct mcp_client *client,
                                  uint64_t now,
                                  struct mcp_slice method,
                                  struct mcp_slice params);

// Sets the least severe level of log messages: `debug`, `info`, `warning`, `error` and others; empty for none.
enum mcp_status mcp_client_set_log_level(struct mcp_client *client, uint64_t now, struct mcp_slice level);

// Stores the part of a JSON text that a path names, as a piece of that text. `MCP_DONE` if there is none.
//
// The path is a JSON Pointer (RFC 6901): `/content/0/text`, or empty for the whole. Of members with equal names the last
// one counts.
enum mcp_status mcp_json_get(struct mcp_slice json,
                             struct mcp_slice path,
                             struct mcp_slice *value);

// Decodes the JSON string at a path into `buffer`, with a NUL. `MCP_DONE` if there is nothing.
//
// It is cut to `capacity` bytes (`MCP_ERROR_BUFFER_TOO_SMALL`); `length`, if not null, is its whole length without the NUL.
// The text may contain NULs itself.
enum mcp_status mcp_json_string(struct mcp_slice json,
                                struct mcp_slice path,
                                char *buffer,
                                size_t capacity,
                                size_t *length);

// Reads the JSON number at a path. `MCP_DONE` if there is nothing; then `number` keeps its value.
enum mcp_status mcp_json_number(struct mcp_slice json, struct mcp_slice path, double *number);

// Reads the JSON number at a path, if it is an integer, in any notation: `5`, `5.0` and `5e0` are the same.
//
// `MCP_DONE` if there is nothing; then `number` keeps its value.
enum mcp_status mcp_json_integer(struct mcp_slice json, struct mcp_slice path, int64_t *number);

// Writes text as a JSON string into `buffer`, with a NUL. It is cut to `capacity` bytes (`MCP_ERROR_BUFFER_TOO_SMALL`), and is
// no JSON then; `length`, if not null, is its whole length without the NUL.
enum mcp_status mcp_json_quote(struct mcp_slice text,
                               char *buffer,
                               size_t capacity,
                               size_t *length);

// Creates a server on a byte stream.
//
// `now` is in microseconds of a monotonic clock, here and everywhere: any epoch will do, the same for all functions of
// a handle. An older `now` counts as the last one; a debug build of the library ends the handle.
enum mcp_status mcp_server_new(const struct mcp_config *config, uint64_t now, struct mcp_server **server);

// Frees a server. Null is ignored. `MCP_ERROR_BUSY` if another thread uses it: then it is not freed.
enum mcp_status mcp_server_free(struct mcp_server *server);

// Copies the message of the last error of this handle into `buffer`, with a NUL. It is cut to `capacity` bytes
// (`MCP_ERROR_BUFFER_TOO_SMALL`); `length`, if not null, is its whole length without the NUL.
enum mcp_status mcp_server_last_error(const struct mcp_server *server, char *buffer, size_t capacity, size_t *length);

// Takes bytes that were read. They are copied, and decoded by `mcp_server_poll_event`.
//
// Read only while `mcp_server_wants_input`, or what waits here has no bound.
enum mcp_status mcp_server_handle_input(struct mcp_server *server, uint64_t now, const uint8_t *data, size_t len);

// Reports the end of the input. Calls that are open may be answered for 5 s.
enum mcp_status mcp_server_handle_eof(struct mcp_server *server, uint64_t now);

// Processes the deadlines that have passed. Early calls have no effect.
enum mcp_status mcp_server_handle_timeout(struct mcp_server *server, uint64_t now);

// Records that the caller does not read at present, so that silence of the client is no missed ping.
enum mcp_status mcp_server_hold_keep_alive(struct mcp_server *server, uint64_t now);

// Stores the next event in `event`. `MCP_DONE` if there is none until there is more input or time has passed.
enum mcp_status mcp_server_poll_event(struct mcp_server *server, uint64_t now, struct mcp_event *event);

// Stores when `mcp_server_handle_timeout` is to be called. `MCP_DONE` if nothing waits for a time.
enum mcp_status mcp_server_poll_timeout(struct mcp_server *server, uint64_t *deadline);

// Stores the bytes to write next. They are valid until the next function on this handle. `MCP_DONE` if there are none.
//
// Call `mcp_server_consume` with the number of bytes that were written.
enum mcp_status mcp_server_transmit(struct mcp_server *server, struct mcp_slice *bytes);

// Removes the first `count` bytes of what `mcp_server_transmit` stored.
enum mcp_status mcp_server_consume(struct mcp_server *server, size_t count);

// Returns whether to read. False holds the client back until calls are answered or output is written.
bool mcp_server_wants_input(const struct mcp_server *server);

// Returns whether the connection is finished: closed, no call open, nothing to write, no event left. True for a handle
// that cannot be used, so that no loop waits for ever.
bool mcp_server_is_drained(const struct mcp_server *server);

// Refuses new requests, and ends the connection when all calls are answered, or after `grace` microseconds.
enum mcp_status mcp_server_shutdown(struct mcp_server *server, uint64_t now, uint64_t grace);

// Answers a call with a result: a JSON object. The library adds what the revision requires in every result.
//
// Members that the revision of the client does not have are sent as they are.
enum mcp_status mcp_server_respond(struct mcp_server *server, uint64_t now, uint64_t call, struct mcp_slice result);

// Answers a call of a tool with one block of text. `is_error` says that the tool failed, which a model can read.
enum mcp_status mcp_server_respond_text(struct mcp_server *server,
                                        uint64_t now,
                                        uint64_t call,
                                        struct mcp_slice text,
                                        bool is_error);

// Answers a call of a tool with a JSON object as its structured result, and as text for clients that know no structured
// results.
enum mcp_status mcp_server_respond_structured(struct mcp_server *server,
                                              uint64_t now,
                                              uint64_t call,
                                              struct mcp_slice structured);

// Answers a call with an error: a code of JSON-RPC or of the application, a sentence, and JSON data or nothing.
enum mcp_status mcp_server_respond_error(struct mcp_server *server,
                                         uint64_t now,
                                         uint64_t call,
                                         int64_t code,
                                         struct mcp_slice message,
                                         struct mcp_slice data);

// Reports progress of a call. A negative `total` is not known; `message` may be empty.
//
// Sent only if the client asks for it and `progress` is higher than before, and not too often.
enum mcp_status mcp_server_progress(struct mcp_server *server,
                                    uint64_t now,
                                    uint64_t call,
                                    double progress,
                                    double total,
                                    struct mcp_slice message);

// Sends a log message about a call; for `call` 0 one about none, which only clients of revisions up to 2025-11-25 get.
//
// `level` is that of RFC 5424: `debug`, `info`, `warning`, `error` and others. `data` is any JSON value.
enum mcp_status mcp_server_log(struct mcp_server *server,
                               uint64_t now,
                               uint64_t call,
                               struct mcp_slice level,
                               struct mcp_slice logger,
                               struct mcp_slice data);

// Publishes a change to the subscribers: `MCP_CHANGE_…`, with the URI for a resource and nothing otherwise.
enum mcp_status mcp_server_publish(struct mcp_server *server, uint64_t now, uint32_t change, struct mcp_slice uri);

// Sends a notification with a custom method. `params` is a JSON object or empty.
enum mcp_status mcp_server_notify(struct mcp_server *server,
                                  uint64_t now,
                                  struct mcp_slice method,
                                  struct mcp_slice params);

// Asks the client for input that a call needs. The call is delivered again with the answers, under a new id.
//
// `requests` is a JSON object: by keys of your choice, objects with `method` and `params`, as the specification has
// them. `state` is any bytes for the next delivery; to keep some, a server needs `mcp_config.entropy`.
enum mcp_status mcp_server_ask(struct mcp_server *server,
                               uint64_t now,
                               uint64_t call,
                               struct mcp_slice requests,
                               struct mcp_slice state);

// Asks the user of the client to fill in a form: `mcp_server_ask` with one elicitation.
//
// `schema` is a JSON object with the fields: `{"type":"object","properties":{"name":{"type":"string"}}}`.
enum mcp_status mcp_server_elicit(struct mcp_server *server,
                                  uint64_t now,
                                  uint64_t call,
                                  struct mcp_slice key,
                                  struct mcp_slice message,
                                  struct mcp_slice schema,
                                  struct mcp_slice state);

// Makes a call of a tool a task (`MCP_EVENT_TASK_ALLOWED`). Its client gets the task at once, and the call is delivered
// again under a new id, to run it (`MCP_EVENT_TASK_RUN`).
//
// `message` for the client may be empty.
enum mcp_status mcp_server_begin_task(struct mcp_server *server, uint64_t now, uint64_t call, struct mcp_slice message);

// Stores the answer to an input request of an open call: a JSON object, valid until the next function that reads
// something of this handle.
//
// `MCP_DONE` if there is none. If the client refused or did not answer in time, the status of that.
enum mcp_status mcp_server_call_answer(struct mcp_server *server,
                                       uint64_t call,
                                       struct mcp_slice key,
                                       struct mcp_slice *answer);

// Decodes a JSON string in the answer to an input request into `buffer`, with a NUL: `mcp_server_call_answer` and
// `mcp_json_string` in one. `MCP_DONE` if there is no answer, or nothing at the path.
//
// For a form, the path is `/content/` and the name of a field.
enum mcp_status mcp_server_answer_string(struct mcp_server *server,
                                         uint64_t call,
                                         struct mcp_slice key,
                                         struct mcp_slice path,
                                         char *buffer,
                                         size_t capacity,
                                         size_t *length);

// Stores the state that was kept for an open call, valid until the next function that reads something of this handle.
// `MCP_DONE` if there is none.
enum mcp_status mcp_server_call_state(struct mcp_server *server, uint64_t call, struct mcp_slice *kept);

// Stores the client that made an open call. Its slices are valid until the next function that reads something of this
// handle.
enum mcp_status mcp_server_call_peer(struct mcp_server *server, uint64_t call, struct mcp_peer *peer);

// Returns a short English text for a status. It is static and ends with NUL.
const char *mcp_status_text(int status);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* MCP_H */

/* Makes a slice of a C string. */
static inline mcp_slice mcp_str(const char *text) {
  mcp_slice slice;
  slice.data = text;
  slice.len = text == NULL ? 0 : strlen(text);
  return slice;
}

/* Returns whether a slice has the text of a C string. */
static inline bool mcp_equals(mcp_slice slice, const char *text) {
  size_t len = text == NULL ? 0 : strlen(text);
  return slice.len == len && (len == 0 || memcmp(slice.data, text, len) == 0);
}
