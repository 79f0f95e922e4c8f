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


def without_hours():
    """Begins again by `.ci/hours pause`, so that no fuzzing runs beside what is measured."""
    if "HOURS_PAUSED" not in os.environ:
        hours = os.path.join(ROOT, ".ci", "hours")
        os.execv(hours, [hours, "pause", sys.executable, os.path.abspath(sys.argv[0]), *sys.argv[1:]])


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


def profile_of(where=ROOT):
    """The profile in which a program is measured. In this workspace `release` is that of the programs that are given away."""
    return "measure" if where == ROOT else "release"


def build(*what, where=ROOT, env=None, given=None):
    run(["cargo", "build", "--profile", given or profile_of(where), "--quiet", *what], cwd=where, env=env, stderr=None)


# Settings of the profile of a small program: `core/docs/size.md`.
SMALLEST = dict(lto='"fat"', codegen_units="1", opt_level='"z"', panic='"abort"')


def program(package, source, settings=None, features=()):
    """Builds a source text as a program of its own that depends on one of our packages, and returns its path.

    The programs of users are like that. An example in the workspace gets the features that the tests of its package need.
    """
    settings = settings or {}
    folder = os.path.join(target(), "programs")
    os.makedirs(os.path.join(folder, "src"), exist_ok=True)
    adapter = os.path.join(ROOT, "adapters", package.removeprefix("mcp-"))
    manifest = f"""
        [package]
        name = "program"
        edition = "2024"
        [dependencies]
        {package} = {{ path = "{adapter}", features = {json.dumps(list(features))} }}
        serde = {{ version = "1", features = ["derive"] }}
        serde_json = "1"
        tokio = {{ version = "1", features = ["macros", "rt-multi-thread"], optional = {json.dumps(package != "mcp-tokio")} }}
        [profile.release]
        """ + "".join(f"{key.replace('_', '-')} = {value}\n" for key, value in settings.items()) + """
        [workspace]
        """
    for name, text in (("Cargo.toml", manifest), ("src/main.rs", source)):
        with open(os.path.join(folder, name), "w") as file:
            file.write(text)
    # The versions that our own programs have.
    shutil.copy(os.path.join(ROOT, "Cargo.lock"), folder)
    built = os.path.join(folder, "target", "-".join(settings.values()).replace('"', "") or "release")
    build(where=folder, env=dict(os.environ, CARGO_TARGET_DIR=built))
    return os.path.join(built, "release", "program")


def first_program(readme):
    """Returns the first Rust program of a page."""
    with open(readme) as page:
        return re.search(r"```rust,no_run\n(.*?)```", page.read(), re.DOTALL)[1]


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
