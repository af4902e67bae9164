#!/bin/sh
# Measures the time of builds. Not part of `cargo bench`: it takes minutes and needs an idle
# machine.
#
#   host/benches/build.sh            after an edit of one host file, of one plugin
#   host/benches/build.sh --first    also the first `cargo run --release -- demo` from a clean
#                                    clone with an empty target directory
#
# Limits, on two cores: first build 15 minutes, edit of the loop 20 s, of the host 30 s, of a plugin
# 15 s. The edits are made in a copy of the work tree (a static at a file's end), never in the tree
# itself. The time ends when the new host has printed its version. Profile: PROFILE=release (the
# default) or PROFILE=dev. TARGET_DIR names the copy's target directory; give the same one again to
# measure without the first build, which is otherwise made, but not measured, when the directory is
# empty.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
profile=${PROFILE:-release}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
tree=$scratch/tree
mkdir "$tree"
# The committed files and those that could be committed: no target directory, no build output.
(cd "$root" && git ls-files -z --cached --others --exclude-standard | tar --null -T - -cf -) |
    tar -C "$tree" -xf -
cd "$tree"

over=0
# report FIGURE SECONDS LIMIT
report() {
    verdict=ok
    if [ "$2" -gt "$3" ]; then
        verdict=OVER
        over=1
    fi
    printf '  %-52s %6s s   ≤ %s s   %s\n' "$1" "$2" "$3" "$verdict"
}
# took COMMAND...: seconds, rounded up
took() {
    began=$(date +%s%N)
    "$@" >"$scratch/log" 2>&1 || { cat "$scratch/log" >&2; exit 1; }
    ended=$(date +%s%N)
    echo $(((ended - began + 999999999) / 1000000000))
}

printf '\nbuilding (%s profile for the edits, %s cores)\n' "$profile" "$(nproc)"
if [ "${1:-}" = --first ]; then
    CARGO_TARGET_DIR=$scratch/first
    export CARGO_TARGET_DIR
    seconds=$(took cargo run --release -- demo)
    report 'first `cargo run --release -- demo`' "$seconds" 900
    rm -rf "$scratch/first"
fi
CARGO_TARGET_DIR=${TARGET_DIR:-$scratch/target}
export CARGO_TARGET_DIR
built() {
    cargo build --profile "$profile" &&
        "$CARGO_TARGET_DIR/$(echo "$profile" | sed 's/^dev$/debug/')/mswea-host" --version
}
# Adds other bytes than at the last measurement in the same target directory.
edit() {
    printf '\n#[used]\nstatic EDITED: [u8; 19] = *b"%s";\n' "$(date +%s%N)" >>"$1"
}
took built >/dev/null
for edit in 'host/run/src/loop.rs 20' 'host/plugin/src/load.rs 30'; do
    file=${edit% *}
    # A change of the machine code; an empty line would not be one.
    edit "$file"
    seconds=$(took built)
    report "after an edit of $file" "$seconds" "${edit#* }"
done
for file in plugins/parsers/text_regex/src/lib.rs plugins/models/openai/src/lib.rs; do
    # A change of the component; a comment would not change its bytes.
    edit "$file"
    seconds=$(took built)
    report "after an edit of $file" "$seconds" 15
done
if [ "${MSWEA_BENCH_STRICT:-}" = 1 ]; then
    exit "$over"
fi
