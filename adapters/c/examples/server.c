/* The server of `mcp-probe demo` in C: a loop on stdin and stdout. */
#define _POSIX_C_SOURCE 200809L
#include <poll.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
#include "mcp.h"
#define S mcp_str
#define PAGE "guestbook://page"
#define TOOL(name) "{\"name\":\"" name "\",\"inputSchema\":{\"type\":\"object\"}}"
#define FORM "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"maxLength\":40}},\"required\":[\"name\"]}"
#define ASK(text) "{\"method\":\"elicitation/create\",\"params\":{\"message\":\"" text "\",\"requestedSchema\":" FORM "}}"

static mcp_server *server;
static uint64_t now;      /* microseconds, of this turn of the loop */
static char guests[4096]; /* names as they stand in a JSON string */
static struct { uint64_t call, next, delay; int64_t to, done; } counts[64];

static int is(mcp_slice a, const char *b) { return a.len == strlen(b) && memcmp(a.data, b, a.len) == 0; }
static void say(uint64_t call, const char *text) { mcp_server_respond_text(server, now, call, S(text), false); }
static void respond(uint64_t call, const char *json) { mcp_server_respond(server, now, call, S(json)); }
static void refuse(uint64_t call, const char *why) { mcp_server_respond_error(server, now, call, -32602, S(why), S("")); }

/* Reads the name in the answer to a form. Returns false if there is none. */
static bool read_name(uint64_t call, const char *key, char *name, size_t size) {
  mcp_slice answer;
  return mcp_server_call_answer(server, call, S(key), &answer) == MCP_OK &&
         mcp_json_string(answer, S("/content/name"), name, size, NULL) == MCP_OK;
}
/* Asks for input if the call was not delivered before. */
static bool ask(const mcp_event *event, const char *requests) {
  return event->attempt == 0 && mcp_server_ask(server, now, event->call, S(requests), S("")) == MCP_OK;
}
static void call_tool(const mcp_event *event) {
  char text[4096], name[256], other[256];
  double a, b;
  uint64_t call = event->call;
  mcp_slice args = event->arguments;
  if (is(event->name, "echo")) {
    if (mcp_json_string(args, S("/text"), text, sizeof text, NULL)) refuse(call, "`text` is missing or too long");
    else say(call, text);
  } else if (is(event->name, "add")) {
    if (mcp_json_number(args, S("/a"), &a) || mcp_json_number(args, S("/b"), &b)) {
      refuse(call, "`a` or `b` is missing");
      return;
    }
    snprintf(text, sizeof text, "{\"content\":[{\"type\":\"text\",\"text\":\"%.15g\"}],\"structuredContent\":{\"sum\":%.15g}}",
             a + b, a + b);
    respond(call, text);
  } else if (is(event->name, "count")) {
    int i = 0;
    int64_t delay = 100;
    while (i < 63 && counts[i].call) i++;
    mcp_json_integer(args, S("/delay_ms"), &delay);
    if (counts[i].call) refuse(call, "too many calls");
    else if (mcp_json_integer(args, S("/to"), &counts[i].to) || delay < 0 || delay > 3600000)
      refuse(call, "`to` is missing");
    else {
      counts[i].call = call, counts[i].done = 0, counts[i].delay = (uint64_t)delay * 1000;
      counts[i].next = now + counts[i].delay;
    }
  } else if (is(event->name, "fail")) {
    mcp_server_respond_text(server, now, call, S("this tool always fails"), true);
  } else if (is(event->name, "sign")) {
    if (!read_name(call, "guest", name, sizeof name)) {
      if (!ask(event, "{\"guest\":" ASK("Who are you?") "}")) say(call, "Never mind.");
      return;
    }
    if (mcp_json_quote(S(name), text, sizeof text, NULL) == MCP_OK && strlen(guests) + strlen(text) < sizeof guests)
      strcat(strncat(guests, text + 1, strlen(text) - 2), "\\n");
    mcp_server_publish(server, now, MCP_CHANGE_RESOURCE, S(PAGE));
    snprintf(text, sizeof text, "Hello, %s!", name);
    say(call, text);
  } else if (is(event->name, "multi_input")) {
    if ((event->flags & MCP_EVENT_TASK_ALLOWED) && mcp_server_begin_task(server, now, call, S("")) == MCP_OK) return;
    if (ask(event, "{\"first\":" ASK("First name?") ",\"second\":" ASK("Second name?") "}")) return;
    if (read_name(call, "first", name, sizeof name) && read_name(call, "second", other, sizeof other))
      snprintf(text, sizeof text, "%s and %s", name, other);
    else strcpy(text, "nobody");
    say(call, text);
  } else refuse(call, "unknown tool");
}
static void handle(const mcp_event *event) {
  char text[sizeof guests + 128];
  for (int i = 0; i < 64 && event->kind == MCP_EVENT_CALL_CANCELLED; i++)
    if (counts[i].call == event->call) counts[i].call = 0;
  if (event->kind != MCP_EVENT_CALL) return;
  snprintf(text, sizeof text, "{\"contents\":[{\"uri\":\"" PAGE "\",\"text\":\"%s\"}]}", guests);
  if (is(event->method, "tools/call")) call_tool(event);
  else if (is(event->method, "tools/list"))
    respond(event->call, "{\"tools\":[" TOOL("echo") "," TOOL("add") "," TOOL("count") "," TOOL("fail") "," TOOL("sign")
            ",{\"name\":\"multi_input\",\"inputSchema\":{\"type\":\"object\"},\"execution\":{\"taskSupport\":\"optional\"}}]}");
  else if (is(event->method, "resources/list"))
    respond(event->call, "{\"resources\":[{\"uri\":\"" PAGE "\",\"name\":\"guest book\"}]}");
  else if (is(event->method, "resources/read")) respond(event->call, text);
  else refuse(event->call, "not offered");
}
/* Counts where it is time. Returns the earlier one of `deadline` and the next time to count. */
static uint64_t count(uint64_t deadline) {
  char text[64];
  for (int i = 0; i < 64; i++) {
    if (counts[i].call && counts[i].next <= now) {
      counts[i].next += counts[i].delay;
      if (counts[i].done < counts[i].to) counts[i].done++;
      mcp_server_progress(server, now, counts[i].call, (double)counts[i].done, (double)counts[i].to, S(""));
      if (counts[i].done >= counts[i].to) {
        snprintf(text, sizeof text, "counted to %lld", (long long)counts[i].to);
        say(counts[i].call, text);
        counts[i].call = 0;
      }
    }
    if (counts[i].call && counts[i].next < deadline) deadline = counts[i].next;
  }
  return deadline;
}
static void tick(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  now = (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}
int main(void) {
  uint8_t entropy[32], input[4096];
  uint64_t deadline;
  mcp_event event;
  mcp_slice out;
  mcp_config config = {0};
  FILE *random = fopen("/dev/urandom", "rb");
  if (random == NULL || fread(entropy, sizeof entropy, 1, random) != 1 || fclose(random) != 0) return 1;
  tick();
  config.size = sizeof config, config.name = S("c-demo"), config.version = S("1.0"), config.entropy = entropy;
  config.unix_time = (uint64_t)time(NULL), config.flags = MCP_TASKS;
  config.capabilities = S("{\"tools\":{},\"resources\":{\"subscribe\":true}}");
  if (mcp_server_new(&config, now, &server) != MCP_OK) return 1;
  for (;;) {
    while (mcp_server_poll_event(server, now, &event) == MCP_OK) handle(&event);
    if (mcp_server_transmit(server, &out) == MCP_OK) {
      ssize_t written = write(STDOUT_FILENO, out.data, out.len);
      if (written < 0 || mcp_server_consume(server, (size_t)written) != MCP_OK) break;
      continue;
    }
    if (mcp_server_is_drained(server)) break;
    mcp_server_poll_timeout(server, &deadline);
    deadline = count(deadline);
    if (mcp_server_transmit(server, &out) == MCP_OK) continue;
    struct pollfd wait = {mcp_server_wants_input(server) ? STDIN_FILENO : -1, POLLIN, 0};
    uint64_t left = deadline > now ? (deadline - now + 999) / 1000 : 0;
    int ready = poll(&wait, 1, deadline == UINT64_MAX ? -1 : left > 60000 ? 60000 : (int)left);
    tick();
    if (ready > 0) {
      ssize_t got = read(STDIN_FILENO, input, sizeof input);
      if (got > 0) mcp_server_handle_input(server, now, input, (size_t)got);
      else mcp_server_handle_eof(server, now);
    }
    mcp_server_handle_timeout(server, now);
  }
  return mcp_server_free(server) == MCP_OK ? 0 : 1;
}
