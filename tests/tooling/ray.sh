#!/bin/sh
# Installs Ray from PyPI into the folder $1, once; the test of `examples/ray` uses it.
set -e
[ -f "$1/installed" ] && exit 0
rm -rf "$1"
python3 -m venv "$1"
"$1/bin/pip" install --quiet --disable-pip-version-check ray==2.60.0
touch "$1/installed"
