#!/bin/sh
# Installs Harbor from PyPI into the folder $1, once. Harbor needs Python 3.12 or later. Without one, only what its
# validator of ATIF needs is installed, and `$1/validator-only` says so.
set -e
[ -f "$1/installed" ] && exit 0
python=$(sh "$(dirname "$0")/python312.sh") || python=
rm -rf "$1"
"${python:-python3}" -m venv "$1"
install() {
	folder=$1
	shift
	"$folder/bin/pip" install --quiet --disable-pip-version-check "$@"
}
if [ -n "$python" ]; then
	install "$1" --no-deps -r "$(dirname "$0")/harbor.txt"
else
	install "$1" --no-deps --ignore-requires-python harbor==0.25.0
	install "$1" pydantic==2.14.4
	touch "$1/validator-only"
fi
touch "$1/installed"
