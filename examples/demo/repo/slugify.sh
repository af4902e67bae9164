#!/bin/sh
# Prints a title as the last part of a URL: small letters and digits, with one dash between
# two words and none at either end.
set -eu
LC_ALL=C
export LC_ALL

printf '%s\n' "$*" |
    tr 'A-Z' 'a-z' |
    sed -e 's/[^a-z0-9]/-/g' -e 's/^-//' -e 's/-$//'
