#!/usr/bin/env python3
"""Compares the toolbox with SWE-agent's own tools: the same random calls to both, on the same files.

    tools_beside.py TOOLS PROGRAM [ROUNDS [SEED]]

TOOLS is the folder `tools` of a checkout of SWE-agent; PROGRAM is the toolbox, for example
target/helper-build/x86_64-unknown-linux-musl/helper/mswea-toolbox. Compared are the exit codes, the files, the windows,
the numbered lines and the matches, not the messages. What is different on purpose (host/toolbox/README.md) is not
called. Everything is in temporary folders. Needs bash and grep.
"""

import os
import random
import re
import subprocess
import sys
import tempfile

THEIRS = {
    "edit_linting": "windowed_edit_linting/bin/edit",
    "edit_replace": "windowed_edit_replace/bin/edit",
    "edit_rewrite": "windowed_edit_rewrite/bin/edit",
    "insert": "windowed_edit_replace/bin/insert",
    "search_dir": "search/bin/search_dir",
    "search_file": "search/bin/search_file",
    "find_file": "search/bin/find_file",
    "str_replace_editor": "edit_anthropic/bin/str_replace_editor",
}
# Without `\\<` and `\\>`: grep takes a sign after them in a way of its own.
PIECES = ["a", "b", "a0", "^", "$", ".", "*", "[ab]", "[^a]", "\\(a\\)", "\\|", "+", "?", "\\+", "\\?", "{", " ",
          "\\{1,2\\}", "[[:digit:]]", "(", "|", "\\w", "1"]


class Side:
    def __init__(self, folder, tools, program):
        self.folder, self.tools, self.program = folder, tools, program
        os.makedirs(self.path(""))

    def path(self, name):
        return os.path.join(self.folder, "work", name)

    def write(self, text):
        with open(self.path("f.txt"), "w") as file:
            file.write(text)
        with open(os.path.join(self.folder, "registry"), "w") as file:
            file.write("{}")

    def read(self):
        with open(self.path("f.txt")) as file:
            return file.read()

    def run(self, tool, words, text):
        variables = dict(os.environ, SWE_AGENT_ENV_FILE=os.path.join(self.folder, "registry"), WINDOW="12", OVERLAP="2",
                         LINT_COMMAND="true {file_path}", LC_ALL="C.UTF-8", MSWEA_TOOLS_HOME=self.folder,
                         PYTHONPATH=f"{self.tools}/registry/lib:{self.tools}/windowed/lib")
        words = [self.path("f.txt") if word == "PATH" else word for word in words]
        command = [self.program, tool]
        if self.tools:
            script = os.path.join(self.tools, THEIRS.get(tool, f"windowed/bin/{tool}"))
            command = ["bash" if tool in ("search_dir", "search_file", "find_file") else sys.executable, script]
        ended = subprocess.run(command + words, input=text, capture_output=True, text=True, cwd=self.path(""),
                               env=variables)
        return ended.returncode, ended.stdout.replace(self.folder, "FOLDER")


def call(total):
    """A random call: the tool, its arguments, and its input."""
    line = lambda: str(random.randint(1, max(1, total)))
    word = lambda: random.choice(["x", "y 1", "a0", "b1\nc2", "z\nz", "a", "q"])
    start = random.randint(1, max(1, total))
    term = "".join(random.choice(PIECES) for _ in range(random.randint(1, 4)))
    return random.choice([
        ("open", ["f.txt"], ""),
        ("open", ["f.txt", line()], ""),
        ("goto", [line()], ""),
        ("scroll_up", [], ""),
        ("scroll_down", [], ""),
        ("edit_linting", [f"{start}:{min(total, start + random.randint(0, 4))}"], word() + "\nend_of_edit\n"),
        ("edit_replace", [word(), word()] + random.choice([[], ["True"]]), ""),
        ("insert", [word(), str(random.randint(0, max(0, total - 1)))], ""),
        ("edit_rewrite", [word()], ""),
        ("str_replace_editor", ["view", "PATH"] + random.choice([[], ["--view_range", line(), random.choice(["-1", line()])]]), ""),
        ("str_replace_editor", ["str_replace", "PATH", "--old_str", word(), "--new_str", word()], ""),
        ("str_replace_editor", ["insert", "PATH", "--insert_line", str(random.randint(0, total + 1)), "--new_str", word()], ""),
        ("search_file", [term, "f.txt"], ""),
        ("search_dir", [term], ""),
        ("find_file", [random.choice(["f.txt", "*.txt", "?.tx[a-z]", "g*"])], ""),
    ])


def compared(tool, run):
    """What has to be the same."""
    code, text = run
    lines = text.split("\n")
    if tool == "str_replace_editor":
        return code, [line for line in lines if code == 0 and re.match(r" *\d+\t", line)]
    if tool in ("search_dir", "search_file", "find_file"):
        return [line for line in lines if re.match(r"Line \d+:|.* \(\d+ matches\)$|FOLDER/", line)]
    return code, text[text.find("[File: "):].rstrip("\n") if "[File: " in text else None


def main():
    tools, program = sys.argv[1:3]
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 50
    random.seed(int(sys.argv[4]) if len(sys.argv) > 4 else 1)
    different = 0
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            folder = os.path.realpath(folder)
            sides = [Side(f"{folder}/a", tools, None), Side(f"{folder}/b", "", program)]
            count = random.choice([0, 1, 3, 12, 13, 40, 90])
            text = "".join(random.choice("abcd") + " " * random.randint(0, 2) + f"{random.randint(0, 3)}\n" for _ in range(count))
            for side in sides:
                side.write(text)
                side.run("open", ["f.txt"], "")
            for _ in range(12):
                tool, words, given = call(len(sides[0].read().splitlines()))
                runs = [side.run(tool, words, given) for side in sides]
                if compared(tool, runs[0]) != compared(tool, runs[1]) or sides[0].read() != sides[1].read():
                    different += 1
                    print(f"--- {tool} {words} {given!r}\n{runs[0]}\n{runs[1]}\n{text!r}")
                    break
                text = sides[0].read()
    print(f"{rounds} rounds, {different} of them with a difference")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
