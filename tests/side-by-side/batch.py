#!/usr/bin/env python3
"""Runs mini-swe-agent's `swebench` on the made-up instances in `batch/`, and records what it leaves.

    batch.py                          record into batch/recorded.json
    batch.py --against BIN            run both, and show where BIN differs

Needs docker and the tests' images (`tests/tooling/images.sh`); mini-swe-agent, with `datasets`, is installed as
by record.py. All connections are on loopback. See README.md.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import given
from compare import Allowed, differences, normal, pointer
from record import PINNED, installed, short
from scripted import EXHAUSTED, Server

FOLDER = given.HERE / "batch"
IMAGE = "mswea-test/bash"
# The usual names of the instances that name no image.
USUAL = ("swebench/sweb.eval.x86_64.made_1776_up-3:latest", "swebench/sweb.eval.x86_64.made_1776_up-4:latest")
ARGS = ["--subset", "data", "--split", "test", "--shuffle", "--filter", "made|Made|20|no", "--slice", "0:21"]
ARGS += ["-c", "swebench.yaml", "-m", "openai/test-model", "-o", "out"]
LIMIT = 900  # seconds for one batch
# Entries that are there before: one of an instance of the data set, one of another.
PREDS = {
    "made__up-0": {"model_name_or_path": "earlier", "instance_id": "made__up-0", "model_patch": "old\n"},
    "nowhere__at-1": {"model_name_or_path": "earlier", "instance_id": "nowhere__at-1", "model_patch": ""},
}
LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} - (minisweagent - (?:INFO|ERROR) - .*)")
ERROR = re.compile(r"(Error processing instance \S+:) .*")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, metavar="BIN", help="a mswea-host to compare with")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    parser.add_argument("--venv", type=Path, default=cache / "mswea-side-by-side", help="where mini-swe-agent is installed (%(default)s)")
    options = parser.parse_args()
    setting = setting_of()
    python = str(installed(options.venv) / "python")
    wanted, replies = run([python, "-m", "minisweagent.run.benchmarks.swebench"], setting)
    if not options.against:
        setting = {key: value for key, value in setting.items() if key != "of"} | {"replies": replies}
        recording = {"by": " ".join(PINNED[:2]), "given": setting, "result": wanted}
        (FOLDER / "recorded.json").write_text(json.dumps(recording, indent=1, sort_keys=True) + "\n", "utf-8")
        print(f"{len(wanted['requests'])} requests, {len(wanted['trajectories'])} trajectories, exit {wanted['exit']}")
        print(json.dumps(wanted["statuses"]))
        return
    # A fault of the infrastructure is tried again; here that is a matter of time only.
    setting["args"] = [*ARGS, "--retry-wait", "0"]
    got, _ = run([str(options.against.resolve()), "swebench"], setting)
    allowed = Allowed()
    parts = [("batch", wanted, got)]
    for name in sorted(wanted["trajectories"] | got["trajectories"]):
        parts.append((f"batch_{name}", *trajectories(name, wanted, got)))
    found = 0
    for name, one, other in parts:
        one, other = ({key: value for key, value in side.items() if key != "trajectories"} for side in (one, other))
        for path, mini, ours in differences(one, other):
            if not allowed.finds(name, path, mini, ours):
                found += 1
                print(f"{name} {pointer(path)}\n   mini: {short(mini, ours)}\n   ours: {short(ours, mini)}")
    print(f"{len(wanted['trajectories'])} trajectories, {len(wanted['requests'])} requests, {found} differences that `differences.json` does not list")
    sys.exit(bool(found))


def trajectories(name, *sides):
    for side in sides:
        found = side["trajectories"].get(name)
        yield {"trajectory": found} if found else {}


def setting_of():
    instances = json.loads((FOLDER / "instances.json").read_text("utf-8"))
    return {
        "args": ARGS,
        "env": given.ENVIRONMENT | {"HF_HUB_OFFLINE": "1"},
        "files": {
            "swebench.yaml": (FOLDER / "swebench.yaml").read_text("utf-8"),
            "data/test.jsonl": "".join(json.dumps(one["row"]) + "\n" for one in instances),
            "out/preds.json": json.dumps(PREDS, indent=2),
        },
        "of": {one["row"]["instance_id"]: [given.reply("chat", i, it) for i, it in enumerate(one["replies"], 1)] for one in instances},
    }


class ByTask(Server):
    """Gives each instance its own replies; `given` has them in the order in which they were given."""

    def __init__(self, of):
        self.of = {name: list(replies) for name, replies in of.items()}
        self.given = []
        super().__init__([])

    def answer(self, request):
        name = re.search(r"\[([^\]]+)\]", request["body"]["messages"][1]["content"]).group(1)
        with self.lock:
            self.requests.append(request)
            reply = self.of[name].pop(0) if self.of[name] else EXHAUSTED
            self.given.append(reply)
            return reply


def run(program, setting):
    """What the program leaves, and the replies in the order in which they were given."""
    server = ByTask(setting["of"])
    root = Path(tempfile.mkdtemp(prefix="side-by-side-")).resolve()
    home, work = root / "home", root / "work"
    home.mkdir()
    work.mkdir()
    for usual in USUAL:
        subprocess.run(["docker", "tag", IMAGE, usual], check=True)
    try:
        def fill(text):
            return text.replace(given.URL, server.url).replace(given.WORK, str(work)).replace(given.HOME, str(home))

        for name, text in setting["files"].items():
            (work / name).parent.mkdir(parents=True, exist_ok=True)
            (work / name).write_text(fill(text), "utf-8")
        env = {name: fill(value) for name, value in setting["env"].items()}
        env |= {"PATH": os.environ["PATH"], "TMPDIR": str(root), "XDG_CACHE_HOME": str(Path(tempfile.gettempdir()) / "side-by-side-cache")}
        env["HF_HOME"] = str(root / "hf")
        done = subprocess.run(
            [*program, *setting["args"]], cwd=work, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT
        )
        out = work / "out"
        if not (out / "minisweagent.log").exists():
            sys.exit(f"{program[0]}: exit {done.returncode}: {done.stdout.decode()} {done.stderr.decode()}")
        statuses = sorted(out.glob("exit_statuses_*.yaml"))
        trajectories = {path.parent.name: json.loads(path.read_text("utf-8")) for path in sorted(out.glob("*/*.traj.json"))}
        result = {
            "exit": done.returncode,
            "requests": server.requests,
            "preds": (out / "preds.json").read_text("utf-8"),
            "statuses": by_status(statuses[-1].read_text("utf-8")),
            "log": log((out / "minisweagent.log").read_text("utf-8")),
        }
        places = [(server.url, given.URL), (server.address, given.URL), (str(work), given.WORK), (str(home), given.HOME)]
        made = {name: normal({"requests": [], "trajectory": without_last(one)}, places)["trajectory"] for name, one in trajectories.items()}
        return normal(result, places) | {"trajectories": made}, server.given
    finally:
        server.close()
        shutil.rmtree(root, ignore_errors=True)
        for usual in USUAL:
            subprocess.run(["docker", "rmi", usual], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def without_last(trajectory):
    """Without the results of the step that submits, which mini-swe-agent's agent class `default` does not record."""
    messages = trajectory["messages"]
    if trajectory["info"]["exit_status"] == "Submitted":
        while messages[-2]["role"] == "tool":
            del messages[-2]
    return trajectory


def by_status(text):
    """The ids by status, each as it is written."""
    first, *lines = text.splitlines()
    assert first == "instances_by_exit_status:", text
    out = {}
    for line in lines:
        if line.startswith("    - "):
            out[status].append(line[6:])
        else:
            status = line.removeprefix("    ").removesuffix(":")
            out[status] = []
    return out


def log(text):
    """How often the lines about the batch are there, without their times; tracebacks and the texts of errors differ."""
    lines = [LINE.match(line) for line in text.splitlines()]
    return Counter(ERROR.sub(r"\1", found.group(1)) for found in lines if found)


if __name__ == "__main__":
    main()
