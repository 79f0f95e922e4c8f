/* The server of `mcp-probe demo` in C: a loop on stdin and stdout. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include "mcp_posix.h"
#define S mcp_str
#define PAGE "guestbook://page"
#define TOOL(name, more) "{\"name\":\"" name "\",\"inputSchema\":{\"type\":\"object\"}" more "}"
#define FORM "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"maxLength\":40}},\"required\":[\"name\"]}"
#define ASK(text) "{\"method\":\"elicitation/create\",\"params\":{\"message\":\"" text "\",\"requestedSchema\":" FORM "}}"

static mcp_server *server;
static uint64_t now;      /* microseconds, of this turn of the loop */
static char guests[4096]; /* names as they stand in a JSON string */
static struct count { uint64_t call, next, delay; int64_t to, done; } counts[64];

static void say(uint64_t call, const char *text) { mcp_server_respond_text(server, now, call, S(text), false); }
static void refuse(uint64_t call, const char *why) { mcp_server_respond_error(server, now, call, -32602, S(why), S("")); }
/* Reads the name in the answer to a form. Returns false if there is none. */
static bool read_name(uint64_t call, const char *key, char *name, size_t size) {
  return mcp_server_answer_string(server, call, S(key), S("/content/name"), name, size, NULL) == MCP_OK;
}
static void call_tool(const mcp_event *event, uint64_t call, mcp_slice args) {
  char text[4096], name[256] = "", other[256];
  if (mcp_equals(event->name, "echo")) {
    if (mcp_json_string(args, S("/text"), text, sizeof text, NULL)) refuse(call, "`text` is missing or too long");
    else say(call, text);
  } else if (mcp_equals(event->name, "add")) {
    double a, b;
    bool is_valid = mcp_json_number(args, S("/a"), &a) == MCP_OK && mcp_json_number(args, S("/b"), &b) == MCP_OK;
    snprintf(text, sizeof text, "{\"sum\":%.15g}", is_valid ? a + b : 0);
    if (is_valid) mcp_server_respond_structured(server, now, call, S(text));
    else refuse(call, "`a` or `b` is missing");
  } else if (mcp_equals(event->name, "count")) {
    struct count *count = counts;
    int64_t to, delay = 100;
    while (count < counts + 63 && count->call) count++;
    mcp_json_integer(args, S("/delay_ms"), &delay);
    if (count->call) refuse(call, "too many calls");
    else if (mcp_json_integer(args, S("/to"), &to) || to < 1 || delay < 0 || delay > 3600000) refuse(call, "`to` is missing");
    else *count = (struct count){call, now + (uint64_t)delay * 1000, (uint64_t)delay * 1000, to, 0};
  } else if (mcp_equals(event->name, "fail")) mcp_server_respond_text(server, now, call, S("this tool always fails"), true);
  else if (mcp_equals(event->name, "sign")) {
    if (event->attempt == 0 && !mcp_server_elicit(server, now, call, S("guest"), S("Who are you?"), S(FORM), S(""))) return;
    bool has_name = read_name(call, "guest", name, sizeof name);
    if (has_name && !mcp_json_quote(S(name), text, sizeof text, NULL) && strlen(guests) + strlen(text) < sizeof guests)
      strcat(strncat(guests, text + 1, strlen(text) - 2), "\\n");
    if (has_name) mcp_server_publish(server, now, MCP_CHANGE_RESOURCE, S(PAGE));
    snprintf(text, sizeof text, "Hello, %s!", name);
    say(call, has_name ? text : "Never mind.");
  } else if (mcp_equals(event->name, "multi_input")) {
    const char *requests = "{\"first\":" ASK("First name?") ",\"second\":" ASK("Second name?") "}";
    if ((event->flags & MCP_EVENT_TASK_ALLOWED) && !mcp_server_begin_task(server, now, call, S(""))) return;
    if (event->attempt == 0 && !mcp_server_ask(server, now, call, S(requests), S(""))) return;
    bool both = read_name(call, "first", name, sizeof name) && read_name(call, "second", other, sizeof other);
    if (both) snprintf(text, sizeof text, "%s and %s", name, other);
    say(call, both ? text : "nobody");
  } else refuse(call, "unknown tool");
}
static void handle(const mcp_event *event) {
  char text[sizeof guests + 128];
  for (size_t i = 0; i < 64 && event->kind == MCP_EVENT_CALL_CANCELLED; i++)
    if (counts[i].call == event->call) counts[i].call = 0;
  if (event->kind != MCP_EVENT_CALL) return;
  snprintf(text, sizeof text, "{\"contents\":[{\"uri\":\"" PAGE "\",\"text\":\"%s\"}]}", guests);
  if (mcp_equals(event->method, "tools/call")) call_tool(event, event->call, event->arguments);
  else if (mcp_equals(event->method, "tools/list"))
    mcp_server_respond(server, now, event->call, S("{\"tools\":[" TOOL("echo", "") "," TOOL("add", "") "," TOOL("count", "") ","
      TOOL("fail", "") "," TOOL("sign", "") "," TOOL("multi_input", ",\"execution\":{\"taskSupport\":\"optional\"}") "]}"));
  else if (mcp_equals(event->method, "resources/list"))
    mcp_server_respond(server, now, event->call, S("{\"resources\":[{\"uri\":\"" PAGE "\",\"name\":\"guest book\"}]}"));
  else if (mcp_equals(event->method, "resources/read")) mcp_server_respond(server, now, event->call, S(text));
  else refuse(event->call, "not offered");
}
/* Counts where it is time. Returns the next time to count, UINT64_MAX for none. */
static uint64_t step_counts(void) {
  uint64_t next = UINT64_MAX;
  char text[64];
  for (struct count *count = counts; count < counts + 64; count++) {
    if (count->call && count->next <= now) {
      count->next += count->delay;
      mcp_server_progress(server, now, count->call, (double)++count->done, (double)count->to, S(""));
      snprintf(text, sizeof text, "counted to %lld", (long long)count->to);
      if (count->done >= count->to) say(count->call, text), count->call = 0;
    }
    if (count->call && count->next < next) next = count->next;
  }
  return next;
}
int main(void) {
  uint8_t entropy[32];
  mcp_event event;
  mcp_config config = {.size = sizeof config, .name = S("c-demo"), .version = S("1.0"), .entropy = entropy, .flags = MCP_TASKS,
                       .unix_time = (uint64_t)time(NULL), .capabilities = S("{\"tools\":{},\"resources\":{\"subscribe\":true}}")};
  if (!mcp_posix_entropy(entropy) || mcp_server_new(&config, mcp_posix_now(), &server)) return 1;
  do {
    now = mcp_posix_now();
    while (mcp_server_poll_event(server, now, &event) == MCP_OK) handle(&event);
  } while (mcp_posix_server_turn(server, STDIN_FILENO, STDOUT_FILENO, step_counts()));
  return mcp_server_free(server);
}
