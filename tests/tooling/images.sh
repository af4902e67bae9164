#!/bin/sh
# Makes the images for the tests of containers without a registry: packs files and passes them to
# `docker import`. The argument is the engine's executable, `docker` (the default) or `podman`.
#
#   mswea-test/bash     busybox's programs, bash, a user `agent` (1000), /testbed
#   mswea-test/nobash   the same without bash: /bin/sh is busybox's
#   mswea-test/noshell  one program, /bin/sleep, and no shell
#   mswea-test/alien    the files of mswea-test/bash, labelled with another architecture
#
# Images that are up to date are left alone.
set -eu

engine=${1:-docker}

fail() {
	echo "images.sh: $1" >&2
	exit 1
}

# static NAME...: prints the path of the first of these programs that is static.
static() {
	for candidate in "$@"; do
		path=$(command -v "$candidate") || continue
		# A program that needs a loader has the loader's name in its first page.
		if ! head -c 4096 "$path" | grep -aq 'ld-linux\|ld-musl'; then
			echo "$path"
			return
		fi
	done
	return 1
}

command -v "$engine" >/dev/null || fail "there is no \`$engine\`: name the engine's executable"
busybox=$(static busybox) || fail 'no static busybox: `apt-get install busybox-static`'
bash=$(static bash-static) || fail 'no static bash: `apt-get install bash-static`'

case $(uname -m) in
x86_64) alien=arm64 ;;
*) alien=amd64 ;;
esac

# The sum of everything that an image is made of: this script and the two programs.
state=$(cat "$0" "$busybox" "$bash" | cksum | tr ' ' -)

current() {
	test "$("$engine" image inspect --format '{{index .Config.Labels "mswea-test"}}' "$1" 2>/dev/null)" = "$state"
}

work=
trap 'test -z "$work" || rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

pack() {
	tar -C "$work/$1" --owner=0 --group=0 --numeric-owner --sort=name --mtime=@0 -c .
}

# import NAME FOLDER [OPTION...]: makes an image of a folder in one step.
import() {
	name=$1
	folder=$2
	shift 2
	pack "$folder" | "$engine" import "$@" \
		-c "LABEL mswea-test=$state" \
		-c 'ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' \
		- "$name" >/dev/null || fail "\`$engine import\` of \`$name\` failed: does the daemon run?"
	current "$name" || fail "\`$name\` was imported but \`$engine image inspect\` doesn't show it"
}

# load NAME FOLDER: makes an image of another architecture. Some daemons can't import one, so the whole
# archive of the image is written here.
load() {
	archive="$work/archive"
	mkdir "$archive"
	pack "$2" >"$archive/layer.tar"
	layer=$(sha256sum <"$archive/layer.tar" | cut -d ' ' -f 1)
	cat >"$archive/config.json" <<-END
		{"architecture":"$alien","os":"linux","config":{"Labels":{"mswea-test":"$state"},
		"Env":["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]},
		"rootfs":{"type":"layers","diff_ids":["sha256:$layer"]},
		"history":[{"created":"2020-01-01T00:00:00Z"}],"created":"2020-01-01T00:00:00Z"}
	END
	echo "[{\"Config\":\"config.json\",\"RepoTags\":[\"$1:latest\"],\"Layers\":[\"layer.tar\"]}]" >"$archive/manifest.json"
	tar -C "$archive" -c manifest.json config.json layer.tar | "$engine" load >/dev/null ||
		fail "\`$engine load\` of \`$1\` failed: does the daemon run?"
	current "$1" || fail "\`$1\` was loaded but \`$engine image inspect\` doesn't show it"
}

prepare() {
	test -z "$work" || return 0
	work=$(mktemp -d)

	mkdir -p "$work/nobash"
	cd "$work/nobash"
	mkdir bin dev etc home proc root sys testbed tmp usr var
	mkdir home/agent usr/bin var/tmp
	cp "$busybox" bin/busybox
	for applet in $("$busybox" --list); do
		test "$applet" = busybox || ln -s busybox "bin/$applet"
	done
	rm -f bin/bash
	ln -s /bin/env usr/bin/env
	printf '%s\n' 'root:x:0:0:root:/root:/bin/sh' 'agent:x:1000:1000:agent:/home/agent:/bin/sh' >etc/passwd
	printf '%s\n' 'root:x:0:' 'agent:x:1000:' >etc/group
	# A login shell sets this variable, so that tests can tell it from other shells.
	echo 'export MSWEA_TEST_PROFILE=read' >etc/profile
	chmod 755 . bin etc home usr usr/bin var
	chmod 1777 tmp var/tmp
	chmod 777 testbed
	chmod 700 root
	cd - >/dev/null

	cp -a "$work/nobash" "$work/bash"
	cp "$bash" "$work/bash/bin/bash"
	ln -s /bin/bash "$work/bash/usr/bin/bash"

	mkdir -p "$work/noshell/bin" "$work/noshell/tmp"
	chmod 1777 "$work/noshell/tmp"
	cp "$busybox" "$work/noshell/bin/sleep"
}

# The lock lets tests that start at the same time make the images once.
exec 9>"${TMPDIR:-/tmp}/mswea-test-images.lock"
flock 9

# The image that had the name before is removed unless a container uses it.
replacing() {
	old=$("$engine" image inspect --format '{{.Id}}' "$1" 2>/dev/null) || old=
}
replaced() {
	test -z "$old" || "$engine" rmi "$old" >/dev/null 2>&1 || true
}

for image in bash nobash noshell; do
	if ! current "mswea-test/$image"; then
		prepare
		replacing "mswea-test/$image"
		import "mswea-test/$image" "$image"
		replaced
	fi
done
if ! current mswea-test/alien; then
	prepare
	replacing mswea-test/alien
	load mswea-test/alien bash
	replaced
fi
