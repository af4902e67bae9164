#!/bin/sh
# Makes the shipped binary and its packages twice, from what is committed, and compares them: in two folders, with
# two target directories, two homes of Cargo, two time zones and two umasks. They must have the same bytes, and
# must not name a folder of this machine. Needs what host/ship.sh needs, git, and Python.
#
#   tests/tooling/reproducible.sh [FOLDER]
#
# FOLDER is where it is done, if not in one of its own in TMPDIR; it is emptied at the end. It takes twice the time of
# host/ship.sh and 4 GB, so it is not a part of `.ci/run`; anywhere.sh, which is, looks for names of folders, too.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d -p "${1:-${TMPDIR:-/tmp}}" mswea-reproducible.XXXXXX)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

# Another home, with the sources that are there already.
cargo_home=${CARGO_HOME:-$HOME/.cargo}
mkdir -p "$work/home"
ln -s "$cargo_home/registry" "$work/home/registry"

git clone -q "$root" "$work/one"
(cd "$work/one" && TARGET_DIR=$work/target host/ship.sh "$work/one.out")
(cd "$work/one" && host/package.py "$work/one.out" "$work/packages.one")
rm -rf "$work/target"
(
	umask 077
	export TZ=Pacific/Kiritimati LC_ALL=C CARGO_HOME="$work/home"
	git clone -q "$root" "$work/a second one"
	cd "$work/a second one"
	host/ship.sh "$work/two.out"
	host/package.py "$work/two.out" "$work/packages.two"
)

status=0
# same FILE FILE: both have the same bytes.
same() {
	if cmp "$1" "$2"; then
		echo "ok: the same bytes: $(sha256sum "$1")"
	else
		echo "FAILED: $1 and $2 differ"
		status=1
	fi
}
same "$work/one.out" "$work/two.out"
for package in "$work/packages.one"/*; do
	same "$package" "$work/packages.two/$(basename "$package")"
done
for folder in "$work" "$cargo_home/registry"; do
	if LC_ALL=C grep -aqF "$folder" "$work/one.out"; then
		echo "FAILED: the binary has \`$folder\` in it"
		status=1
	fi
done
exit "$status"
