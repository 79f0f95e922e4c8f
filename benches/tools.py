"""Shared by `measure` and `beside`: commands, builds, instruction counts."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
VALGRIND = shutil.which("valgrind")


def say(text):
    print(text, file=sys.stderr, flush=True)


def run(command, timeout=900, **more):
    """Returns the output of a command. On a timeout, its whole process group is killed."""
    more.setdefault("stderr", subprocess.PIPE)
    p = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True, **more)
    try:
        out, err = p.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(p.pid, signal.SIGKILL)
        p.wait()
        raise RuntimeError(f"{' '.join(command)}: not finished after {timeout} s")
    if p.returncode:
        raise RuntimeError(f"{' '.join(command)}: exit {p.returncode}\n{(err or '')[-2000:]}")
    return out


def target():
    meta = json.loads(run(["cargo", "metadata", "--no-deps", "--format-version", "1"], cwd=ROOT))
    return meta["target_directory"]


def build(*what, where=ROOT, env=None):
    run(["cargo", "build", "--release", "--quiet", *what], cwd=where, env=env, stderr=None)


def stripped(path):
    """Returns the size of a program without symbols, in MB."""
    with tempfile.TemporaryDirectory() as d:
        run(["strip", "-o", os.path.join(d, "out"), path])
        return os.path.getsize(os.path.join(d, "out")) / 1e6


def instructions(command, timeout=900):
    """Returns the instructions of a whole run in user space; `command` takes the counting tool."""
    with tempfile.NamedTemporaryFile("r", prefix="cachegrind-") as log:
        tool = [VALGRIND, "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
        run(command([*tool, f"--log-file={log.name}"]), timeout)
        return int(re.findall(r"I\s+refs:\s+([\d,]+)", log.read())[-1].replace(",", ""))


def slope(command, low, high, timeout=900):
    """Returns the instructions per operation: the slope between two run lengths, which excludes start-up."""
    if not VALGRIND:
        return None
    ends = [instructions(lambda tool, n=n: command(tool, n), timeout) for n in (low, high)]
    return (ends[1] - ends[0]) / (high - low)
