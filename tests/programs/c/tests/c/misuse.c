/* Uses the library wrongly in every way that it can notice, and checks what it says. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "mcp.h"

#define CHECK(holds) \
  do { \
    if (!(holds)) { \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #holds); \
      exit(1); \
    } \
  } while (0)
#define REFUSED(call) CHECK((call) == MCP_ERROR_INVALID_ARGUMENT)
#define S mcp_str
#define META "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\",\"io.modelcontextprotocol/clientCapabilities\":{}}"
#define ECHO(id) "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"tools/call\",\"params\":{\"name\":\"echo\",\"arguments\":{}," META "}}\n"

static mcp_config config(void) {
  mcp_config made = {0};
  made.size = sizeof made;
  made.name = S("misuse");
  made.version = S("1.0");
  made.capabilities = S("{\"tools\":{}}");
  return made;
}
static mcp_server *new_server(uint32_t flags) {
  mcp_server *server = NULL;
  mcp_config used = config();
  used.flags = flags;
  CHECK(mcp_server_new(&used, 0, &server) == MCP_OK && server != NULL);
  return server;
}
static mcp_client *new_client(void) {
  mcp_client *client = NULL;
  mcp_config used = config();
  used.revisions = S("2026-07-28");
  used.capabilities = S("{\"elicitation\":{}}");
  CHECK(mcp_client_new(&used, 0, &client) == MCP_OK && client != NULL);
  return client;
}
static mcp_status feed(mcp_server *server, const char *text) {
  return mcp_server_handle_input(server, 1, (const uint8_t *)text, strlen(text));
}
static mcp_status feed_client(mcp_client *client, const char *text) {
  return mcp_client_handle_input(client, 1, (const uint8_t *)text, strlen(text));
}
/* Feeds a call, and returns its id. */
static uint64_t call_on(mcp_server *server, const char *text) {
  mcp_event event;
  CHECK(feed(server, text) == MCP_OK);
  CHECK(mcp_server_poll_event(server, 1, &event) == MCP_OK && event.kind == MCP_EVENT_CALL && event.call != 0);
  CHECK(event.name.len == 4 && memcmp(event.name.data, "echo", 4) == 0);
  return event.call;
}
/* Takes all output, and checks that it contains a text. */
static void expect_output(mcp_server *server, const char *wanted) {
  static char text[1 << 16];
  size_t used = 0;
  mcp_slice out;
  while (mcp_server_transmit(server, &out) == MCP_OK) {
    CHECK(used + out.len < sizeof text);
    memcpy(text + used, out.data, out.len);
    used += out.len;
    CHECK(mcp_server_consume(server, out.len) == MCP_OK);
  }
  text[used] = 0;
  if (strstr(text, wanted) == NULL) fprintf(stderr, "no %s in %s\n", wanted, text);
  CHECK(strstr(text, wanted) != NULL);
}

static void null_handles(void) {
  mcp_event event;
  mcp_slice slice;
  mcp_peer peer;
  uint64_t number;
  char text[8];
  const uint8_t byte[1] = {0};
  CHECK(mcp_server_free(NULL) == MCP_OK && mcp_client_free(NULL) == MCP_OK);
  REFUSED(mcp_server_last_error(NULL, text, sizeof text, NULL));
  REFUSED(mcp_server_handle_input(NULL, 0, byte, 1));
  REFUSED(mcp_server_handle_eof(NULL, 0));
  REFUSED(mcp_server_handle_timeout(NULL, 0));
  REFUSED(mcp_server_hold_keep_alive(NULL, 0));
  REFUSED(mcp_server_poll_event(NULL, 0, &event));
  REFUSED(mcp_server_poll_timeout(NULL, &number));
  REFUSED(mcp_server_transmit(NULL, &slice));
  REFUSED(mcp_server_consume(NULL, 0));
  CHECK(!mcp_server_wants_input(NULL) && mcp_server_is_drained(NULL));
  REFUSED(mcp_server_shutdown(NULL, 0, 0));
  REFUSED(mcp_server_respond(NULL, 0, 1, S("{}")));
  REFUSED(mcp_server_respond_text(NULL, 0, 1, S(""), false));
  REFUSED(mcp_server_respond_structured(NULL, 0, 1, S("{}")));
  REFUSED(mcp_server_respond_error(NULL, 0, 1, 1, S(""), S("")));
  REFUSED(mcp_server_progress(NULL, 0, 1, 1, 1, S("")));
  REFUSED(mcp_server_log(NULL, 0, 1, S("info"), S(""), S("1")));
  REFUSED(mcp_server_publish(NULL, 0, MCP_CHANGE_TOOLS, S("")));
  REFUSED(mcp_server_notify(NULL, 0, S("x/y"), S("")));
  REFUSED(mcp_server_ask(NULL, 0, 1, S("{}"), S("")));
  REFUSED(mcp_server_elicit(NULL, 0, 1, S("k"), S(""), S("{}"), S("")));
  REFUSED(mcp_server_begin_task(NULL, 0, 1, S("")));
  REFUSED(mcp_server_call_answer(NULL, 1, S("k"), &slice));
  REFUSED(mcp_server_answer_string(NULL, 1, S("k"), S(""), text, sizeof text, NULL));
  REFUSED(mcp_server_call_state(NULL, 1, &slice));
  REFUSED(mcp_server_call_peer(NULL, 1, &peer));
  REFUSED(mcp_client_last_error(NULL, text, sizeof text, NULL));
  REFUSED(mcp_client_handle_input(NULL, 0, byte, 1));
  REFUSED(mcp_client_handle_eof(NULL, 0));
  REFUSED(mcp_client_handle_timeout(NULL, 0));
  REFUSED(mcp_client_hold_keep_alive(NULL, 0));
  REFUSED(mcp_client_poll_event(NULL, 0, &event));
  REFUSED(mcp_client_poll_timeout(NULL, &number));
  REFUSED(mcp_client_transmit(NULL, &slice));
  REFUSED(mcp_client_consume(NULL, 0));
  CHECK(!mcp_client_wants_input(NULL) && mcp_client_is_drained(NULL));
  REFUSED(mcp_client_close(NULL, 0));
  REFUSED(mcp_client_peer(NULL, &peer));
  REFUSED(mcp_client_call(NULL, 0, S("tools/list"), S(""), NULL, &number));
  REFUSED(mcp_client_call_tool(NULL, 0, S("x"), S(""), NULL, &number));
  REFUSED(mcp_client_list(NULL, 0, MCP_LIST_TOOLS, S(""), NULL, &number));
  REFUSED(mcp_client_ping(NULL, 0, NULL, &number));
  REFUSED(mcp_client_cancel(NULL, 0, 1, S("")));
  REFUSED(mcp_client_subscribe(NULL, 0, S("{}"), &number));
  REFUSED(mcp_client_unsubscribe(NULL, 0, 1));
  REFUSED(mcp_client_answer(NULL, 0, 1, S("{}")));
  REFUSED(mcp_client_respond(NULL, 0, 1, S("{}")));
  REFUSED(mcp_client_refuse(NULL, 0, 1, 1, S("")));
  REFUSED(mcp_client_notify(NULL, 0, S("x/y"), S("")));
  REFUSED(mcp_client_set_log_level(NULL, 0, S("info")));
}

static void configurations(void) {
  struct { mcp_config known; uint64_t more[4]; } newer;
  mcp_server *server = NULL;
  mcp_config used = config();
  uint8_t entropy[32] = {0};
  REFUSED(mcp_server_new(NULL, 0, &server));
  REFUSED(mcp_server_new(&used, 0, NULL));
  used.size = 0;
  REFUSED(mcp_server_new(&used, 0, &server));
  used.size = sizeof(size_t) - 1;
  REFUSED(mcp_server_new(&used, 0, &server));
  used.size = (size_t)-1;
  REFUSED(mcp_server_new(&used, 0, &server));
  used = config(), used.flags = 1u << 31;
  REFUSED(mcp_server_new(&used, 0, &server));
  used = config(), used.flags = MCP_KNOWN_LEGACY; /* of a client */
  REFUSED(mcp_server_new(&used, 0, &server));
  used = config(), used.name = S("");
  REFUSED(mcp_server_new(&used, 0, &server));
  used = config(), used.version.data = NULL; /* with a length */
  REFUSED(mcp_server_new(&used, 0, &server));
  used = config(), used.name.len = (size_t)-1;
  REFUSED(mcp_server_new(&used, 0, &server));
  used = config(), used.name = S("\xff");
  CHECK(mcp_server_new(&used, 0, &server) == MCP_ERROR_INVALID_UTF8);
  used = config(), used.capabilities = S("{");
  CHECK(mcp_server_new(&used, 0, &server) == MCP_ERROR_INVALID_JSON);
  used = config(), used.capabilities = S("[]");
  CHECK(mcp_server_new(&used, 0, &server) == MCP_ERROR_INVALID_JSON);
  used = config(), used.revisions = S("2025-11-25 1999-12-31");
  CHECK(mcp_server_new(&used, 0, &server) == MCP_ERROR_INVALID_VALUE);
  used = config(), used.flags = MCP_TASKS;
  CHECK(mcp_server_new(&used, 0, &server) == MCP_ERROR_NO_ENTROPY);
  used.entropy = entropy; /* a buffer that was not filled */
  REFUSED(mcp_server_new(&used, 0, &server));
  CHECK(server == NULL);
  entropy[0] = 1;
  CHECK(mcp_server_new(&used, 0, &server) == MCP_OK && mcp_server_free(server) == MCP_OK);
  /* A program that knows more members than the library, and one that knows fewer. */
  memset(&newer, 0, sizeof newer);
  newer.known = config(), newer.known.size = sizeof newer;
  CHECK(mcp_server_new(&newer.known, 0, &server) == MCP_OK && mcp_server_free(server) == MCP_OK);
  newer.more[2] = 1;
  REFUSED(mcp_server_new(&newer.known, 0, &server));
  used = config(), used.size = offsetof(mcp_config, entropy), used.flags = 1u << 31; /* beyond `size`: not read */
  CHECK(mcp_server_new(&used, 0, &server) == MCP_OK && mcp_server_free(server) == MCP_OK);
}

static void calls_and_ids(void) {
  mcp_server *server = new_server(0);
  mcp_event event;
  mcp_slice slice, null_with_length = {NULL, 3};
  mcp_peer peer;
  char text[128];
  size_t length = 0;
  /* A message that is cut at each byte is the same message. */
  const char *message = ECHO("1");
  for (size_t i = 0; i + 1 < strlen(message); i++) {
    CHECK(mcp_server_handle_input(server, 1, (const uint8_t *)message + i, 1) == MCP_OK);
    CHECK(mcp_server_poll_event(server, 1, &event) == MCP_DONE && event.kind == MCP_EVENT_NONE);
  }
  uint64_t call = call_on(server, "\n");
  REFUSED(mcp_server_handle_input(server, 1, NULL, 1));
  REFUSED(mcp_server_handle_input(server, 1, (const uint8_t *)message, (size_t)-1));
  CHECK(mcp_server_handle_input(server, 1, NULL, 0) == MCP_OK);
  REFUSED(mcp_server_poll_event(server, 1, NULL));
  REFUSED(mcp_server_poll_event(server, 1, (mcp_event *)((char *)&event + 1)));
  REFUSED(mcp_server_transmit(server, NULL));
  REFUSED(mcp_server_poll_timeout(server, NULL));
  REFUSED(mcp_server_respond(server, 1, call, null_with_length));
  CHECK(mcp_server_last_error(server, text, sizeof text, &length) == MCP_OK && strcmp(text, "a null pointer with a length") == 0);
  CHECK(length == strlen(text));
  CHECK(mcp_server_last_error(server, text, 7, &length) == MCP_ERROR_BUFFER_TOO_SMALL && strcmp(text, "a null") == 0);
  CHECK(mcp_server_last_error(server, NULL, 0, &length) == MCP_ERROR_BUFFER_TOO_SMALL && length == 28);
  REFUSED(mcp_server_last_error(server, NULL, 5, NULL));
  /* A wrong answer leaves the call open. */
  CHECK(mcp_server_respond(server, 1, call, S("{\"a\":}")) == MCP_ERROR_INVALID_JSON);
  CHECK(mcp_server_respond(server, 1, call, S("[]")) == MCP_ERROR_INVALID_JSON);
  CHECK(mcp_server_respond(server, 1, call, S("{\"resultType\":1}")) == MCP_ERROR_INVALID_VALUE);
  CHECK(mcp_server_respond(server, 1, call, S("{\"_meta\":{\"io.modelcontextprotocol/x\":1}}")) == MCP_ERROR_RESERVED);
  CHECK(mcp_server_respond_text(server, 1, call, S("\xc3\x28"), false) == MCP_ERROR_INVALID_UTF8);
  CHECK(mcp_server_respond_structured(server, 1, call, S("1")) == MCP_ERROR_INVALID_JSON);
  CHECK(mcp_server_ask(server, 1, call, S("{\"k\":1}"), S("")) == MCP_ERROR_INVALID_VALUE);
  CHECK(mcp_server_elicit(server, 1, call, S("k"), S("?"), S("{\"type\":\"object\",\"properties\":{}}"), S("")) == MCP_ERROR_UNSUPPORTED);
  CHECK(mcp_server_begin_task(server, 1, call, S("")) != MCP_OK);
  CHECK(mcp_server_call_answer(server, call, S("k"), &slice) == MCP_DONE && slice.len == 0);
  CHECK(mcp_server_answer_string(server, call, S("k"), S("/a"), text, sizeof text, NULL) == MCP_DONE);
  REFUSED(mcp_server_answer_string(server, call, null_with_length, S("/a"), text, sizeof text, NULL));
  CHECK(mcp_server_call_state(server, call, &slice) == MCP_DONE && slice.len == 0);
  CHECK(mcp_server_call_peer(server, call, &peer) == MCP_OK && peer.is_modern == 1 && peer.revision.len == 10);
  REFUSED(mcp_server_progress(server, 1, call, 1.0 / 0.0, -1, S("")));
  REFUSED(mcp_server_publish(server, 1, 99, S("")));
  REFUSED(mcp_server_publish(server, 1, MCP_CHANGE_RESOURCE, S("")));
  CHECK(mcp_server_log(server, 1, call, S("info"), S(""), S("1")) == MCP_ERROR_NOT_DECLARED);
  CHECK(mcp_server_notify(server, 1, S("notifications/progress"), S("")) == MCP_ERROR_RESERVED);
  CHECK(mcp_server_transmit(server, &slice) == MCP_DONE && slice.len == 0);
  /* It is answered once. */
  CHECK(mcp_server_respond_text(server, 1, call, S("hi"), false) == MCP_OK);
  CHECK(mcp_server_respond_text(server, 1, call, S("hi"), false) == MCP_ERROR_STALE);
  CHECK(mcp_server_respond_structured(server, 1, call, S("{}")) == MCP_ERROR_STALE);
  CHECK(mcp_server_answer_string(server, call, S("k"), S("/a"), text, sizeof text, NULL) == MCP_ERROR_STALE);
  CHECK(mcp_server_respond_error(server, 1, call, 1, S("x"), S("")) == MCP_ERROR_STALE);
  CHECK(mcp_server_progress(server, 1, call, 1, 2, S("")) == MCP_ERROR_STALE);
  CHECK(mcp_server_call_peer(server, call, &peer) == MCP_ERROR_STALE);
  CHECK(mcp_server_respond(server, 1, 0, S("{}")) == MCP_ERROR_STALE);
  CHECK(mcp_server_respond(server, 1, 12345, S("{}")) == MCP_ERROR_STALE);
  CHECK(mcp_server_transmit(server, &slice) == MCP_OK);
  CHECK(mcp_server_consume(server, slice.len + 1) == MCP_ERROR_WRONG_ORDER);
  expect_output(server, "\"text\":\"hi\"");
  CHECK(mcp_server_consume(server, 1) == MCP_ERROR_WRONG_ORDER && mcp_server_consume(server, 0) == MCP_OK);
  /* The client cancels. */
  call = call_on(server, ECHO("2"));
  CHECK(feed(server, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":2,\"reason\":\"no\"}}\n") == MCP_OK);
  CHECK(mcp_server_poll_event(server, 1, &event) == MCP_OK && event.kind == MCP_EVENT_CALL_CANCELLED && event.call == call);
  CHECK(event.text.len == 2);
  CHECK(mcp_server_respond_text(server, 1, call, S("late"), false) == MCP_ERROR_STALE);
  /* A handle of the other role. */
  REFUSED(mcp_client_handle_eof((mcp_client *)(void *)server, 1));
  REFUSED(mcp_client_free((mcp_client *)(void *)server));
  /* The end, in order. */
  call = call_on(server, ECHO("3"));
  CHECK(mcp_server_handle_eof(server, 2) == MCP_OK && mcp_server_handle_eof(server, 2) == MCP_OK);
  CHECK(feed(server, "{}\n") == MCP_ERROR_WRONG_ORDER);
  CHECK(!mcp_server_wants_input(server) && !mcp_server_is_drained(server));
  CHECK(mcp_server_poll_event(server, 2, &event) == MCP_DONE);
  CHECK(mcp_server_respond_text(server, 2, call, S("after the end"), true) == MCP_OK);
  CHECK(mcp_server_poll_event(server, 2, &event) == MCP_OK && event.kind == MCP_EVENT_CLOSED && event.text.len > 0);
  CHECK(feed(server, "{}\n") == MCP_ERROR_CLOSED);
  CHECK(mcp_server_poll_event(server, 2, &event) == MCP_DONE);
  expect_output(server, "after the end");
  CHECK(mcp_server_is_drained(server));
  CHECK(mcp_server_free(server) == MCP_OK);
}

static void comparisons(void) {
  mcp_slice nothing = {NULL, 0}, long_text = {"echoes", 6};
  CHECK(mcp_equals(S("echo"), "echo") && mcp_equals(nothing, "") && mcp_equals(nothing, NULL));
  CHECK(!mcp_equals(S("echo"), "echoes") && !mcp_equals(long_text, "echo") && !mcp_equals(S("echo"), "echO"));
  CHECK(!mcp_equals(S("echo"), NULL) && !mcp_equals(nothing, "echo"));
}

static void fatal_error(void) {
  mcp_server *server = new_server(MCP_SMALL_LIMITS);
  mcp_event event;
  mcp_slice out;
  uint64_t call = call_on(server, ECHO("1")), closed = 0, cancelled = 0;
  for (int i = 0; i < 200 && !closed; i++) {
    CHECK(feed(server, "{\"jsonrpc\":\n") == MCP_OK);
    CHECK(mcp_server_handle_timeout(server, 1) == MCP_OK);
    while (mcp_server_poll_event(server, 1, &event) == MCP_OK) {
      closed += event.kind == MCP_EVENT_CLOSED;
      cancelled += event.kind == MCP_EVENT_CALL_CANCELLED && event.call == call;
    }
    if (mcp_server_transmit(server, &out) == MCP_OK) CHECK(mcp_server_consume(server, out.len) == MCP_OK);
  }
  CHECK(closed == 1 && cancelled == 1);
  CHECK(feed(server, ECHO("2")) == MCP_ERROR_CLOSED);
  CHECK(mcp_server_respond_text(server, 1, call, S("late"), false) == MCP_ERROR_STALE);
  CHECK(mcp_server_shutdown(server, 1, 0) == MCP_OK && mcp_server_handle_eof(server, 1) == MCP_OK);
  CHECK(!mcp_server_wants_input(server));
  CHECK(mcp_server_free(server) == MCP_OK);
}

static void long_message(void) {
  mcp_server *server = NULL;
  mcp_config used = config();
  mcp_event event;
  used.max_message = 1000;
  CHECK(mcp_server_new(&used, 0, &server) == MCP_OK);
  CHECK(feed(server, "{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"tools/call\",\"params\":{\"x\":\"") == MCP_OK);
  for (int i = 0; i < 100; i++) {
    CHECK(feed(server, "0123456789012345678901234567890123456789") == MCP_OK);
    while (mcp_server_poll_event(server, 1, &event) == MCP_OK) CHECK(event.kind == MCP_EVENT_DIAGNOSTIC);
  }
  CHECK(feed(server, "\"}}\n" ECHO("10")) == MCP_OK);
  while (mcp_server_poll_event(server, 1, &event) == MCP_OK && event.kind != MCP_EVENT_CALL) {}
  CHECK(event.kind == MCP_EVENT_CALL);
  expect_output(server, "\"error\"");
  CHECK(mcp_server_free(server) == MCP_OK); /* with a call that is open */
}

static void client_ids(void) {
  mcp_client *client = new_client();
  mcp_event event;
  mcp_peer peer;
  mcp_slice out;
  uint64_t call = 0, other = 0;
  mcp_call_options options = {0};
  char reply[256];
  CHECK(mcp_client_peer(client, &peer) == MCP_ERROR_NOT_READY);
  CHECK(mcp_client_ping(client, 0, NULL, &call) == MCP_ERROR_NOT_READY);
  REFUSED(mcp_client_call_tool(client, 0, S("x"), S(""), &options, &call)); /* no size */
  options.size = sizeof options, options.flags = 128;
  REFUSED(mcp_client_call_tool(client, 0, S("x"), S(""), &options, &call));
  options.flags = MCP_CALL_AS_TASK;
  CHECK(mcp_client_call_tool(client, 0, S("x"), S(""), &options, &call) == MCP_ERROR_NOT_DECLARED);
  REFUSED(mcp_client_call(client, 0, S("tools/list"), S(""), &options, &call));
  REFUSED(mcp_client_list(client, 0, 77, S(""), NULL, &call));
  REFUSED(mcp_client_call_tool(client, 0, S("x"), S(""), NULL, NULL));
  CHECK(mcp_client_call_tool(client, 0, S("x"), S("7"), NULL, &call) == MCP_ERROR_INVALID_JSON);
  CHECK(mcp_client_call(client, 0, S("initialize"), S(""), NULL, &call) == MCP_ERROR_RESERVED);
  CHECK(mcp_client_transmit(client, &out) == MCP_OK && mcp_client_consume(client, out.len) == MCP_OK);
  CHECK(feed_client(client, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"resultType\":\"complete\",\"ttlMs\":0,\"cacheScope\":\"private\","
                            "\"supportedVersions\":[\"2026-07-28\"],\"capabilities\":{\"tools\":{}}}}\n") == MCP_OK);
  CHECK(mcp_client_poll_event(client, 1, &event) == MCP_OK && event.kind == MCP_EVENT_READY);
  CHECK(mcp_client_peer(client, &peer) == MCP_OK && peer.is_modern == 1);
  CHECK(mcp_client_call_tool(client, 1, S("x"), S(""), NULL, &call) == MCP_OK && call != 0);
  CHECK(mcp_client_call_tool(client, 1, S("y"), S(""), NULL, &other) == MCP_OK && other != call);
  CHECK(mcp_client_subscribe(client, 1, S("{\"toolsListChanged\":1}"), &call) == MCP_ERROR_INVALID_VALUE);
  CHECK(mcp_client_set_log_level(client, 1, S("info")) == MCP_ERROR_UNSUPPORTED);
  CHECK(mcp_client_cancel(client, 1, other, S("")) == MCP_OK && mcp_client_cancel(client, 1, other, S("")) == MCP_ERROR_STALE);
  CHECK(mcp_client_poll_event(client, 1, &event) == MCP_OK && event.kind == MCP_EVENT_DONE && event.call == other);
  CHECK(event.status == MCP_ERROR_CANCELLED);
  CHECK(mcp_client_answer(client, 1, call, S("{}")) == MCP_ERROR_STALE); /* the id of a call */
  CHECK(mcp_client_refuse(client, 1, call, 1, S("no")) == MCP_ERROR_STALE);
  CHECK(mcp_client_respond(client, 1, 0, S("{}")) == MCP_ERROR_STALE);
  CHECK(mcp_client_unsubscribe(client, 1, call) == MCP_ERROR_STALE);
  /* The id of the first call is in the output. */
  CHECK(mcp_client_transmit(client, &out) == MCP_OK);
  long long id = 0;
  for (size_t i = 0; i + 5 < out.len && id == 0; i++) {
    if (memcmp(out.data + i, "\"id\":", 5) == 0) id = atoll(out.data + i + 5);
  }
  snprintf(reply, sizeof reply, "{\"jsonrpc\":\"2.0\",\"id\":%lld,\"error\":{\"code\":-32602,\"message\":\"no\",\"data\":[1]}}\n", id);
  CHECK(feed_client(client, reply) == MCP_OK);
  CHECK(mcp_client_poll_event(client, 1, &event) == MCP_OK && event.kind == MCP_EVENT_DONE && event.call == call);
  CHECK(event.status == MCP_ERROR_RPC && event.code == -32602 && event.json.len == 3 && event.text.len > 0);
  CHECK(mcp_client_cancel(client, 1, call, S("")) == MCP_ERROR_STALE);
  REFUSED(mcp_server_handle_eof((mcp_server *)(void *)client, 1));
  CHECK(mcp_client_call_tool(client, 1, S("x"), S(""), NULL, &call) == MCP_OK);
  CHECK(mcp_client_close(client, 1) == MCP_OK && feed_client(client, "{}\n") == MCP_ERROR_WRONG_ORDER);
  CHECK(mcp_client_poll_event(client, 1, &event) == MCP_OK && event.kind == MCP_EVENT_DONE && event.status == MCP_ERROR_CLOSED);
  CHECK(mcp_client_poll_event(client, 1, &event) == MCP_OK && event.kind == MCP_EVENT_CLOSED);
  CHECK(mcp_client_call_tool(client, 1, S("x"), S(""), NULL, &call) == MCP_ERROR_CLOSED);
  CHECK(feed_client(client, "{}\n") == MCP_ERROR_CLOSED);
  CHECK(mcp_client_free(client) == MCP_OK);
}

static void json_texts(void) {
  mcp_slice found, json = S("{\"s\":\"\\u00e9\\u0000x\",\"n\":1.5,\"i\":-3,\"a\":[1,{\"b\":true}],\"i2\":5e0,\"long\":\"0123456789\"}");
  char text[16];
  size_t length;
  double number;
  int64_t integer;
  CHECK(mcp_json_get(json, S("/a/1/b"), &found) == MCP_OK && found.len == 4 && memcmp(found.data, "true", 4) == 0);
  CHECK(found.data > json.data && found.data < json.data + json.len);
  CHECK(mcp_json_get(json, S("/a/2"), &found) == MCP_DONE && found.len == 0 && found.data == NULL);
  REFUSED(mcp_json_get(json, S("a"), &found));
  REFUSED(mcp_json_get(json, S("/a"), NULL));
  CHECK(mcp_json_get(S("{\"a\":1"), S("/a"), &found) == MCP_ERROR_INVALID_JSON);
  CHECK(mcp_json_get(S(""), S(""), &found) == MCP_ERROR_INVALID_JSON);
  CHECK(mcp_json_string(json, S("/s"), text, sizeof text, &length) == MCP_OK && length == 4 && memcmp(text, "\xc3\xa9\0x", 5) == 0);
  CHECK(mcp_json_string(json, S("/s"), text, 2, &length) == MCP_ERROR_BUFFER_TOO_SMALL && length == 4 && text[0] == 0);
  CHECK(mcp_json_string(json, S("/long"), text, 5, NULL) == MCP_ERROR_BUFFER_TOO_SMALL && strcmp(text, "0123") == 0);
  CHECK(mcp_json_string(json, S("/n"), text, sizeof text, NULL) == MCP_ERROR_INVALID_VALUE);
  CHECK(mcp_json_string(json, S("/none"), text, sizeof text, NULL) == MCP_DONE);
  CHECK(mcp_json_number(json, S("/n"), &number) == MCP_OK && number == 1.5);
  CHECK(mcp_json_number(json, S("/s"), &number) == MCP_ERROR_INVALID_VALUE && number == 1.5);
  CHECK(mcp_json_integer(json, S("/i"), &integer) == MCP_OK && integer == -3);
  CHECK(mcp_json_integer(json, S("/i2"), &integer) == MCP_OK && integer == 5);
  CHECK(mcp_json_integer(json, S("/n"), &integer) == MCP_ERROR_INVALID_VALUE && integer == 5);
  CHECK(mcp_json_quote(S("a\"\n"), text, sizeof text, &length) == MCP_OK && strcmp(text, "\"a\\\"\\n\"") == 0 && length == 7);
  CHECK(mcp_json_quote(S("\xff"), text, sizeof text, NULL) == MCP_ERROR_INVALID_UTF8);
  CHECK(mcp_abi_version() == MCP_ABI_VERSION && strchr(mcp_version(), '.') != NULL);
  CHECK(strcmp(mcp_status_text(MCP_ERROR_STALE), "the id is unknown, or has ended") == 0);
  CHECK(strcmp(mcp_status_text(4711), "unknown status") == 0);
}

/* Any bytes, in any order of functions. */
static void noise(void) {
  uint32_t seed = 7;
  uint64_t now = 1;
  mcp_server *server = new_server(0);
  mcp_client *client = new_client();
  mcp_event event;
  mcp_slice out;
  uint64_t deadline;
  const char *alphabet = "{}[]\",:\n\r01eE+-. \\untrfalsejsonrpcidmethodparams\xc3\xa9\xff\x80";
  for (int round = 0; round < 3000; round++) {
    uint8_t bytes[64];
    for (size_t i = 0; i < sizeof bytes; i++) {
      seed = seed * 1664525u + 1013904223u;
      bytes[i] = (uint8_t)alphabet[(seed >> 16) % strlen(alphabet)];
    }
    now += seed;
    mcp_server_handle_input(server, now, bytes, (seed >> 8) % sizeof bytes);
    mcp_client_handle_input(client, (uint64_t)round * 1000, bytes, (seed >> 9) % sizeof bytes);
    for (int i = 0; i < 4; i++) {
      mcp_server_poll_event(server, now, &event);
      mcp_client_poll_event(client, (uint64_t)round * 1000, &event);
    }
    CHECK(mcp_server_respond(server, now, seed, S("{}")) == MCP_ERROR_STALE);
    mcp_server_poll_timeout(server, &deadline);
    mcp_server_handle_timeout(server, now);
    mcp_client_handle_timeout(client, (uint64_t)round * 1000);
    if (mcp_server_transmit(server, &out) == MCP_OK) CHECK(mcp_server_consume(server, (out.len + 1) / 2) == MCP_OK);
    if (mcp_client_transmit(client, &out) == MCP_OK) CHECK(mcp_client_consume(client, (out.len + 1) / 2) == MCP_OK);
  }
  CHECK(mcp_server_free(server) == MCP_OK && mcp_client_free(client) == MCP_OK);
}

static struct { long busy, done; } seen[2];
static mcp_server *shared;

static void *hammer(void *which) {
  size_t size = 1 << 20;
  char *text = malloc(size);
  mcp_event event;
  CHECK(text != NULL);
  memset(text, ' ', size);
  text[size - 1] = '\n';
  for (int i = 0; i < 500 && seen[(size_t)which].busy < 3 && seen[(size_t)which].done < 40; i++) {
    mcp_status status = mcp_server_handle_input(shared, 1, (uint8_t *)text, size);
    if (status == MCP_OK) {
      do status = mcp_server_poll_event(shared, 1, &event);
      while (status == MCP_OK);
    }
    CHECK(status == MCP_DONE || status == MCP_ERROR_BUSY);
    if (status == MCP_ERROR_BUSY) seen[(size_t)which].busy++;
    else seen[(size_t)which].done++;
  }
  free(text);
  return NULL;
}

/* Two threads on one handle: one of them is told, and nothing breaks. */
static void two_threads(void) {
  pthread_t other;
  mcp_event event;
  shared = new_server(0);
  CHECK(pthread_create(&other, NULL, hammer, (void *)(size_t)1) == 0);
  hammer((void *)(size_t)0);
  CHECK(pthread_join(other, NULL) == 0);
  CHECK(seen[0].busy + seen[1].busy > 0 && seen[0].done + seen[1].done > 0);
  while (mcp_server_poll_event(shared, 1, &event) == MCP_OK) {}
  call_on(shared, "\n" ECHO("1"));
  CHECK(mcp_server_free(shared) == MCP_OK);
}

int main(int argc, char **argv) {
  null_handles();
  configurations();
  calls_and_ids();
  comparisons();
  fatal_error();
  long_message();
  client_ids();
  json_texts();
  noise();
  if (argc < 2 || strcmp(argv[1], "--one-thread") != 0) two_threads();
  puts("ok");
  return 0;
}
