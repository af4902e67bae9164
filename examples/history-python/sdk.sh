#!/bin/sh
# Copies the SDK and the contract here, where `mswea-host plugin new` would have put them.
set -eu
cd "$(dirname "$0")"
rm -rf mswea_sdk wit
mkdir mswea_sdk
cp ../../sdk/python/mswea_sdk/*.py ../../sdk/python/mswea_sdk/py.typed mswea_sdk/
cp -R ../../wit wit
