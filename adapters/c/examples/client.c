/* The client of `mcp-probe demo` in C: starts a server, uses it in all ways, and checks what it does.
 *
 *   client SERVER [ARGS...]                                                                             */
#define _POSIX_C_SOURCE 200809L
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "mcp.h"
#define S mcp_str

static mcp_client *client;
static int to_server[2], from_server[2];
static mcp_event last;       /* the end of the call that was waited for */
static char text[4096];      /* what it says */
static int reports, changes; /* how often progress and changes were reported */
static uint64_t cancel_at_progress;

static void check(bool holds, const char *step) {
  printf("%s %s\n", holds ? "ok:" : "FAILED:", step);
  if (!holds) exit(1);
}
static uint64_t now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}
/* Handles an event. Returns true for the one that is waited for. */
static bool handle(const mcp_event *event, mcp_event_kind kind, uint64_t id) {
  mcp_slice answer = S("{\"action\":\"accept\",\"content\":{\"name\":\"Ada\"}}");
  if (event->kind == MCP_EVENT_INPUT) mcp_client_answer(client, now_us(), event->id, answer);
  if (event->kind == MCP_EVENT_PROGRESS && cancel_at_progress == event->call)
    mcp_client_cancel(client, now_us(), event->call, S("no longer needed"));
  reports += event->kind == MCP_EVENT_PROGRESS;
  changes += event->kind == MCP_EVENT_CHANGED && event->code == MCP_CHANGE_RESOURCE;
  return event->kind == kind && (id == 0 || event->call == id || event->id == id);
}
/* Runs the connection until an event of a kind, or its end. */
static bool run_until(mcp_event_kind kind, uint64_t id) {
  uint8_t input[4096];
  uint64_t deadline;
  mcp_slice out;
  for (;;) {
    while (mcp_client_poll_event(client, now_us(), &last) == MCP_OK) {
      if (handle(&last, kind, id)) return true;
      if (last.kind == MCP_EVENT_CLOSED) fprintf(stderr, "closed: %.*s\n", (int)last.text.len, last.text.data);
      if (last.kind == MCP_EVENT_CLOSED) return false;
    }
    if (mcp_client_transmit(client, &out) == MCP_OK) {
      ssize_t written = write(to_server[1], out.data, out.len);
      if (written < 0) mcp_client_close(client, now_us());
      else mcp_client_consume(client, (size_t)written);
      continue;
    }
    struct pollfd wait = {mcp_client_wants_input(client) ? from_server[0] : -1, POLLIN, 0};
    mcp_client_poll_timeout(client, &deadline);
    uint64_t now = now_us(), left = deadline > now ? (deadline - now + 999) / 1000 : 0;
    if (poll(&wait, 1, left > 1000 ? 1000 : (int)left) > 0) {
      ssize_t got = read(from_server[0], input, sizeof input);
      if (got > 0) mcp_client_handle_input(client, now_us(), input, (size_t)got);
      else mcp_client_handle_eof(client, now_us());
    }
    mcp_client_handle_timeout(client, now_us());
  }
}
/* Calls a tool, waits for the end of the call, and reads the text that it answers. */
static mcp_status call(const char *tool, const char *arguments, uint32_t flags, uint64_t timeout, bool cancel) {
  uint64_t id = 0;
  mcp_call_options options = {0};
  options.size = sizeof options, options.flags = flags, options.timeout = timeout;
  mcp_status status = mcp_client_call_tool(client, now_us(), S(tool), S(arguments), &options, &id);
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
  mcp_config config = {0};
  pid_t child;
  int status;
  if (argc < 2 || pipe(to_server) || pipe(from_server) || (child = fork()) < 0) return 2;
  if (child == 0) {
    dup2(to_server[0], 0), dup2(from_server[1], 1);
    close(to_server[0]), close(to_server[1]), close(from_server[0]), close(from_server[1]);
    execvp(argv[1], argv + 1);
    _exit(127);
  }
  close(to_server[0]), close(from_server[1]);
  signal(SIGPIPE, SIG_IGN);
  config.size = sizeof config, config.name = S("c-client"), config.version = S("1.0"), config.flags = MCP_TASKS;
  config.capabilities = S("{\"elicitation\":{}}");
  check(mcp_client_new(&config, now_us(), &client) == MCP_OK, "a client");
  check(run_until(MCP_EVENT_READY, 0), "negotiate");
  check(mcp_client_list(client, now_us(), MCP_LIST_TOOLS, S(""), NULL, &id) == MCP_OK && run_until(MCP_EVENT_DONE, id) &&
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
  check(mcp_client_subscribe(client, now_us(), S("{\"resourceSubscriptions\":[\"guestbook://page\"]}"), &id) == MCP_OK &&
        run_until(MCP_EVENT_SUBSCRIPTION_ACKNOWLEDGED, id), "change: subscribed");
  check(said(call("sign", "", 0, 0, false), "Hello, Ada!") && (changes > 0 || run_until(MCP_EVENT_CHANGED, 0)),
        "change: reported");
  check(mcp_client_unsubscribe(client, now_us(), id) == MCP_OK &&
        mcp_client_unsubscribe(client, now_us(), id) == MCP_ERROR_STALE, "change: ended");
  check(said(call("multi_input", "", MCP_CALL_AS_TASK, 0, false), "Ada and Ada"), "task: two forms");
  check(call("count", "{\"to\":1000,\"delay_ms\":20}", MCP_CALL_WANTS_PROGRESS, 0, true) == MCP_ERROR_CANCELLED, "cancel");
  check(call("count", "{\"to\":1,\"delay_ms\":60000}", 0, 300000, false) == MCP_ERROR_TIMED_OUT, "timeout");
  check(mcp_client_ping(client, now_us(), NULL, &id) == MCP_OK && run_until(MCP_EVENT_DONE, id) &&
        last.status == MCP_OK, "timeout: still alive");
  close(to_server[1]);
  check(!run_until(MCP_EVENT_NONE, 0), "end: the server ends");
  check(mcp_client_free(client) == MCP_OK, "end: freed");
  check(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0, "end: exit code 0");
  return 0;
}
