/* A client and a server on two pipes in one thread: a write or a read that blocks would end the test by its timeout. */
#define _POSIX_C_SOURCE 200809L
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include "mcp_posix.h"
#define S mcp_str
#define CHECK(holds)                                                   \
  do                                                                   \
    if (!(holds)) {                                                    \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #holds);      \
      exit(1);                                                         \
    }                                                                  \
  while (0)
#define LONG 1000000 /* bytes of a text; a pipe takes far less */

static uint64_t now(void) { return mcp_posix_now(); }

static mcp_config config(void) {
  mcp_config made = {.size = sizeof made, .name = S("posix"), .version = S("1.0"), .capabilities = S("{\"tools\":{}}")};
  return made;
}

static void clock_and_entropy(void) {
  uint8_t first[32] = {0}, second[32] = {0};
  uint64_t before = now();
  CHECK(before > 0 && now() >= before);
  CHECK(mcp_posix_entropy(first) && mcp_posix_entropy(second));
  CHECK(memcmp(first, second, sizeof first) != 0);
}

/* Without input, output or a deadline a turn lasts until the time that is given. */
static void waits(void) {
  mcp_config used = config();
  mcp_server *server;
  int in[2];
  uint64_t begun;
  CHECK(pipe(in) == 0);
  CHECK(mcp_server_new(&used, now(), &server) == MCP_OK);
  begun = now();
  while (now() < begun + 50000) CHECK(mcp_posix_server_turn(server, in[0], STDOUT_FILENO, begun + 50000));
  CHECK(now() - begun < 5000000);
  /* A time that has passed: no wait. */
  begun = now();
  for (int i = 0; i < 100; i++) CHECK(mcp_posix_server_turn(server, in[0], STDOUT_FILENO, 0));
  CHECK(now() - begun < 5000000);
  close(in[1]);
  mcp_event event;
  CHECK(mcp_posix_server_turn(server, in[0], STDOUT_FILENO, UINT64_MAX));
  CHECK(mcp_server_poll_event(server, now(), &event) == MCP_OK && event.kind == MCP_EVENT_CLOSED);
  CHECK(!mcp_posix_server_turn(server, in[0], STDOUT_FILENO, UINT64_MAX));
  CHECK(mcp_server_free(server) == MCP_OK);
  close(in[0]);
}

/* Messages that no pipe can hold go both ways. Then the server stops, and the client gets to know of it. */
static void long_messages(void) {
  static char sent[LONG + 32];
  mcp_config used = config();
  mcp_server *server;
  mcp_client *client;
  mcp_event event;
  mcp_slice text;
  uint64_t call = 0;
  int to_server[2], to_client[2];
  bool is_done = false;
  CHECK(pipe(to_server) == 0 && pipe(to_client) == 0);
  CHECK(mcp_server_new(&used, now(), &server) == MCP_OK && mcp_client_new(&used, now(), &client) == MCP_OK);
  memset(sent, 'x', LONG);
  memcpy(sent, "{\"text\":\"", 9), strcpy(sent + LONG, "\"}");
  CHECK(mcp_client_call_tool(client, now(), S("echo"), S(sent), NULL, &call) == MCP_OK);
  while (!is_done) {
    while (mcp_server_poll_event(server, now(), &event) == MCP_OK)
      if (event.kind == MCP_EVENT_CALL) {
        CHECK(event.arguments.len == LONG + 2);
        CHECK(mcp_server_respond_structured(server, now(), event.call, event.arguments) == MCP_OK);
      }
    CHECK(mcp_posix_server_turn(server, to_server[0], to_client[1], now() + 1000));
    while (mcp_client_poll_event(client, now(), &event) == MCP_OK)
      if (event.kind == MCP_EVENT_DONE) {
        CHECK(event.call == call && event.status == MCP_OK);
        CHECK(mcp_json_get(event.json, S("/structuredContent/text"), &text) == MCP_OK && text.len == LONG - 7);
        is_done = true;
      }
    CHECK(mcp_posix_client_turn(client, to_client[0], to_server[1], now() + 1000));
  }
  CHECK(mcp_server_free(server) == MCP_OK);
  close(to_server[0]); /* a write fails now, and nothing more can be read */
  CHECK(mcp_client_call_tool(client, now(), S("echo"), S("{}"), NULL, &call) == MCP_OK);
  is_done = false;
  do
    while (mcp_client_poll_event(client, now(), &event) == MCP_OK)
      if (event.kind == MCP_EVENT_DONE) {
        CHECK(event.call == call && event.status == MCP_ERROR_CLOSED);
        is_done = true;
      }
  while (mcp_posix_client_turn(client, to_client[0], to_server[1], UINT64_MAX));
  CHECK(is_done && mcp_client_free(client) == MCP_OK);
  close(to_server[1]), close(to_client[0]), close(to_client[1]);
}

/* A server whose client does not read any more. */
static void server_without_client(void) {
  static const char ping[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n";
  mcp_config used = config();
  mcp_server *server;
  mcp_event event;
  int in[2], out[2];
  CHECK(pipe(in) == 0 && pipe(out) == 0);
  CHECK(mcp_server_new(&used, now(), &server) == MCP_OK);
  close(out[0]);
  CHECK(write(in[1], ping, sizeof ping - 1) == (ssize_t)sizeof ping - 1);
  do
    while (mcp_server_poll_event(server, now(), &event) == MCP_OK) {}
  while (mcp_posix_server_turn(server, in[0], out[1], UINT64_MAX));
  CHECK(mcp_server_free(server) == MCP_OK);
  close(in[0]), close(in[1]), close(out[1]);
}

static void processes(void) {
  char cat[] = "cat", missing[] = "/no/such/program", byte;
  char *echo[] = {cat, NULL}, *none[] = {missing, NULL};
  int from = -1, to = -1, status;
  pid_t child = mcp_posix_spawn(echo, &from, &to);
  CHECK(child > 0 && write(to, "a", 1) == 1 && read(from, &byte, 1) == 1 && byte == 'a');
  close(to); /* the only end: another copy in the child would keep it alive */
  CHECK(read(from, &byte, 1) == 0);
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  close(from);
  child = mcp_posix_spawn(none, &from, &to);
  CHECK(child > 0 && read(from, &byte, 1) == 0);
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 127);
  close(from), close(to);
  /* A program that was started without stdin and stdout: the pipes get their numbers. */
  fflush(stdout);
  int in = dup(0), out = dup(1);
  close(0), close(1);
  child = mcp_posix_spawn(echo, &from, &to);
  CHECK(child > 0 && write(to, "b", 1) == 1 && read(from, &byte, 1) == 1 && byte == 'b');
  close(to);
  CHECK(read(from, &byte, 1) == 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  close(from);
  CHECK(dup2(in, 0) == 0 && dup2(out, 1) == 1);
  close(in), close(out);
}

int main(void) {
  signal(SIGPIPE, SIG_IGN);
  clock_and_entropy();
  waits();
  long_messages();
  server_without_client();
  processes();
  puts("ok");
  return 0;
}
