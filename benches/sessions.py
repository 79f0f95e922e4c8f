"""The groups `sharing` and `many` of `measure`: sessions that several processes serve, and very many of them."""

import json

from tools import run, slope

# Sessions that are idle, and GET streams of one process.
SESSIONS, STREAMS = 1_000_000, 100_000
# Sessions beside which a call is made. Up to the last but one its cost is within 5 % of the first.
BESIDE = (1, 1_000, 100_000, 1_000_000)
# Seconds without a request. A stream has a keep-alive comment every 15 s.
IDLE = 30


def sharing(b, t):
    """The cost of a store on the server's side of it: the store itself does nothing."""
    plain = b.work_slope("http-legacy")
    t.add("call of a session that is shared, beside one that is not", b.work_slope("http-shared-legacy"), plain, 1.05, 1.02,
          "instructions", relative=True)
    for runtime in ("blocking", "threads", "smol", "tokio"):
        alone, shared = (over_http(b, runtime, *options) for options in ((), ("shared",)))
        t.add(f"  the same of a server process with a store in memory, 16 connections, {runtime}", shared, alone, 1.05, None,
              "instructions", relative=True)
    t.add("record of an idle session", b.work("record-legacy", 1)["heap"], goal=512, aim=256, unit="bytes")
    t.add("  written", b.work_slope("save-session"), goal=30_000, aim=5_000, unit="instructions")
    t.add("  its allocations", b.work("save-session", 10_000)["allocs"])
    load, shared = b.work_slope("load-session"), b.work_slope("http-shared-legacy")
    # Of a call that finds its session not here, what the plain call would not do; the session is dropped again, too.
    t.add("  read: a session taken, and dropped again", load and load - shared, goal=30_000, aim=10_000, unit="instructions")


def over_http(b, runtime, *options):
    server = [b.path("bench-serve"), runtime, "{port}", *options]
    return slope(lambda tool, n: [*b.one_core, b.path("bench-http"), "legacy", "16", str(n), "--", *tool, *server], 200, 1_200)


def many(b, t):
    held = b.work("sessions-legacy", SESSIONS)
    t.add(f"idle legacy session, {SESSIONS:,} of them", held["heap"], goal=480, aim=256, unit="bytes")
    t.add(f"  a handshake, the mean of {SESSIONS:,}", b.work("handshake", SESSIONS)["ns"] / 1e3, unit="µs")
    t.add("  its instructions, among 10,000", b.work_slope("handshake"), unit="instructions")
    first = None
    for n in BESIDE:
        call = b.slope(lambda tool, runs: [*tool, b.path("bench-work"), f"growth-http-sessions-{n}", str(runs)], 100, 4_100, 3_600)
        first = first or call
        t.add(f"call beside {n:,} sessions", call, first, None if n == BESIDE[-1] else 1.05, None, "instructions", relative=True)
    check = b.work_slope("growth-http-expiry-100000", 2, 6)
    t.add("look for expired sessions, 16 in the idle timeout, for each session", check and check / 100_000, goal=100,
          unit="instructions")
    for runtime in ("threads", "smol", "tokio"):
        streams(b, t, runtime)


def streams(b, t, runtime):
    """GET streams of one process, whose clients are another one."""
    def crowd(*options):
        command = [b.path("bench-crowd"), "get", str(STREAMS), str(IDLE), "--", b.path("bench-serve"), runtime, "{port}", *options]
        return json.loads(run(command, stderr=None))

    found, silent = crowd(), crowd("silent")
    if found["n"] < STREAMS:
        b.failed.append(f"many, {runtime}: {found['n']:,} GET streams instead of {STREAMS:,}, for lack of descriptors (ulimit -Hn)")
    t.add(f"session with its GET stream open, {found['n']:,} of one process, {runtime}: resident memory", found["bytes_each"],
          unit="bytes")
    t.add("  one change to all: until the last one has it", found["told_ms"], unit="ms")
    t.add("  CPU for each", found["told_cpu_us"], unit="µs")
    t.add("  idle, with keep-alive comments: CPU per s", found["idle_cpu_ms_per_s"], unit="ms")
    t.add("  idle, without them: CPU per s", silent["idle_cpu_ms_per_s"], goal=0, unit="ms")
