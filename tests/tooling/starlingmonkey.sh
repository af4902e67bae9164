#!/bin/sh
# Builds a plugin in JavaScript with the other engine, as sdk/js/README.md tells, and checks it.
#
#   tests/tooling/starlingmonkey.sh target/mswea-host
#
# It loads 385 MB from npm's registry, so it is not a part of `.ci/run`.
set -eu

program=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
mkdir "$work/bin"
ln -s "$program" "$work/bin/mswea-host"
PATH=$work/bin:$PATH
cd "$work"
mswea-host plugin new parser --lang js mine
cd mine
npm install --save-dev @bytecodealliance/componentize-js@0.23.0 @bytecodealliance/preview2-shim@0.17.2
sed -i 's/"quickjs"/"starlingmonkey"/' mswea-plugin.toml
mswea-host plugin build
[ "$(stat -c %s build/mine.wasm)" -gt 8000000 ] || { echo 'FAILED: it has the size of a component with QuickJS'; exit 1; }
mswea-host plugin check build/mine.wasm
