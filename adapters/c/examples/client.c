/* The client of `mcp-probe demo` in C: starts a server, uses it in all ways, and checks what it does.
 *
 *   client SERVER [ARGS...]                                                                             */
#define _POSIX_C_SOURCE 200809L
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include "mcp_posix.h"
#define S mcp_str

static mcp_client *client;
static int to_server, from_server;
static mcp_event last;       /* the end of the call that was waited for */
static char text[4096];      /* what it says */
static int reports, changes; /* how often progress and changes were reported */
static uint64_t cancel_at_progress;

static void check(bool holds, const char *step) {
  printf("%s %s\n", holds ? "ok:" : "FAILED:", step);
  if (!holds) exit(1);
}
/* Handles an event. Returns true for the one that is waited for. */
static bool handle(const mcp_event *event, mcp_event_kind kind, uint64_t id) {
  mcp_slice answer = S("{\"action\":\"accept\",\"content\":{\"name\":\"Ada\"}}");
  if (event->kind == MCP_EVENT_INPUT) mcp_client_answer(client, mcp_posix_now(), event->id, answer);
  if (event->kind == MCP_EVENT_PROGRESS && cancel_at_progress == event->call)
    mcp_client_cancel(client, mcp_posix_now(), event->call, S("no longer needed"));
  reports += event->kind == MCP_EVENT_PROGRESS;
  changes += event->kind == MCP_EVENT_CHANGED && event->code == MCP_CHANGE_RESOURCE;
  return event->kind == kind && (id == 0 || event->call == id || event->id == id);
}
/* Runs the connection until an event of a kind, or its end. */
static bool run_until(mcp_event_kind kind, uint64_t id) {
  do {
    while (mcp_client_poll_event(client, mcp_posix_now(), &last) == MCP_OK) {
      if (handle(&last, kind, id)) return true;
      if (last.kind == MCP_EVENT_CLOSED) fprintf(stderr, "closed: %.*s\n", (int)last.text.len, last.text.data);
    }
  } while (mcp_posix_client_turn(client, from_server, to_server, UINT64_MAX));
  return false;
}
/* Calls a tool, waits for the end of the call, and reads the text that it answers. */
static mcp_status call(const char *tool, const char *arguments, uint32_t flags, uint64_t timeout, bool cancel) {
  uint64_t id = 0;
  mcp_call_options options = {.size = sizeof options, .flags = flags, .timeout = timeout};
  mcp_status status = mcp_client_call_tool(client, mcp_posix_now(), S(tool), S(arguments), &options, &id);
  if (status != MCP_OK) return status;
  cancel_at_progress = cancel ? id : 0;
  if (!run_until(MCP_EVENT_DONE, id)) return MCP_ERROR_CLOSED;
  if (mcp_json_string(last.json, S("/content/0/text"), text, sizeof text, NULL) != MCP_OK) text[0] = 0;
  return last.status;
}
static bool said(mcp_status status, const char *wanted) { return status == MCP_OK && strcmp(text, wanted) == 0; }

int main(int argc, char **argv) {
  uint64_t id;
  double sum = 0;
  mcp_slice found;
  int status;
  mcp_config config = {.size = sizeof config, .name = S("c-client"), .version = S("1.0"), .flags = MCP_TASKS,
                       .capabilities = S("{\"elicitation\":{}}")};
  pid_t child = argc < 2 ? -1 : mcp_posix_spawn(argv + 1, &from_server, &to_server);
  if (child < 0) return 2;
  signal(SIGPIPE, SIG_IGN);
  check(mcp_client_new(&config, mcp_posix_now(), &client) == MCP_OK, "a client");
  check(run_until(MCP_EVENT_READY, 0), "negotiate");
  check(mcp_client_list(client, mcp_posix_now(), MCP_LIST_TOOLS, S(""), NULL, &id) == MCP_OK && run_until(MCP_EVENT_DONE, id) &&
        mcp_json_get(last.json, S("/tools/4/name"), &found) == MCP_OK, "list: five tools");
  check(said(call("echo", "{\"text\":\"sm\\u00f6rg\\u00e5s\"}", 0, 0, false), "sm\303\266rg\303\245s"), "call: echo");
  check(call("add", "{\"a\":20,\"b\":22}", 0, 0, false) == MCP_OK &&
        mcp_json_number(last.json, S("/structuredContent/sum"), &sum) == MCP_OK && sum == 42, "call: a sum");
  check(call("fail", "", 0, 0, false) == MCP_OK && mcp_json_get(last.json, S("/isError"), &found) == MCP_OK &&
        found.len == 4, "error: a tool that fails");
  check(call("no-such-tool", "", 0, 0, false) == MCP_ERROR_RPC && last.code == -32602, "error: no such tool");
  check(said(call("count", "{\"to\":4,\"delay_ms\":40}", MCP_CALL_WANTS_PROGRESS, 0, false), "counted to 4") &&
        reports == 4, "progress");
  check(said(call("sign", "", 0, 0, false), "Hello, Ada!"), "ask: a form");
  check(mcp_client_subscribe(client, mcp_posix_now(), S("{\"resourceSubscriptions\":[\"guestbook://page\"]}"), &id) == MCP_OK &&
        run_until(MCP_EVENT_SUBSCRIPTION_ACKNOWLEDGED, id), "change: subscribed");
  check(said(call("sign", "", 0, 0, false), "Hello, Ada!") && (changes > 0 || run_until(MCP_EVENT_CHANGED, 0)),
        "change: reported");
  check(mcp_client_unsubscribe(client, mcp_posix_now(), id) == MCP_OK &&
        mcp_client_unsubscribe(client, mcp_posix_now(), id) == MCP_ERROR_STALE, "change: ended");
  check(said(call("multi_input", "", MCP_CALL_AS_TASK, 0, false), "Ada and Ada"), "task: two forms");
  check(call("count", "{\"to\":1000,\"delay_ms\":20}", MCP_CALL_WANTS_PROGRESS, 0, true) == MCP_ERROR_CANCELLED, "cancel");
  check(call("count", "{\"to\":1,\"delay_ms\":60000}", 0, 300000, false) == MCP_ERROR_TIMED_OUT, "timeout");
  check(mcp_client_ping(client, mcp_posix_now(), NULL, &id) == MCP_OK && run_until(MCP_EVENT_DONE, id) &&
        last.status == MCP_OK, "timeout: still alive");
  close(to_server);
  check(!run_until(MCP_EVENT_NONE, 0), "end: the server ends");
  check(mcp_client_free(client) == MCP_OK, "end: freed");
  check(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0, "end: exit code 0");
  return 0;
}
