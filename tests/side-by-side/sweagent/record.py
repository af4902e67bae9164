#!/usr/bin/env python3
"""Runs the real SWE-agent on every scenario of `table.py`, and records its requests and its files.

    record.py --source DIR [NAME...]                record; DIR is a clone of SWE-agent at the commit of COMMIT
    record.py --against BIN [NAME...]               compare BIN with the recordings

Recording needs root, Python 3.11, PyPI, and a Linux that can mount overlays: SWE-agent writes into `/` and `/root`,
so each run has a copy of the file system that is thrown away. All connections of a run are on loopback.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import given  # noqa: E402
from compare import Allowed, differences, normal, pointer  # noqa: E402
from scripted import Server  # noqa: E402
from table import SCENARIOS  # noqa: E402

COMMIT = "3ea751c087f32b16e039a2233dd6eefecef325d5"
PINNED = ("swe-rex==1.4.0", "litellm==1.106.2", "openai==2.54.0", "pydantic==2.14.3", "Jinja2==3.1.6", "mcp==2.3.0")
RECORDED = HERE / "recorded"
LIMIT = 400  # seconds for one program
REPO = "@REPO@"
# What every configuration begins with; a scenario's own is laid over it.
MODEL = """\
agent:
  model:
    name: openai/test-model
    api_base: '@URL@'
    api_key: sk-dummy
    per_instance_cost_limit: 0
    retry: {retries: 1, min_wait: 0.01, max_wait: 0.01}
"""
ENVIRONMENT = {
    "HOME": given.HOME,
    "LANG": "C.UTF-8",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "TERM": "dumb",
    "USER": "me",
}
# Each run in a throw-away copy of the file system: `/tmp` is shared, for the scenario's own folder.
ISOLATED = r"""
set -e
mount -t tmpfs tmpfs "$1"
mkdir "$1/up" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/up,workdir=$1/work" "$1/root"
for d in proc dev sys tmp; do mount --rbind "/$d" "$1/root/$d"; done
rm -rf "$1/root/root/tools" "$1/root/root/model.patch" "$1/root/root/.swe-agent-env" "$1/root/root/state.json" "$1/root/sbsrepo"
: >"$1/root/root/.bashrc"
place="$1/root"; folder="$2"; shift 2
exec chroot "$place" sh -c 'cd "$1"; shift; exec "$@"' sh "$folder" "$@"
"""


def main():
    options = arguments()
    names = options.names or list(SCENARIOS)
    if options.source:
        options.program = str(installed(options.venv, options.source.resolve()) / "sweagent")
    elif not options.against:
        sys.exit("give --source DIR, or --against BIN")
    with ThreadPoolExecutor(options.jobs) as pool:
        outcomes = list(pool.map(lambda name: one(name, options), names))
    if options.against:
        allowed = Allowed(HERE / "differences.json")
        failed = report(outcomes, allowed, quiet=True)
        print(f"{len(outcomes)} scenarios, {failed} with differences that `differences.json` does not list")
        for entry in allowed.unused() if not options.names else ():
            print(f"no longer needed in differences.json: {entry}")
        sys.exit(bool(failed))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="scenarios; without: all of them")
    parser.add_argument("--source", type=Path, metavar="DIR", help="a clone of SWE-agent")
    parser.add_argument("--against", type=Path, metavar="BIN", help="a mswea-host to compare with the recordings")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time (default 2)")
    parser.add_argument("--keep", action="store_true", help="show what the program prints")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    parser.add_argument("--venv", type=Path, default=cache / "sweagent-side-by-side", help="where it is installed (%(default)s)")
    return parser.parse_args()


def installed(folder, source):
    head = subprocess.run(["git", "-C", source, "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    if head.stdout.strip() != COMMIT:
        sys.exit(f"{source} is at {head.stdout.strip()}: check out {COMMIT}")
    stamp, pinned = folder / "pinned.txt", "\n".join([*PINNED, str(source)])
    if not stamp.exists() or stamp.read_text() != pinned:
        print(f"installing SWE-agent into {folder}", file=sys.stderr)
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([folder / "bin/pip", "install", "--quiet", *PINNED, "-e", source], check=True)
        stamp.write_text(pinned)
    return folder / "bin"


def expand(name):
    """The scenario with everything written out."""
    told = SCENARIOS[name]
    unknown = set(told) - {"what", "config", "replies", "args", "runs", "files", "model", "ids"}
    if unknown:
        sys.exit(f"{name}: unknown keys {sorted(unknown)}")
    files = {"model.yaml": told.get("model", MODEL), "mine.yaml": told["config"]} | told.get("files", {})
    configs = ["--config=model.yaml", "--config=mine.yaml"]
    one = [
        "run", *configs, "--env.deployment.type=local", "--env.repo.path=@WORK@/sbsrepo", "--problem_statement.id=one",
        "--output_dir=@WORK@/out", *told.get("args", ["--problem_statement.text=fix it"]),
    ]
    runs = told.get("runs", [one])
    return {
        "what": told["what"],
        "words": name.startswith(("bundle_", "sample_colleagues")),
        "ids": told.get("ids", ["one"]),
        "runs": [[word for arg in run for word in (configs if arg == "CONFIGS" else [arg])] for run in runs],
        "env": ENVIRONMENT,
        "files": files,
        "replies": [given.reply("chat", number, reply) for number, reply in enumerate(told["replies"], 1)],
    }


def one(name, options):
    setting = expand(name)
    path = RECORDED / f"{name}.json"
    if options.source:
        # On a busy machine its shell does not start in time.
        result = next((result for result in (run(options, setting) for _ in range(3)) if result["requests"]), None)
        if result is None:
            sys.exit(f"{name}: SWE-agent has sent no request: see `--keep`")
        RECORDED.mkdir(exist_ok=True)
        recording = {"by": f"SWE-agent {COMMIT[:7]} {PINNED[0]} {PINNED[1]}", "given": setting, "result": result}
        path.write_text(json.dumps(json.loads(json.dumps(recording, sort_keys=True)), indent=1) + "\n", "utf-8")
        print(f"{name}: {len(result['requests'])} requests, exit {result['exit']}, {endings(result)}", flush=True)
        if not options.against:
            return None
    recording = json.loads(path.read_text("utf-8"))
    if recording["given"] != setting:
        return name, recording["result"], {"exit": "the recording is of another scenario: record it again"}
    ours = argparse.Namespace(**vars(options) | {"program": str(options.against.resolve()), "source": None})
    got = run(ours, setting)
    report([(name, recording["result"], got)], Allowed(HERE / "differences.json"))
    return name, recording["result"], got


def run(options, setting):
    """The result of the runs of a scenario: exit codes, requests, and what is in the files."""
    server = Server(setting["replies"])
    root = Path(tempfile.mkdtemp(prefix="sbs-swe-")).resolve()
    home, work = root / "home", root / "work"
    home.mkdir()
    work.mkdir()
    try:
        repository(work / "sbsrepo")

        def fill(text):
            for word, place in {given.URL: server.url, given.WORK: str(work), given.HOME: str(home)}.items():
                text = text.replace(word, place)
            return text

        for path, text in setting["files"].items():
            file = work / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(fill(text), "utf-8")
            if "/bin/" in path:
                file.chmod(0o755)
        env = {key: fill(value) for key, value in setting["env"].items()} | {"PATH": os.environ["PATH"], "TMPDIR": str(root)}
        # All runs share this cache, so that plugins are compiled once.
        env |= {"XDG_CACHE_HOME": str(Path(tempfile.gettempdir()) / "side-by-side-cache"), "MSWEA_PLUGIN_CACHE": "trust"}
        codes = []
        for words in setting["runs"]:
            command = [options.program, *([] if options.source else ["sweagent"]), *map(fill, words)]
            if options.source:
                env |= {"HOME": "/root", "PYTHONPATH": str(HERE / "fresh")}
                env["SWE_AGENT_TRAJECTORY_DIR"] = str(work / "trajectories")
                for folder in (root / "mounts", work / "trajectories"):
                    folder.mkdir(exist_ok=True)
                shell = ["sh", "-c", ISOLATED, "sh", str(root / "mounts"), str(work)]
                command = ["unshare", "-m", "--propagation", "private", *shell, *command]
            done = subprocess.run(command, cwd=work, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=LIMIT)
            codes.append(done.returncode)
            if options.keep:
                print(done.stdout, done.stderr, sep="\n", file=sys.stderr)
        result = {"exit": codes, "requests": server.requests} | files_of(work, setting["ids"])
        places = [(f"{work}/out/{id}/{sub}work", REPO) for id in setting["ids"] for sub in ("", "attempt_0/", "attempt_1/", "attempt_2/")]
        places += [(server.url, given.URL), (server.address, given.URL), (str(work), given.WORK), (str(home), given.HOME), ("/sbsrepo", REPO)]
        return without_words(normal(result, places), setting)
    finally:
        server.close()
        shutil.rmtree(root, ignore_errors=True)


def repository(folder):
    folder.mkdir()
    (folder / "a.txt").write_text("one\n")
    git = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"]):
        subprocess.run([*git, *words], check=True)


def files_of(work, ids):
    """What is compared of the files that the runs have left."""
    out = work / "out"
    instances = {}
    for id in ids:
        traj = out / id / f"{id}.traj"
        if not traj.exists():
            instances[id] = None
            continue
        made = json.loads(traj.read_text("utf-8"))
        instances[id] = shown(made)
        if "attempts" in made:
            instances[id]["attempts"] = [shown(attempt) for attempt in made["attempts"]]
        patch, pred = out / id / f"{id}.patch", out / id / f"{id}.pred"
        instances[id]["patch"] = patch.read_text("utf-8") if patch.exists() else None
        instances[id]["pred"] = json.loads(pred.read_text("utf-8")) if pred.exists() else None
    preds, statuses = out / "preds.json", out / "run_batch_exit_statuses.yaml"
    return {
        "instances": instances,
        "preds": json.loads(preds.read_text("utf-8")) if preds.exists() else None,
        "statuses": sorted(line.strip() for line in statuses.read_text("utf-8").splitlines() if line.startswith(" ")) if statuses.exists() else None,
    }


# The keys that are compared. `query` is what the requests show; times and versions differ from run to run.
STEP = ("action", "observation", "response", "thought", "state")
INFO = ("exit_status", "submission", "best_attempt_idx")


def shown(made):
    info = made.get("info") or {}
    kept = {key: info[key] for key in INFO if key in info}
    kept["api_calls"] = (info.get("model_stats") or {}).get("api_calls")
    if "review" in info:
        review = info["review"]
        outputs = ["@WORDS@"] if review["accept"] <= -100 else review["outputs"]
        kept["review"] = {"accept": review["accept"], "outputs": outputs}
    if info.get("chooser"):
        kept["chooser"] = {key: info["chooser"][key] for key in ("chosen_idx", "response")}
    history = made.get("history")
    if kept.get("exit_status") == "submitted" and history and history[-1].get("message_type") == "observation":
        # No model reads it.
        history = history[:-1]
    steps = [{key: step.get(key) for key in STEP} for step in made.get("trajectory", [])]
    return without_end({"steps": steps, "history": history, "info": kept})


def without_end(made):
    """`made` without what is said of an end that no action has brought about: each program has its own words."""
    if made["info"].get("exit_status") in (None, "submitted", "exit_command"):
        return made
    if made["steps"] and not made["steps"][-1]["action"]:
        made["steps"][-1] |= {"response": "@WORDS@", "thought": "@WORDS@"}
    history = made["history"] or []
    if len(history) > 1 and history[-2].get("message_type") == "action" and not history[-2].get("action"):
        made["history"] = history[:-2]
    return made


# Lines of the tools' outputs that are no sentences: lines of files with their numbers, headers, paths, patches.
DATA = re.compile(r"\s*\d+[:\t]|\[File: |\(|/|@|[-+ ]|diff |index |Line \d+:|OBSERVATION: *$|no |Thought \(colleague|Proposed Action|$")
OWN_TOOLS = ("show", "change", "say")


def without_words(result, setting):
    """`result` without sentences of SWE-agent's own tools: ours have other ones."""
    for request in result["requests"]:
        for tool in request["body"].get("tools") or []:
            if tool["function"]["name"] not in OWN_TOOLS:
                tool["function"]["description"] = "@WORDS@"
                for parameter in (tool["function"].get("parameters") or {}).get("properties", {}).values():
                    parameter["description"] = "@WORDS@"
    return wordless(result) if setting["words"] else result


def wordless(value):
    if isinstance(value, dict):
        return {key: child if key in ("tools", "state", "action", "response", "thought", "tool_calls") else wordless(child) for key, child in value.items()}
    if isinstance(value, list):
        return [wordless(child) for child in value]
    if not isinstance(value, str) or "\n" not in value and "OBSERVATION" not in value and " " not in value:
        return value
    lines = []
    for line in value.split("\n"):
        line = line if DATA.match(line) else "@WORDS@"
        if lines[-1:] != ["@WORDS@"] or line != "@WORDS@":
            lines.append(line)
    return "\n".join(lines)


def endings(result):
    return ", ".join(str((one or {}).get("info", {}).get("exit_status")) for one in result["instances"].values())


def report(outcomes, allowed, quiet=False):
    failed = 0
    for name, wanted, got in outcomes:
        found = [one for one in differences(wanted, got) if not allowed.finds(name, *one)]
        failed += bool(found)
        if quiet:
            continue
        lines = [f"{name:28} {endings(wanted):40} {len(wanted['requests']):4} requests  {len(found) or '-'}"]
        for path, theirs, ours in found[:40]:
            lines.append(f"     {pointer(path)}\n        theirs: {json.dumps(theirs, default=repr)[:600]}\n        ours:   {json.dumps(ours, default=repr)[:600]}")
        print("\n".join(lines), flush=True)
    return failed


if __name__ == "__main__":
    main()
