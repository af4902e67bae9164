#!/bin/sh
# Tests of slugify.sh. Exits with 1 if one of them fails.
cd "$(dirname "$0")" || exit 1
failed=0

check() {
    got=$(sh ./slugify.sh "$1")
    if [ "$got" = "$2" ]; then
        echo "ok    '$1' -> '$2'"
    else
        echo "FAIL  '$1': expected '$2', got '$got'"
        failed=$((failed + 1))
    fi
}

check 'Hello' 'hello'
check 'Release Notes' 'release-notes'
check 'Version 2' 'version-2'
check 'Hello, World!' 'hello-world'
check '  Spaces  everywhere  ' 'spaces-everywhere'
check 'What?! (Part 1)' 'what-part-1'

if [ "$failed" -gt 0 ]; then
    echo "$failed of 6 tests failed"
    exit 1
fi
echo "all 6 tests passed"
