#!/bin/sh
# Makes the packages of the shipped binary with host/package.py, installs each of them from its file, and runs
# what was installed. Needs python3 with venv, the registry of Python (for uv), dpkg and docker.
#
#   tests/tooling/packaged.sh target/mswea-host [FOLDER]
#
# FOLDER is where the packages stay; without it they are removed.
set -eu

program=$(realpath "$1")
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
packages=${2:-$work/packages}
image=
finish() {
	[ -z "$image" ] || docker rmi -f "$image" >/dev/null 2>&1 || true
	rm -rf "$work"
}
trap finish EXIT
trap 'exit 1' HUP INT TERM

"$root/host/package.py" "$program" "$packages"
(cd / && "$root/host/package.py" "$program" "$work/again") >/dev/null
version=$("$program" --version)

# same NAME OUTPUT: an installed program says the same version.
same() {
	if [ "$2" != "$version" ]; then
		echo "FAILED: $1: \`$2\` in place of \`$version\`"
		exit 1
	fi
	echo "ok: $1"
}

for package in "$work/again"/*; do
	cmp "$package" "$packages/$(basename "$package")" || exit 1
done
echo 'ok: the same packages, made twice'

python3 -m venv "$work/venv"
"$work/venv/bin/pip" -q install --no-index "$packages"/*.whl
same 'the wheel, installed with pip' "$("$work/venv/bin/mswea-host" --version)"
"$work/venv/bin/pip" -q uninstall -y mswea-host
[ ! -e "$work/venv/bin/mswea-host" ] || { echo 'FAILED: pip leaves the program'; exit 1; }

python3 -m venv "$work/uv"
"$work/uv/bin/pip" -q install --disable-pip-version-check uv==0.13.9
export UV_TOOL_DIR="$work/tools" UV_TOOL_BIN_DIR="$work/tools/bin" UV_CACHE_DIR="$work/uv-cache"
"$work/uv/bin/uv" -q tool install --offline --no-index "$packages"/*.whl
same 'the wheel, installed with uv' "$("$work/tools/bin/mswea-host" --version)"
"$work/uv/bin/uv" -q tool uninstall mswea-host
[ ! -e "$work/tools/bin/mswea-host" ] || { echo 'FAILED: uv leaves the program'; exit 1; }

mkdir -p "$work/root/var/lib/dpkg/updates" "$work/root/var/lib/dpkg/info"
: >"$work/root/var/lib/dpkg/status"
dpkg --root="$work/root" --force-not-root --force-script-chrootless --log=/dev/null -i "$packages"/*.deb \
	>"$work/out" 2>&1 || { cat "$work/out"; exit 1; }
same 'the Debian package, installed with dpkg' "$("$work/root/usr/bin/mswea-host" --version)"
for file in man/man1/mswea-host.1.gz bash-completion/completions/mswea-host doc/mswea-host/copyright; do
	[ -s "$work/root/usr/share/$file" ] || { echo "FAILED: the package has no \`$file\`"; exit 1; }
done

was_there=$(docker images -q "mswea-host:${version##* }")
loaded=$(docker load -q -i "$packages"/*-image-*.tar.gz)
name=${loaded#Loaded image: }
# One that somebody has made before stays.
[ -n "$was_there" ] || image=$name
same "the image \`$name\`" "$(docker run --rm --network none --read-only "$name" --version)"
