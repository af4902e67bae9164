#!/bin/sh
# Makes the shipped binary: one static file that runs on any Linux of an architecture, with its
# plugins as machine code inside.
#
#   [TARGET=TRIPLE] [TARGET_DIR=DIR] host/ship.sh [OUTPUT [--plugin FILE]...]
#
# OUTPUT is `target/mswea-host` unless it is named; `--plugin` puts the code of another plugin into it.
# Needs what a plain build needs, and a C compiler for musl (Debian's package is `musl-tools`).
# TARGET_DIR names the target directory, if it is not `target`. The same sources and compilers make the same bytes
# in any folder, with any target directory and any home (`tests/tooling/reproducible.sh`).
# TARGET is `x86_64-unknown-linux-musl` or `aarch64-unknown-linux-musl`, that of this machine if it is not
# named. For the other architecture it needs that one's C compiler and an emulator, in which the new
# program compiles its own plugins: Debian's `gcc-aarch64-linux-gnu` and `qemu-user-static`.
set -eu

fail() {
	echo "ship.sh: $1" >&2
	exit 1
}

[ $# -gt 0 ] || set -- target/mswea-host
case $1 in
-*) fail "\`$1\`: the first argument is the file to be made" ;;
/*) ;;
*) first=$PWD/$1 && shift && set -- "$first" "$@" ;;
esac
for argument in "$@"; do
	case $argument in
	--plugin=/* | /*) ;;
	--plugin=*) fail "\`$argument\`: name it by its whole path, which begins with \`/\`" ;;
	-*) ;;
	*) [ ! -e "$argument" ] || fail "\`$argument\`: name it by its whole path, which begins with \`/\`" ;;
	esac
done

# From here, names are those below the repository.
case ${TARGET_DIR:-/} in
/*) ;;
*) TARGET_DIR=$PWD/$TARGET_DIR ;;
esac
cd -P "$(dirname "$0")/.."
machine=$(uname -m)
target=${TARGET:-$machine-unknown-linux-musl}
folder=${TARGET_DIR:-$PWD/target}
architecture=${target%%-*}
name=$(echo "$target" | tr - _)
flags=
emulator=
case $target in
x86_64-unknown-linux-musl | aarch64-unknown-linux-musl) ;;
*) fail "TARGET is \`$target\`: it can be \`x86_64-unknown-linux-musl\` or \`aarch64-unknown-linux-musl\`" ;;
esac

if [ "$architecture" = "$machine" ]; then
	command -v musl-gcc >/dev/null || fail 'there is no `musl-gcc`, for the C parts: `apt-get install musl-tools`'
else
	# The headers are glibc's: what is written in C here only uses what has the same form in musl's. That is
	# not true of glibc's checked variants of functions, so they are switched off.
	compiler=$architecture-linux-gnu-gcc
	emulator=qemu-$architecture-static
	command -v "$compiler" >/dev/null ||
		fail "there is no \`$compiler\`, for the C parts: \`apt-get install gcc-$(echo "$architecture" | tr _ -)-linux-gnu\`"
	command -v "$emulator" >/dev/null ||
		fail "there is no \`$emulator\`, to compile the plugins with: \`apt-get install qemu-user-static\`"
	export "CC_$name=$compiler"
	flags='-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=0 -fno-stack-protector'
fi
sysroot=$(rustc --print sysroot)
[ -d "$sysroot/lib/rustlib/$target/lib" ] || rustup target add "$target"

# Places in the sources, which messages of panics and of failed assertions name, begin with these in place of the
# folders of this machine. If one folder is inside another, the last one counts.
separator=$(printf '\037')
remapped=
for flag in ${RUSTFLAGS:-}; do
	remapped=$remapped$flag$separator
done
for pair in "$PWD=/mswea" "${CARGO_HOME:-$HOME/.cargo}=/cargo" "$folder=/target"; do
	remapped=$remapped--remap-path-prefix=$pair$separator
	flags="$flags '-ffile-prefix-map=$pair'"
done
# The time that C's `__DATE__` and `__TIME__` give: mimalloc has them in a message.
export SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-0}"
eval "flags=\"\${CFLAGS_$name:-} \$flags\""
export "CFLAGS_$name=$flags" CC_SHELL_ESCAPED_FLAGS=1 "CARGO_ENCODED_RUSTFLAGS=${remapped%?}"

# Rust's own linker can do what the system's may not: functions with the same code become one (`icf`), and
# the addresses that are adjusted at the start are packed (`relr`).
cargo rustc --locked --profile ship --target "$target" --target-dir "$folder" -p mswea-host --bin mswea-host -- \
	-Clinker=rust-lld -Clink-arg=--icf=all -Clink-arg=-O2 -Clink-arg=--pack-dyn-relocs=relr \
	-Clink-arg=-Thost/ship.ld
exec $emulator "$folder/$target/ship/mswea-host" ship "$@"
