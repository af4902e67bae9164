#!/usr/bin/env python3
"""Runs the real mini-swe-agent on every scenario, and records its requests and its trajectory.

    record.py [NAME...]                         record with mini-swe-agent (installed on first use)
    record.py --against BIN [NAME...]           run both, and show where BIN differs
    record.py --against BIN --recorded [NAME...]  compare BIN with the recordings

Needs Python 3.11 or later, and nothing else. All connections are on loopback. See README.md.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import venv
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import given
from compare import MISSING, Allowed, differences, normal, pointer
from scripted import Server

RECORDED = given.HERE / "recorded"
PINNED = ("mini-swe-agent==2.4.6", "litellm==1.106.0", "openai==2.54.0", "pydantic==2.14.3", "Jinja2==3.1.6", "PyYAML==6.0.3", "mcp==2.3.0")
LIMIT = 90  # seconds for one run


def main():
    options = arguments()
    names = options.names or given.names()
    program = None if options.recorded else [str(installed(options.venv) / "mini")]
    if options.recorded and not options.against:
        sys.exit("--recorded goes with --against BIN")
    with ThreadPoolExecutor(options.jobs) as pool:
        outcomes = list(pool.map(lambda name: one(name, program, options), names))
    if options.against:
        sys.exit(report(outcomes, whole=not options.names, quiet=options.summary))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="scenarios; without: all of them")
    parser.add_argument("--against", type=Path, metavar="BIN", help="a mswea-host to compare with")
    parser.add_argument("--recorded", action="store_true", help="compare with the recordings, without mini-swe-agent")
    parser.add_argument("--summary", action="store_true", help="show the table only")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="write the result of BIN to DIR/NAME.json")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time (default 2)")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    parser.add_argument("--venv", type=Path, default=cache / "mswea-side-by-side", help="where mini-swe-agent is installed (%(default)s)")
    return parser.parse_args()


def installed(folder):
    """The `bin` folder of a virtual environment with the pinned versions."""
    stamp = folder / "pinned.txt"
    if not stamp.exists() or stamp.read_text() != "\n".join(PINNED):
        print(f"installing {PINNED[0]} into {folder}", file=sys.stderr)
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([folder / "bin/pip", "install", "--quiet", *PINNED], check=True)
        stamp.write_text("\n".join(PINNED))
    return folder / "bin"


def one(name, program, options):
    """Records a scenario and returns None; or returns its name and the two results to compare."""
    setting = given.expand(name)
    path = RECORDED / f"{name}.json"
    if options.recorded:
        recording = json.loads(path.read_text("utf-8"))
        if recording["given"] != setting:
            sys.exit(f"{name}: the recording is of another scenario: record it again")
        wanted = recording["result"]
    else:
        wanted = run(program, setting)
        if not options.against:
            # litellm keeps some keys in sets, whose order changes from run to run.
            result = json.loads(json.dumps(wanted, sort_keys=True))
            recording = {"by": " ".join(PINNED[:2]), "given": setting, "result": result}
            RECORDED.mkdir(exist_ok=True)
            path.write_text(json.dumps(recording, indent=1) + "\n", "utf-8")
            print(f"{name}: {len(wanted['requests'])} requests, {ending(wanted)}, exit {wanted['exit']}", flush=True)
            return None
    got = run([str(options.against.resolve())], setting)
    if options.keep:
        options.keep.mkdir(parents=True, exist_ok=True)
        (options.keep / f"{name}.json").write_text(json.dumps(got, indent=1) + "\n", "utf-8")
    return name, wanted, got


def run(program, setting, look=None):
    """The result of a run: exit code, last line of standard error, requests and trajectory; and the result of `look` for the trajectory's file."""
    clock = setting.get("clock", 1)
    server = Server(setting["replies"], clock)
    root = Path(tempfile.mkdtemp(prefix="side-by-side-")).resolve()
    home, work = root / "home", root / "work"
    home.mkdir()
    work.mkdir()
    filled = {given.URL: server.url, given.WORK: str(work), given.HOME: str(home)}

    def fill(text):
        for name, place in filled.items():
            text = text.replace(name, place)
        return text

    try:
        for name, text in setting["files"].items():
            file = work / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(fill(text), "utf-8")
        env = {name: fill(value) for name, value in setting["env"].items()}
        env |= {"PATH": os.environ["PATH"], "TMPDIR": str(root), "_TYPER_STANDARD_TRACEBACK": "1"}
        env |= {"PYTHONPATH": str(given.HERE / "clock"), "SIDE_BY_SIDE_CLOCK": str(clock)} if clock != 1 else {}
        # All runs share this cache, so that plugins are compiled once.
        env["XDG_CACHE_HOME"] = str(Path(tempfile.gettempdir()) / "side-by-side-cache")
        command = [*program, *(fill(argument) for argument in setting["args"])]
        code, printed = finish(command, env, work)
        saved = work / "out.traj.json"
        result = {
            "exit": code,
            "stderr": (printed.strip().splitlines() or [""])[-1] if code else "",
            "requests": server.requests,
            "trajectory": json.loads(saved.read_text("utf-8")) if saved.exists() else None,
        }
        if look:
            result["seen"] = look(saved)
        places = [(server.url, given.URL), (server.address, given.URL), (str(work), given.WORK), (str(home), given.HOME)]
        return normal(result, places)
    finally:
        server.close()
        shutil.rmtree(root, ignore_errors=True)


def finish(command, env, work):
    """Runs the program to its end, or kills it after LIMIT seconds."""
    process = subprocess.Popen(
        command, cwd=work, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        _, printed = process.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        _, printed = process.communicate()
        return "killed", printed.decode("utf-8", "replace")
    return process.returncode, printed.decode("utf-8", "replace")


def ending(result):
    return (result["trajectory"] or {}).get("info", {}).get("exit_status", "(no trajectory)")


def report(outcomes, whole, quiet):
    """Prints every difference that is not allowed, then a table. Returns the exit code."""
    allowed = Allowed()
    rows = []
    for name, wanted, got in outcomes:
        found = [one for one in differences(wanted, got) if not is_allowed(allowed, name, one)]
        requests = sum(path[0] == "requests" for path, *_ in found)
        rows.append((name, ending(wanted), len(wanted["requests"]), requests, len(found) - requests))
        if found and not quiet:
            print(f"\n== {name}")
            if got["exit"] and got["stderr"]:
                print(f"   stderr: {got['stderr']}")
            for (where, *_), all_of_it in grouped(found).items():
                path, one, other = all_of_it[0]
                times = f"  ({len(all_of_it)} times; first at {pointer(path)})" if len(all_of_it) > 1 else ""
                print(f"   {where}{times}\n      mini: {short(one, other)}\n      ours: {short(other, one)}")
    width = max(len(name) for name, *_ in rows)
    print(f"\n{'scenario':{width}}  {'ends':22} requests  differing: in requests, elsewhere")
    for name, how, count, requests, others in rows:
        print(f"{name:{width}}  {how:22} {count:8}  {requests or '-':>22}  {others or '-':>9}")
    failed = sum(bool(requests or others) for *_, requests, others in rows)
    print(f"\n{len(rows)} scenarios, {failed} with differences that `differences.json` does not list")
    if whole:
        for entry in allowed.unused():
            print(f"no longer needed in differences.json: {entry}")
    return 1 if failed else 0


def grouped(found):
    """Groups equal differences whose places differ only in indices."""
    groups = {}
    for path, one, other in found:
        where = pointer(["*" if isinstance(part, int) else part for part in path])
        groups.setdefault((where, repr(one), repr(other)), []).append((path, one, other))
    return groups


def is_allowed(allowed, name, difference):
    path, wanted, got = difference
    return allowed.finds(name, path, wanted, got)


def short(value, other):
    """A value on one line; of a long text, the part from which it differs from `other`."""
    if value is MISSING:
        return repr(value)
    if isinstance(value, str) and isinstance(other, str) and len(value) > 120:
        start = next((i for i, (a, b) in enumerate(zip(value, other)) if a != b), min(len(value), len(other)))
        start = max(0, start - 40)
        return f"…[{start}:] {json.dumps(value[start:start + 120])}"
    text = json.dumps(value)
    return text if len(text) <= 240 else f"{text[:240]}… ({len(text)} characters)"


if __name__ == "__main__":
    main()
