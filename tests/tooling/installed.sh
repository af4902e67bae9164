#!/bin/sh
# Installs the host with Cargo from this repository, into a folder of its own, and runs what was installed: its
# version, its plugins, the demo.
#
#   tests/tooling/installed.sh [OPTION...]
#
# OPTIONs are Cargo's: with `--debug`, as in `.ci/run`, it takes a minute where the tests are built, without it ten.
set -eu

cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

cargo install --locked --path host --root "$work/root" "$@"
mkdir "$work/home"
# installed ARGUMENT...: what was installed, with a home folder of its own.
installed() {
	HOME=$work/home PATH=$work/root/bin:$PATH mswea-host "$@"
}
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
[ "$(installed --version)" = "mswea-host $version" ]
installed plugin list >"$work/plugins"
grep -q toolcall "$work/plugins"
(cd "$work" && installed demo) >"$work/out" 2>&1 || { cat "$work/out"; exit 1; }
echo "ok: mswea-host $version, installed with cargo"
