#!/bin/bash
# Tests the executor `singularity` against the real apptainer, of which Debian has a package in sid alone. That
# package and what it needs are unpacked into a folder, which becomes the root of a mount namespace of this
# script. Needs root, apt, the network, docker and the images of images.sh, and some 700 MB below TMPDIR.
#
#   tests/tooling/apptainer.sh target/debug/deps/mswea_executor-HASH [FILTER]
#
# The program is what `cargo test -p mswea-executor --lib --no-run` prints.
set -eu

program=$(realpath "$1")
filter=${2:-the_real_program}
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
container=
finish() {
	[ -z "$container" ] || docker rm -f "$container" >/dev/null 2>&1 || true
	rm -rf "$work"
}
trap finish EXIT
trap 'exit 1' HUP INT TERM

root=$work/root
mkdir -p "$root" "$work"/lists/partial "$work"/cache/archives/partial
echo 'deb http://deb.debian.org/debian sid main' >"$work/sources.list"
: >"$work/status"
apt() {
	apt-get -qq -o Dir::Etc::sourcelist="$work/sources.list" -o Dir::Etc::sourceparts=/dev/null \
		-o Dir::State::lists="$work/lists" -o Dir::Cache="$work/cache" -o Dir::State::status="$work/status" \
		-o APT::Install-Recommends=false -o APT::Sandbox::User=root "$@"
}
apt update
apt install --download-only -y apptainer base-files bash coreutils findutils git grep mawk mount procps sed util-linux
# The links of the merged /usr are in base-files.
for package in "$work"/cache/archives/base-files*.deb "$work"/cache/archives/*.deb; do
	dpkg-deb --fsys-tarfile "$package" | tar -x --keep-directory-symlink -C "$root"
done
rm -rf "$work/cache" "$work/lists"
ln -sf bash "$root/usr/bin/sh"
ln -sf mawk "$root/usr/bin/awk"
# With --fakeroot, root needs a range of ids, too.
echo root:100000:65536 | tee "$root/etc/subuid" >"$root/etc/subgid"
cp -L /etc/passwd /etc/group "$root/etc/"
touch "$root/etc/hosts" "$root/etc/resolv.conf" "$root/etc/localtime"

sh "$here/images.sh" docker
container=$(docker create mswea-test/bash true)
mkdir "$root/image" "$root/oldroot"
docker export "$container" | tar -x -C "$root/image"
cp "$program" "$root/program"

unshare --mount bash -eu -c '
	root=$1 filter=$2
	mount --make-rprivate /
	mount --bind "$root" "$root"
	for folder in proc dev sys; do
		mkdir -p "$root/$folder"
		mount --rbind "/$folder" "$root/$folder"
	done
	mount -t tmpfs tmpfs "$root/tmp"
	cd "$root"
	pivot_root . oldroot
	umount -l /oldroot
	export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
	export MSWEA_TEST_APPTAINER_IMAGE=/image MSWEA_TEST_REQUIRE=apptainer
	cd /
	apptainer --version
	exec /program "$filter" --nocapture --test-threads=1
' bash "$root" "$filter"
