#!/bin/sh
# Makes the shipped binary: one static file that runs on any Linux of this architecture, with its
# plugins as machine code inside.
#
#   host/ship.sh [OUTPUT [--plugin FILE]...]
#
# OUTPUT is `target/mswea-host` unless it is named; `--plugin` puts the code of another plugin into it.
# Needs what a plain build needs, and a C compiler for musl (Debian's package is `musl-tools`).
# TARGET_DIR names the target directory, if it is not `target`.
set -eu

fail() {
	echo "ship.sh: $1" >&2
	exit 1
}

[ $# -gt 0 ] || set -- target/mswea-host
case $1 in
/*) ;;
*) first=$PWD/$1 && shift && set -- "$first" "$@" ;;
esac
for argument in "$@"; do
	case $argument in
	--plugin=* | -*) ;;
	/*) ;;
	*) [ ! -e "$argument" ] || fail "\`$argument\`: name it by its whole path, which begins with \`/\`" ;;
	esac
done

cd "$(dirname "$0")/.."
target=$(uname -m)-unknown-linux-musl
folder=${TARGET_DIR:-target}

command -v musl-gcc >/dev/null || fail 'there is no `musl-gcc`, for the C parts: `apt-get install musl-tools`'
sysroot=$(rustc --print sysroot)
[ -d "$sysroot/lib/rustlib/$target/lib" ] || rustup target add "$target"

# Rust's own linker can do what the system's may not: functions with the same code become one (`icf`), and
# the addresses that are adjusted at the start are packed (`relr`).
cargo rustc --locked --profile ship --target "$target" --target-dir "$folder" -p mswea-host --bin mswea-host -- \
	-Clinker=rust-lld -Clink-arg=--icf=all -Clink-arg=-O2 -Clink-arg=--pack-dyn-relocs=relr \
	"-Clink-arg=-T$PWD/host/ship.ld"
exec "$folder/$target/ship/mswea-host" ship "$@"
