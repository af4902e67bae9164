#!/bin/sh
# Copies the SDK and the contract into this folder, as `mswea-host plugin new` does.
set -eu
cd "$(dirname "$0")"
rm -rf mswea-sdk wit
mkdir mswea-sdk
cp ../../sdk/js/*.js ../../sdk/js/*.ts ../../sdk/js/package.json mswea-sdk/
cp -R ../../wit wit
