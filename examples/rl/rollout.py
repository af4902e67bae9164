"""Runs mswea-host once for a trainer, and reads what it left: also of a run that had to be killed.

Only the standard library. The other files of this folder fit it to NeMo Gym, SkyRL and verl.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import uuid
from dataclasses import dataclass, field
from pathlib import Path

# What a trainer has to tell apart. Every other exit status is a fault of the infrastructure: "error".
KINDS = {
    "Submitted": "complete",
    "LimitsExceeded": "limit",
    "RepeatedFormatError": "limit",
    "TimeExceeded": "timeout",
    "ContextWindowExceededError": "context",
}
GRACE = 10  # Seconds from the agent's own time limit to its kill.


@dataclass
class Turn:
    """A query: all of the request's tokens, and those of the reply."""

    prompt: list
    reply: list
    logprobs: list


@dataclass
class Chain:
    """Turns of which each continues the one before: one sequence of tokens. `mask` is 1 where the model wrote."""

    prompt: list
    response: list = field(default_factory=list)
    mask: list = field(default_factory=list)
    logprobs: list = field(default_factory=list)


@dataclass
class Episode:
    session: str
    status: str
    kind: str
    submission: str
    steps: list  # of ATIF
    turns: list
    reward: float = 0.0

    def chains(self):
        """A request that is not a continuation (the history was compacted) begins a new chain."""
        chains = []
        for turn in self.turns:
            known = chains[-1].prompt + chains[-1].response if chains else None
            if known is None or turn.prompt[: len(known)] != known:
                chains.append(Chain(turn.prompt))
                known = turn.prompt
            added = turn.prompt[len(known) :]
            chain = chains[-1]
            chain.response += added + turn.reply
            chain.mask += [0] * len(added) + [1] * len(turn.reply)
            chain.logprobs += [0.0] * len(added) + turn.logprobs
        return chains


def run(
    task, model, base_url, folder, *, session=None, check=None, seconds=600, kill_after=None, step_limit=0, parameters=None
):
    """Works on the task in `folder`. `check` is a shell command that succeeds there if the task is solved. It has `seconds`
    for itself.

    `{session}` in the base URL becomes the id of the episode, for servers that tell sessions apart by their paths;
    each request has it in the header X-Session-ID, too.
    """
    session = session or uuid.uuid4().hex
    if "/" in session:
        raise ValueError(f"the session {session!r} names files, so it can't have a `/`")
    folder = Path(folder).resolve()
    logs = folder.parent / f"{folder.name}.logs"
    logs.mkdir(parents=True, exist_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    binary = os.environ.get("MSWEA_HOST_BINARY", "mswea-host")
    asked = {"logprobs": True, **(parameters or {})}
    asked["extra_body"] = {"return_token_ids": True, **asked.get("extra_body", {})}
    words = [binary, "-q", "-m", model, "-t", "-", "-o", logs / f"{session}.traj.json", "-l", "0"]
    words += ["--base-url", base_url.replace("{session}", session), "--session-header", f"X-Session-ID={session}"]
    words += ["--time-limit", str(seconds), "--step-limit", str(step_limit)]
    for name, value in asked.items():
        words += ["-c", f"model.model_kwargs.{name}={json.dumps(value)}"]
    is_killed = False
    with open(logs / f"{session}.txt", "w") as said:
        agent = subprocess.Popen(words, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=said)
        try:
            agent.communicate(task.encode(), kill_after or seconds + GRACE)
        except subprocess.TimeoutExpired:
            is_killed = True
        finally:
            # Also if the trainer is interrupted.
            agent.kill()
            agent.wait()
    episode = read(binary, logs / f"{session}.events.jsonl", session)
    if is_killed:
        episode.kind = "timeout"
    if check and episode.kind != "error":
        episode.reward = float(succeeds(check, folder, seconds))
    return episode


def succeeds(check, folder, seconds):
    """Whether the command succeeds in time. It runs the model's code, so its process group is killed at its end; what
    leaves the group goes on, unless the check runs in a container.
    """
    words = ["sh", "-c", check]
    null = subprocess.DEVNULL
    process = subprocess.Popen(words, cwd=folder, stdin=null, stdout=null, start_new_session=True)
    try:
        return process.wait(seconds) == 0
    except subprocess.TimeoutExpired:
        return False
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()


def read(binary, journal, session):
    """The journal has every step as soon as it is done, so it is there after a kill, too."""
    export = subprocess.run([binary, "export", journal, "--to", "atif"], capture_output=True)
    if export.returncode:
        # It could not be set up: a missing key, a bad config, no environment.
        return Episode(session, "SetupError", "error", "", [], [])
    trajectory = json.loads(export.stdout)
    end = trajectory["extra"]
    metrics = [step.get("metrics", {}) for step in trajectory["steps"] if step.get("llm_call_count")]
    turns = [
        Turn(it["prompt_token_ids"], it["completion_token_ids"], it["logprobs"])
        for it in metrics
        if len(it.get("completion_token_ids", [])) == len(it.get("logprobs", [])) > 0 and it.get("prompt_token_ids")
    ]
    if len(turns) < len(metrics):
        print(
            f"{session}: {len(metrics) - len(turns)} of {len(metrics)} replies have no usable ids and log probabilities of "
            "tokens: the server has to know return_token_ids and logprobs",
            file=sys.stderr,
        )
        return Episode(session, "NoTokenIds", "error", end["submission"], trajectory["steps"], turns)
    kind = KINDS.get(end["exit_status"], "error")
    return Episode(session, end["exit_status"], kind, end["submission"], trajectory["steps"], turns)


def arguments(description):
    """The flags of the programs in this folder."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--model", default="hosted_vllm/policy")
    parser.add_argument("--base-url", default="http://127.0.0.1:8000/v1")
    parser.add_argument("--folder", default="episodes", help="work folders and records")
    parser.add_argument("--check", help="a shell command that succeeds if the task is solved")
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--kill-after", type=float)
    parser.add_argument("--step-limit", type=int, default=0)
    return parser
