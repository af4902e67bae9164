"""Works on a batch of mswea-host with the workers of a Ray cluster.

The directory has to be on a file system that all nodes share, and made before:

    mswea-host batch submit out --engine none --instances tasks.jsonl -m openai/gpt-5
    RAY_ADDRESS=auto python batch.py out --workers 16 -- -m openai/gpt-5 -w 8

What comes after `--` is given to each `mswea-host batch worker`.
"""

import argparse
import os
import subprocess
import sys

import ray

GIVEN_BACK = 75


class GivenBack(Exception):
    """A worker had to stop before the batch was done, so its task is run again."""


def work(index, command):
    """Runs one worker, and gives its exit code."""
    # The program of a node whose Ray was killed must not run on.
    command = ["setpriv", "--pdeathsig", "KILL", *command, "--index", str(index)]
    process = subprocess.Popen(command)
    try:
        code = process.wait()
    except KeyboardInterrupt:
        # The driver has cancelled the task: the worker gives its claims back.
        process.terminate()
        process.wait()
        raise
    if code == GIVEN_BACK:
        raise GivenBack(f"worker {index}")
    return code


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dir", help="the directory of the batch")
    parser.add_argument("--workers", type=int, default=4, help="how many workers run at a time")
    parser.add_argument("--cpus", type=float, default=1, help="Ray's CPUs for each of them")
    parser.add_argument("--program", default=os.environ.get("MSWEA_HOST_BINARY", "mswea-host"))
    arguments = sys.argv[1:]
    end = arguments.index("--") if "--" in arguments else len(arguments)
    given = parser.parse_args(arguments[:end])
    command = [given.program, "batch", "worker", os.path.abspath(given.dir), *arguments[end + 1 :]]
    ray.init(log_to_driver=True)
    # Tasks whose node is lost are run again elsewhere, as often as it takes; what they had claimed is taken over.
    task = ray.remote(work).options(
        num_cpus=given.cpus,
        max_retries=-1,
        retry_exceptions=[GivenBack],
        scheduling_strategy="SPREAD",
    )
    running = [task.remote(index, command) for index in range(given.workers)]
    try:
        codes = ray.get(running)
    except KeyboardInterrupt:
        for one in running:
            ray.cancel(one)
        ray.wait(running, num_returns=len(running), timeout=60)
        return 130
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
