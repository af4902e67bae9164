#!/usr/bin/env python3
"""Measures the host at a terminal: prints each figure beside its limit.

    python3 tests/tooling/at_terminal.py target/release/mswea-host target/release/scripted-server

The program runs in a pseudo terminal that this script reads. Measure on an idle machine. A build that is not
shipped needs a cache of plugins (`XDG_CACHE_HOME`, `MSWEA_PLUGIN_CACHE=trust`).
"""

import json
import os
import pty
import select
import subprocess
import sys
import tempfile
import time

HOST, SERVER = (os.path.abspath(path) for path in sys.argv[1:3])
SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"


class Terminal:
    def __init__(self, folder, turns, *args, has_user=True, delay=0):
        scenario = os.path.join(folder, "scenario.json")
        with open(scenario, "w") as file:
            json.dump({"turns": [{"commands": [command], "delay_ms": delay} for command in turns]}, file)
        self.server = subprocess.Popen([SERVER, scenario], stdout=subprocess.PIPE, text=True)
        url = self.server.stdout.readline().strip()
        kept = ("PATH", "XDG_CACHE_HOME", "MSWEA_PLUGIN_CACHE")
        env = {name: os.environ[name] for name in kept if name in os.environ}
        env |= {"HOME": folder, "TERM": "xterm", "NO_COLOR": "1", "TMPDIR": folder}
        command = [HOST, "-m", "local/test", "--base-url", url, "-l", "0", "-t", "x", "-o", folder + "/t.traj.json", *args]
        self.pid, self.end = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            if not has_user:
                # Nobody can type, so nobody is asked; the output is that of a terminal.
                os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.execve(HOST, command, env)
        self.text = ""

    def read(self, patience):
        if select.select([self.end], [], [], patience)[0]:
            try:
                self.text += os.read(self.end, 1 << 16).decode(errors="replace")
            except OSError:
                return False
        return True

    def until(self, text, patience=120):
        end = time.monotonic() + patience
        while text not in self.text:
            if time.monotonic() > end or not self.read(0.05):
                self.server.kill()
                sys.exit(f"no sign of {text!r}: {self.text[-2000:]!r}")
        self.text = self.text.split(text, 1)[1]

    def type(self, text):
        os.write(self.end, text.encode())

    def cpu(self):
        with open(f"/proc/{self.pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def close(self):
        os.close(self.end)
        self.server.kill()
        os.waitpid(self.pid, 0)


def row(name, figure, unit, limit):
    verdict = "" if figure <= limit else "  TOO MUCH"
    print(f"{name:48} {figure:9.2f} {unit:3} (limit {limit:g}){verdict}")


def echo(folder, count=200):
    steps = [f"seq {n} {n + 20}" for n in range(count)]
    terminal = Terminal(folder, [*steps, "sleep 600"], "-c", 'agent.whitelist_actions=["seq"]')
    terminal.until("sleep 600")
    terminal.until("Enter: run")
    while terminal.read(0.3) and select.select([terminal.end], [], [], 0)[0]:
        pass
    times = []
    for letter in "the quick brown fox jumps over it":
        terminal.text = ""
        begin = time.monotonic()
        terminal.type(letter)
        terminal.until(letter, 10)
        times.append((time.monotonic() - begin) * 1000)
        while select.select([terminal.end], [], [], 0.02)[0]:
            terminal.read(0)
    times.sort()
    row("key to echo after 200 steps, median", times[len(times) // 2], "ms", 10)
    row("key to echo after 200 steps, largest but one", times[-2], "ms", 10)
    cpu, begin = terminal.cpu(), time.monotonic()
    while time.monotonic() - begin < 10:
        terminal.read(0.5)
    row("CPU while a question is open", (terminal.cpu() - cpu) * 10, "%", 2)
    terminal.type("\x15/y\r")
    terminal.until("running")
    cpu, begin = terminal.cpu(), time.monotonic()
    while time.monotonic() - begin < 10:
        terminal.read(0.5)
    row("CPU while a command runs", (terminal.cpu() - cpu) * 10, "%", 2)
    terminal.close()


def output(folder):
    # 50 MB in lines of 80 characters.
    command = "yes aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa | head -c 50000000"
    terminal = Terminal(folder, [command, SUBMIT], "-y", "--exit-immediately")
    terminal.until("$ ")
    begin = time.monotonic()
    terminal.until("shows all of it")
    took = time.monotonic() - begin
    row("50 MB of output, until it is folded", took, "s", 5)
    terminal.close()


def steps(folder, has_user, count=100):
    """Steps per second of a run, with a user who may type or with stdin from nowhere.

    A reply takes 50 ms, a tenth of what models take: with a user, the files are remembered for /undo meanwhile.
    """
    end = ["true"] * count + [SUBMIT]
    terminal = Terminal(folder, end, "-y", "--exit-immediately", has_user=has_user, delay=50)
    terminal.until("── step 2 ")
    first = time.monotonic()
    terminal.until("Submitted")
    end = time.monotonic()
    terminal.close()
    return (count - 1) / (end - first)


def steps_with_and_without(folder):
    # In turns, so that the machine is the same for both; the best of each.
    rates = {True: [], False: []}
    for turn in range(6):
        place = os.path.join(folder, str(turn))
        os.mkdir(place)
        rates[turn % 2 == 0].append(steps(place, turn % 2 == 0))
    with_user, without = max(rates[True]), max(rates[False])
    print(f"steps a second: {with_user:.0f} with a user at a terminal, {without:.0f} without")
    row("time of a step with a user against without", without / with_user, "x", 1.25)


for measure in (echo, output, steps_with_and_without):
    with tempfile.TemporaryDirectory() as folder:
        measure(folder)
