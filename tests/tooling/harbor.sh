#!/bin/sh
# Installs Harbor from PyPI into the folder $1, once: of it the models of ATIF and their validator, which need a few
# packages and an older Python than the rest.
set -e
[ -f "$1/installed" ] && exit 0
rm -rf "$1"
python3 -m venv "$1"
"$1/bin/pip" install --quiet --disable-pip-version-check --no-deps --ignore-requires-python harbor==0.25.0
"$1/bin/pip" install --quiet --disable-pip-version-check pydantic==2.14.4
touch "$1/installed"
