#!/bin/sh
# Checks the shipped binary: it must be one static file below the size limit, and run in an empty image, in
# an image with musl, in an image with glibc and a bash that is linked to it, and in images without any
# library; as a user without an entry in /etc/passwd, with a read-only root, without HOME, PATH, /tmp,
# network and privileges. The images are made of this machine's files, because images of distributions
# would need a registry. Needs docker, and what images.sh needs.
#
#   tests/tooling/anywhere.sh target/mswea-host
set -eu

most_bytes=26000000
program=$(realpath "$1")
here=$(cd "$(dirname "$0")" && pwd)
failed=0

# told NAME STATUS: prints the result of a check.
told() {
	if [ "$2" -eq 0 ]; then
		echo "ok: $1"
	else
		echo "FAILED: $1"
		sed 's/^/    /' "$work/out" "$work/err"
		failed=1
	fi
}

work=$(mktemp -d)
images=
finish() {
	for image in $images; do
		docker rmi -f "$image" >/dev/null 2>&1 || true
	done
	rm -rf "$work"
}
trap finish EXIT
trap 'exit 1' HUP INT TERM
: >"$work/out" >"$work/err"

size=$(stat -c %s "$program")
echo "size: $size bytes, at most $most_bytes"
[ "$size" -le "$most_bytes" ] && status=0 || status=1
told 'its size is below the limit' "$status"
readelf -ldW "$program" >"$work/out"
grep -q 'INTERP\|NEEDED' "$work/out" && status=1 || status=0
told 'it needs no loader and no library' "$status"

root=$(cd "$here/../.." && pwd -P)
for folder in "$root/host" "$root/target" "${CARGO_HOME:-$HOME/.cargo}/registry"; do
	LC_ALL=C grep -aoF "$folder" "$program" >"$work/out" && status=1 || status=0
	told "it does not name \`$folder\`, where it was made" "$status"
done

# An image whose only file is the program.
mkdir "$work/scratch"
cp "$program" "$work/scratch/mswea-host"
sh "$here/images.sh" docker
scratch=mswea-test-anywhere/scratch-$$
musl=mswea-test-anywhere/musl-$$
glibc=mswea-test-anywhere/glibc-$$
images="$scratch $musl $glibc"
tar -C "$work/scratch" -c mswea-host | docker import - "$scratch" >/dev/null
# An image with musl as its C library, like Alpine: a program that is linked to glibc does not start there.
mkdir -p "$work/musl/lib"
cp -L /lib/ld-musl-*.so.1 "$work/musl/lib/" || {
	echo 'anywhere.sh: there is no musl: `apt-get install musl`' >&2
	exit 1
}
cp -a "$work/scratch/mswea-host" "$work/musl/mswea-host"
mkdir "$work/musl/bin"
cp "$(command -v busybox)" "$work/musl/bin/sh"
tar -C "$work/musl" -c . | docker import - "$musl" >/dev/null
# An image with bash and the libraries that it needs, like Debian.
mkdir -p "$work/glibc/bin"
bash=$(command -v bash)
cp -L "$bash" "$work/glibc/bin/bash"
ldd "$bash" | grep -o '/[^ )]*' | while read -r library; do
	mkdir -p "$work/glibc$(dirname "$library")"
	cp -L "$library" "$work/glibc$library"
done
cp -a "$work/scratch/mswea-host" "$work/glibc/mswea-host"
tar -C "$work/glibc" -c . | docker import - "$glibc" >/dev/null

cat >"$work/replies.json" <<'END'
{"replies": [{"content": "done", "tool_calls": [{"command": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo it ran"}]}]}
END
# A plugin that the program has no machine code for: a built-in one with another digest.
{
	cat "${CARGO_TARGET_DIR:-$here/../../target}/plugins/parsers/text_regex.wasm"
	printf '\000\004\003own'
} >"$work/own.wasm"
chmod -R a+rX "$work"

# run IMAGE [OPTION...] -- ARGUMENT...: the program in a container.
run() {
	image=$1
	shift
	options=
	while [ "$1" != -- ]; do
		options="$options $1"
		shift
	done
	shift
	# shellcheck disable=SC2086 # options are words
	timeout 120 docker run --rm --read-only --network none --user 12345:23456 --cap-drop ALL \
		--security-opt no-new-privileges -e HOME= -e PATH= --tmpfs /data:mode=1777 --add-host model.test:127.0.0.1 \
		-v "$work:/given:ro" -v "$program:/mswea-host:ro" -w / $options "$image" \
		/mswea-host "$@" </dev/null >"$work/out" 2>"$work/err"
}

socket=/var/run/docker.sock
for image in "$scratch" "$musl" "$glibc" mswea-test/bash mswea-test/nobash; do
	name=${image%-$$}
	name=${name##*/}
	run "$image" -- plugin list && status=0 || status=$?
	told "$name: it loads its plugins" "$status"
	run "$image" -- plugin inspect /given/own.wasm && status=0 || status=$?
	told "$name: it compiles a plugin" "$status"
	# The run ends before its first command, but the interpreter has to exist; an empty image has no other program.
	run "$image" -- -m local/x --base-url http://model.test:9/v1 -t x -o /data/run.traj.json \
		-c 'environment.interpreter=["/mswea-host"]' -c model.network_retries=0 || true
	grep -q 'nothing listens at `http://model.test:9`' "$work/err" && status=0 || status=1
	told "$name: it resolves a host name" "$status"
	set -- -m replay//given/replies.json -t x -o /data/run.traj.json
	if [ "$image" = "$scratch" ]; then
		# There is no shell for the model's commands, so they run in another container.
		run "$image" --group-add "$(stat -c %g "$socket")" -v "$socket:$socket" -- "$@" --image mswea-test/bash &&
			status=0 || status=$?
	else
		run "$image" -- "$@" && status=0 || status=$?
	fi
	[ "$(cat "$work/out")" = 'it ran' ] || status=1
	told "$name: a run with a submission" "$status"
done
exit "$failed"
