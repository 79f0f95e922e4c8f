"""The group `growth` of `measure`: the cost of one operation beside 1, 1,000, 10,000 and 100,000 others of its kind."""

import json
import os
from concurrent.futures import ThreadPoolExecutor

from tools import VALGRIND, run, say, slope

OTHERS = [1, 1_000, 10_000, 100_000]
# Largest ratio to the cost beside one other.
BARS = {10_000: 1.5, 100_000: 2.0}
# The ids of outbound calls leave room for this many: the last figure of their operations is at 32,000.
MOST_PENDING = 32_000
# Seconds for one run on this CPU, and for one under cachegrind, which takes twenty times as long.
MOST_SECONDS = (6, 150)

# Name of the scenario, its text, and the largest number of others.
OPERATIONS = [
    ("server", [
        ("call-up", "call, n in flight on its channel, ids upward", None),
        ("call-down", "call, n in flight on its channel, ids downward", None),
        ("call-random", "call, n in flight on its channel, ids at random", None),
        ("call-text", "call, n in flight on its channel, ids are strings", None),
        ("call-apart", "call, n sessions with one in flight each", None),
        ("cancel", "call, and one of n in flight is cancelled", None),
        ("expire", "call, and the oldest of n expires", None),
        ("session", "session opened, and one of n closed", None),
        ("waiting", "call waits, and the oldest of n on its channel is admitted", None),
        ("waiting-apart", "call waits, and the oldest of n channels is served", None),
        ("waiting-cancel", "call waits, and one of n on its channel is cancelled", None),
        ("round", "legacy round, n parked calls in its session", MOST_PENDING),
        ("round-apart", "legacy round, n sessions with one parked call each", MOST_PENDING),
        ("listen", "listen stream ended and opened, n channels with one each", None),
        ("listen-together", "listen stream ended and opened, n on its channel", None),
        ("subscribe", "resource unsubscribed and subscribed, n of its session", None),
        ("subscribe-apart", "resource unsubscribed and subscribed, n sessions of one resource", None),
        ("publish", "change of one of n resources with one subscriber each", None),
    ]),
    ("client", [
        ("client-call", "call, n pending", MOST_PENDING),
        ("client-cancel", "call, and one of n pending is cancelled", MOST_PENDING),
        ("client-expire", "call, and the oldest of n times out", MOST_PENDING),
        ("client-queued", "call before the connection is ready, and one of n is cancelled", MOST_PENDING),
        ("client-input", "input request, and one of n is answered", None),
        ("client-url", "elicitation by URL, and one of n is complete", None),
        ("client-round", "call with a round, n wait for their input", MOST_PENDING),
        ("client-subscribe", "one of n subscriptions ended, another begun", MOST_PENDING),
        ("client-subscribe-legacy", "one of n subscriptions ended, another begun, legacy", None),
        ("client-change", "change for one of n subscriptions", MOST_PENDING),
        ("client-change-legacy", "change for one of n subscriptions, legacy", None),
        ("outbox", "message queued, and the oldest of n taken", None),
    ]),
    ("client over HTTP", [
        ("http-client-call", "call, n open exchanges", MOST_PENDING),
        ("http-client-message", "notification, n open exchanges", MOST_PENDING),
        ("http-client-cancel", "call, and one of n is cancelled", MOST_PENDING),
        ("http-client-stream", "one of n event streams ended, another opened", MOST_PENDING),
        ("http-client-event", "event of one of n event streams", MOST_PENDING),
        ("pool", "call, n busy connections in the pool", MOST_PENDING),
    ]),
    ("server over HTTP", [
        ("http-sessions", "call, n sessions", None),
        ("http-exchanges", "call, n open exchanges", None),
        ("http-together", "call, n open exchanges of its session", None),
        ("http-streams", "call, n sessions with a GET stream each", None),
        ("http-session", "session opened, and one of n deleted", None),
        ("http-store", "session begun, and one of n is stored", None),
        ("http-gone", "call, and the client of one of n is gone", None),
        ("http-listen", "listen stream opened, and the client of one of n is gone", None),
        ("resume-get", "GET stream resumed, n at once, for each", None),
        ("resume-call", "stream of a call resumed, n at once, for each", None),
    ]),
    ("router", [
        ("router-call", "call of one of n tools", None),
        ("router-page", "page of a list of n tools", None),
        ("router-change", "one of n tools replaced", None),
    ]),
]


class Figure:
    """One operation beside a number of others."""

    def __init__(self, program, name, others):
        self.program, self.name, self.others = program, f"growth-{name}-{others}", others
        # One run of a resumption is that of all streams.
        self.per_run = others if name.startswith("resume") else 1
        self.nanos = self.instructions = None

    def time(self, one_core, repeats):
        n = max(1, 2_000 // self.per_run)
        for _ in range(repeats):
            try:
                out = run([*one_core, self.program, self.name, str(n)], timeout=MOST_SECONDS[0])
            except RuntimeError as e:
                if "not finished" not in str(e):
                    raise
                return
            nanos = json.loads(out)["ns"] / self.per_run
            self.nanos = min(nanos, self.nanos or nanos)

    def count(self):
        """Counts instructions; the set-up makes long runs useless if a walk per operation makes it quadratic."""
        if not VALGRIND or self.nanos is None:
            return
        # Enough operations to see rebuilds of tables, which are paid for by many operations.
        n = 100 if self.nanos > 50_000 else 4_000 if self.others > 10_000 else 1_000
        low, high = (1, 1 + max(1, n // self.per_run)) if self.per_run > 1 else (100, 100 + n)
        try:
            cost = slope(lambda tool, n: [*tool, self.program, self.name, str(n)], low, high, MOST_SECONDS[1])
        except RuntimeError as e:
            if "not finished" not in str(e):
                raise
            return
        self.instructions = cost / self.per_run


class GrowthTable:
    def __init__(self):
        self.rows = []

    def measure(self, program, one_core, runs, parts):
        """Measures the operations whose name contains one of `parts`."""
        figures = []
        for role, operations in OPERATIONS:
            for name, text, most in operations:
                if not any(part in name for part in parts):
                    continue
                all_of = [Figure(program, name, min(n, most or n)) for n in OTHERS]
                for figure in all_of:
                    figure.time(one_core, min(runs, 3))
                figures += all_of
                self.rows.append(dict(name=name, role=role, work=text, most=most, figures=all_of))
        say("measuring: growth, instructions")
        # A busy neighbour does not change the counts.
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(Figure.count, figures))
        for row in self.rows:
            row["others"] = [f.others for f in row["figures"]]
            for unit in ("instructions", "nanos"):
                values = [getattr(f, unit) for f in row["figures"]]
                row[unit] = values
                row[f"{unit}_ratios"] = [v / values[0] if v is not None and values[0] else None for v in values]
            del row["figures"]
            ratios = dict(zip(OTHERS, row["instructions_ratios"]))
            met = [ratios[n] is not None and ratios[n] <= bar for n, bar in BARS.items()]
            row["reached"] = "" if not VALGRIND else "yes" if all(met) else "NO"

    def show(self):
        def count(value):
            return "–" if value is None else f"{value:,.0f}"

        def ratio(value):
            return "–" if value is None else f"{value:.2f}"

        few = [f"{n:,}" for n in OTHERS]
        head = ["instructions of one operation beside n others", *few, *(f"× at {n}" for n in few[2:]),
                "µs at 1", *(f"× at {n}" for n in few[2:]), "reached"]
        lines, role = [], None
        for r in self.rows:
            if r["role"] != role:
                role = r["role"]
                lines.append([f"**{role}**", *[""] * (len(head) - 1)])
            text = r["work"] + (f" (the last: {r['most']:,})" if r["most"] else "")
            micros = r["nanos"][0]
            lines.append([text, *map(count, r["instructions"]), *map(ratio, r["instructions_ratios"][2:]),
                          "–" if micros is None else f"{micros / 1000:.2f}", *map(ratio, r["nanos_ratios"][2:]), r["reached"]])
        width = [max(len(x[i]) for x in [head, *lines]) for i in range(len(head))]

        def text(line):
            cells = [c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(line, width))]
            return "| " + " | ".join(cells) + " |"

        print(text(head))
        print("|" + "|".join("-" * (w + 1) + ("-" if i == 0 else ":") for i, w in enumerate(width)) + "|")
        for line in lines:
            print(text(line))
        bars = " and ".join(f"{bar:g} × at {n:,}" for n, bar in BARS.items())
        print(f"Bars: instructions at most {bars}. – is more than {MOST_SECONDS[0]} s, or {MOST_SECONDS[1]} s while counted.")
