#!/bin/sh
# Installs the real SWE-ReX from PyPI into the folder $1, once; tests of both directions use it. Its client
# needs aiohttp, which it does not name.
set -e
[ -f "$1/installed" ] && exit 0
rm -rf "$1"
python3 -m venv "$1"
"$1/bin/pip" install --quiet --disable-pip-version-check swe-rex==1.4.0 aiohttp
touch "$1/installed"
