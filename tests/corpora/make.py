#!/usr/bin/env python3
"""Writes the corpora again: makes a virtual environment with the pinned packages, and runs both scripts.

    python3 tests/corpora/make.py [FOLDER FOR THE ENVIRONMENT]
"""

import pathlib
import subprocess
import sys
import tempfile
import venv

HERE = pathlib.Path(__file__).parent


def main():
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else temporary)
        venv.create(folder, with_pip=True)
        python = folder / "bin" / "python"
        subprocess.run(
            [python, "-m", "pip", "install", "-q", "-r", HERE / "requirements.txt"], check=True
        )
        for kind in ("yaml", "jinja"):
            text = subprocess.run(
                [python, HERE / f"{kind}_corpus.py"], check=True, stdout=subprocess.PIPE
            ).stdout
            (HERE / f"{kind}.json").write_bytes(text)


main()
