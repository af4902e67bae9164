#!/bin/sh
# Prints a Python 3.12 or later: that of the PATH, or one of pyenv's. Fails if there is none.
for python in python3.13 python3.12 python3 "${PYENV_ROOT:-${HOME:-/root}/.pyenv}"/versions/3.1[2-9]*/bin/python3; do
	if "$python" -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null; then
		echo "$python"
		exit 0
	fi
done
exit 1
