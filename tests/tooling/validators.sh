#!/bin/sh
# Installs parsers of others, for what `export` writes, from PyPI into the folder $1, once.
set -e
[ -f "$1/installed" ] && exit 0
rm -rf "$1"
python3 -m venv "$1"
"$1/bin/pip" install --quiet --disable-pip-version-check --no-deps asciinema==2.4.0 html5lib==1.1 six==1.17.0 \
	webencodings==0.6.1 markdown-it-py==4.3.0 mdurl==0.1.2
touch "$1/installed"
