#!/bin/sh
# Copies the SDK and the contract into this folder, as `mswea-host plugin new` does.
set -eu
cd "$(dirname "$0")"
rm -rf mswea_sdk wit
mkdir mswea_sdk
cp ../../sdk/python/mswea_sdk/*.py ../../sdk/python/mswea_sdk/py.typed mswea_sdk/
cp -R ../../wit wit
