/* Helpers for mcp.h on POSIX systems: a clock, entropy, one turn of a loop on two file descriptors, and a server process.
 *
 * The library does no I/O; this header does, in inline functions, so there is nothing to link. It is written for programs that
 * do one thing at a time. A program with a loop of its own calls the functions of mcp.h instead, as these do.
 *
 * Define _POSIX_C_SOURCE as 200809L before the first include, unless the compiler was asked for GNU C. Ignore SIGPIPE, or
 * the program ends when it writes to a peer that has closed its end.
 *
 * Licensed under MIT or Apache-2.0, at your option. */
#ifndef MCP_POSIX_H
#define MCP_POSIX_H

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>
#include "mcp.h"

/* The longest write. A pipe that can be written has room for so much, and the write does not block. */
#ifdef PIPE_BUF
#define MCP_POSIX_PIECE ((size_t)PIPE_BUF)
#else
#define MCP_POSIX_PIECE ((size_t)_POSIX_PIPE_BUF)
#endif

/* Returns the time of the monotonic clock in microseconds, for the parameter `now` of all functions. */
static inline uint64_t mcp_posix_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* Fills 32 bytes for `mcp_config.entropy`. Returns false if the system has no /dev/urandom. */
static inline bool mcp_posix_entropy(uint8_t *bytes) {
  int file = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
  ssize_t got = file < 0 ? -1 : read(file, bytes, 32);
  if (file >= 0) close(file);
  return got == 32;
}

/* Waits until `in` can be read, `out` can be written (-1: not waited for) or a time. Returns POLLIN, POLLOUT, both or 0. */
static inline int mcp_posix_wait(int in, int out, uint64_t until) {
  struct pollfd files[2] = {{-1, POLLIN, 0}, {-1, POLLOUT, 0}};
  uint64_t now = mcp_posix_now(), left = until > now ? (until - now) / 1000 + 1 : 0;
  files[0].fd = in, files[1].fd = out;
  if (poll(files, 2, until == UINT64_MAX ? -1 : left > 60000 ? 60000 : (int)left) <= 0) return 0;
  return (files[0].revents ? POLLIN : 0) | (files[1].revents ? POLLOUT : 0);
}

/* Returns whether a read or a write failed, and not only could not be done now. */
static inline bool mcp_posix_failed(ssize_t moved) {
  return moved < 0 && errno != EINTR && errno != EAGAIN && errno != EWOULDBLOCK;
}

/* Runs one turn of the loop of a server: waits for `in`, `out`, the next deadline or `until` (UINT64_MAX for none), reads and
 * writes once, and processes deadlines. Returns false when the connection is finished, or `out` fails.
 *
 * Call it when `mcp_server_poll_event` has returned MCP_DONE. It may return early. It does not block on
 * descriptors that block, except that a file or a terminal may. */
static inline bool mcp_posix_server_turn(mcp_server *server, int in, int out, uint64_t until) {
  uint8_t input[4096];
  mcp_slice bytes;
  uint64_t deadline;
  bool reads = mcp_server_wants_input(server), writes = mcp_server_transmit(server, &bytes) == MCP_OK;
  if (mcp_server_is_drained(server)) return false;
  if (mcp_server_poll_timeout(server, &deadline) == MCP_OK && deadline < until) until = deadline;
  int ready = mcp_posix_wait(reads ? in : -1, writes ? out : -1, until);
  if ((ready & POLLOUT) && mcp_server_transmit(server, &bytes) == MCP_OK) {
    ssize_t written = write(out, bytes.data, bytes.len < MCP_POSIX_PIECE ? bytes.len : MCP_POSIX_PIECE);
    if (mcp_posix_failed(written)) return false;
    if (written > 0) mcp_server_consume(server, (size_t)written);
  }
  if (ready & POLLIN) {
    ssize_t got = read(in, input, sizeof input);
    if (got > 0) mcp_server_handle_input(server, mcp_posix_now(), input, (size_t)got);
    else if (got == 0 || mcp_posix_failed(got)) mcp_server_handle_eof(server, mcp_posix_now());
  } else if (!reads) mcp_server_hold_keep_alive(server, mcp_posix_now());
  mcp_server_handle_timeout(server, mcp_posix_now());
  return true;
}

/* Runs one turn of the loop of a client: as `mcp_posix_server_turn`, but calls fail when `out` does (`mcp_client_close`). */
static inline bool mcp_posix_client_turn(mcp_client *client, int in, int out, uint64_t until) {
  uint8_t input[4096];
  mcp_slice bytes;
  uint64_t deadline;
  bool reads = mcp_client_wants_input(client), writes = mcp_client_transmit(client, &bytes) == MCP_OK;
  if (mcp_client_is_drained(client)) return false;
  if (mcp_client_poll_timeout(client, &deadline) == MCP_OK && deadline < until) until = deadline;
  int ready = mcp_posix_wait(reads ? in : -1, writes ? out : -1, until);
  if ((ready & POLLOUT) && mcp_client_transmit(client, &bytes) == MCP_OK) {
    ssize_t written = write(out, bytes.data, bytes.len < MCP_POSIX_PIECE ? bytes.len : MCP_POSIX_PIECE);
    if (mcp_posix_failed(written)) {
      mcp_client_consume(client, bytes.len);
      mcp_client_close(client, mcp_posix_now());
    } else if (written > 0) mcp_client_consume(client, (size_t)written);
  }
  if (ready & POLLIN) {
    ssize_t got = read(in, input, sizeof input);
    if (got > 0) mcp_client_handle_input(client, mcp_posix_now(), input, (size_t)got);
    else if (got == 0 || mcp_posix_failed(got)) mcp_client_handle_eof(client, mcp_posix_now());
  } else if (!reads) mcp_client_hold_keep_alive(client, mcp_posix_now());
  mcp_client_handle_timeout(client, mcp_posix_now());
  return true;
}

/* Starts a program with a pipe to its stdin and a pipe from its stdout. Returns its process id for waitpid, or -1.
 *
 * `arguments` begins with the program, which is searched for in PATH, and ends with NULL. The child exits with 127 if the
 * program cannot be run. Read from `*from`, write to `*to`, and close `*to` to end the server. */
static inline pid_t mcp_posix_spawn(char *const *arguments, int *from, int *to) {
  int out[2], in[2]; /* of the child */
  pid_t child;
  if (pipe(out) != 0) return -1;
  if (pipe(in) != 0) {
    close(out[0]), close(out[1]);
    return -1;
  }
  fcntl(out[0], F_SETFD, FD_CLOEXEC), fcntl(in[1], F_SETFD, FD_CLOEXEC);
  child = fork();
  if (child == 0) {
    /* A pipe may have the number that the other one is moved to, if stdin or stdout was closed. */
    int input = fcntl(in[0], F_DUPFD, 3), output = fcntl(out[1], F_DUPFD, 3);
    if (dup2(input, 0) == 0 && dup2(output, 1) == 1 && close(input) == 0 && close(output) == 0) {
      if (in[0] > 2) close(in[0]);
      if (out[1] > 2) close(out[1]);
      signal(SIGPIPE, SIG_DFL); /* The program may ignore it, and a server would inherit that. */
      execvp(arguments[0], arguments);
    }
    _exit(127);
  }
  close(in[0]), close(out[1]);
  if (child < 0) close(in[1]), close(out[0]);
  else *from = out[0], *to = in[1];
  return child;
}

#endif /* MCP_POSIX_H */
