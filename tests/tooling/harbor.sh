#!/bin/sh
# Installs Harbor from PyPI into the folder $1, once. It needs Python 3.12 or later, which Debian 12 lacks: that of the
# PATH, or one of pyenv's.
set -e
[ -f "$1/installed" ] && exit 0
for python in python3.13 python3.12 python3 "${PYENV_ROOT:-${HOME:-/root}/.pyenv}"/versions/3.1[2-9]*/bin/python3; do
	"$python" -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null && break
	python=
done
if [ -z "$python" ]; then
	echo 'no Python 3.12 or later in the PATH or of pyenv' >&2
	exit 1
fi
rm -rf "$1"
"$python" -m venv "$1"
"$1/bin/pip" install --quiet --disable-pip-version-check --no-deps -r "$(dirname "$0")/harbor.txt"
touch "$1/installed"
