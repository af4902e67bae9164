#!/bin/sh
# Makes the shipped binary for aarch64 on another machine, and runs it in an emulator: its version and help,
# its plugins, and runs against the scripted server with tool calls and with commands in the text. Needs
# what host/ship.sh names for another architecture, `rustup target add aarch64-unknown-linux-musl`, and the
# scripted server (`cargo build -p mswea-scripted-server`).
#
#   tests/tooling/aarch64.sh [PROGRAM]
#
# PROGRAM is one that host/ship.sh has made for aarch64; without it, it is made, in a quarter of an hour and with
# 3 GB below `target/aarch64`. It is not a part of `.ci/run`, because of that time.
set -eu

cd "$(dirname "$0")/../.."
server=$(realpath -e "${CARGO_TARGET_DIR:-target}/debug/scripted-server")
program=${1:-$PWD/target/aarch64/mswea-host}
[ $# -gt 0 ] || TARGET=aarch64-unknown-linux-musl TARGET_DIR=$PWD/target/aarch64 host/ship.sh "$program"
program=$(realpath "$program")
work=$(mktemp -d)
served=
finish() {
	[ -z "$served" ] || kill "$served" 2>/dev/null || true
	rm -rf "$work"
}
trap finish EXIT
trap 'exit 1' HUP INT TERM

fail() {
	echo "FAILED: $1" >&2
	sed 's/^/    /' "$work/out" "$work/err" >&2
	exit 1
}

# emulated ARGUMENT...: the program, with a home folder of its own.
emulated() {
	env -i HOME="$work" PATH="$PATH" OPENAI_API_KEY=k \
		timeout 300 qemu-aarch64-static "$program" "$@" >"$work/out" 2>"$work/err" </dev/null
}

: >"$work/out" >"$work/err"
readelf -hldW "$program" >"$work/out"
grep -q 'Machine: *AArch64' "$work/out" || fail 'it is for aarch64'
! grep -q 'INTERP\|NEEDED' "$work/out" || fail 'it needs no loader and no library'
echo 'ok: one static file for aarch64'
for command in --version --help 'self check' 'plugin list'; do
	# shellcheck disable=SC2086 # two words
	emulated $command || fail "\`$command\`"
	[ -s "$work/out" ] || fail "\`$command\` prints something"
	echo "ok: $command"
done

submits='echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; uname -s'
cat >"$work/tool-calls.json" <<END
{"turns": [{"commands": ["echo one >log; cat log"]}, {"commands": ["$submits"]}]}
END
cat >"$work/text.json" <<END
{"turns": [{"text": "I look.\n\n\`\`\`mswea_bash_command\necho one >log; cat log\n\`\`\`"},
  {"text": "\`\`\`mswea_bash_command\n$submits\n\`\`\`"}]}
END
for preset in tool-calls text; do
	"$server" "$work/$preset.json" >"$work/address" &
	served=$!
	for _ in 1 2 3 4 5 6 7 8 9 10; do
		[ -s "$work/address" ] || sleep 0.3
	done
	[ -s "$work/address" ] || fail 'the scripted server has an address'
	set -- -m local/x --base-url "$(cat "$work/address")" -t count -o "$work/$preset.traj.json" --cwd "$work"
	[ $preset = tool-calls ] || set -- "$@" -c text
	emulated "$@" || fail "a run with $preset"
	[ "$(cat "$work/out")" = Linux ] || fail "a run with $preset: its submission"
	grep -q '"one' "$work/$preset.traj.json" || fail "a run with $preset: its trajectory"
	kill "$served"
	served=
	: >"$work/address"
	echo "ok: a run with $preset"
done
