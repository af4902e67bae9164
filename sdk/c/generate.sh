#!/bin/sh
# Makes the files in bindings/ again, from the contract in ../../wit. They are committed, so that
# authors of plugins do not need the generator:
#
#     cargo install wit-bindgen-cli --version 0.63.0 --no-default-features --features c
#
# There is one header for all kinds, and one file per kind with the code that passes the values
# between plugin and host. The linker reads the component's world from the WIT text.
set -eu
cd "$(dirname "$0")"
wit=${WIT:-../../wit}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# Short names: `mswea_message_t`, `exports_mswea_parser_outcome_t`.
generate() { # WIT-FOLDER WORLD OUT
    wit-bindgen c "$1" --world "$2" --out-dir "$tmp/$3" \
        --no-helpers --no-object-file --rename-world mswea \
        --rename mswea:plugin/types@0.1.0=mswea \
        --rename mswea:plugin/host@0.1.0=mswea_host \
        --rename mswea:plugin/plugin@0.1.0=mswea_plugin \
        --rename mswea:plugin/model-adapter@0.1.0=mswea_adapter \
        --rename mswea:plugin/action-parser@0.1.0=mswea_parser \
        --rename mswea:plugin/observation-formatter@0.1.0=mswea_formatter \
        --rename mswea:plugin/history-processor@0.1.0=mswea_processor \
        --rename mswea:plugin/action-policy@0.1.0=mswea_policy >/dev/null 2>"$tmp/log" ||
        { cat "$tmp/log" >&2; exit 1; }
}

# Changes a generated file: adds a line that says how to make it again, and removes the reference to
# an object file with the world's type.
finish() { # FROM TO
    {
        echo "// Made by generate.sh with wit-bindgen 0.63.0; run it again after a change of the contract."
        sed -e 's/"mswea.h"/"types.h"/' -e '/^\/\/ Ensure that the .*_component_type.o/,$d' "$1"
    } >"$2"
}

mkdir -p "$tmp/all/deps" bindings
cp -r "$wit" "$tmp/all/deps/plugin"
cat >"$tmp/all/all.wit" <<'EOF'
package mswea:all;
world all {
    import mswea:plugin/host@0.1.0;
    export mswea:plugin/plugin@0.1.0;
    export mswea:plugin/model-adapter@0.1.0;
    export mswea:plugin/action-parser@0.1.0;
    export mswea:plugin/observation-formatter@0.1.0;
    export mswea:plugin/history-processor@0.1.0;
    export mswea:plugin/action-policy@0.1.0;
}
EOF
generate "$tmp/all" all all
# Gives the same type one name, so that one helper function can be used for all kinds.
perl -0pi -e '
    s/typedef struct \{\s+bool is_some;\s+exports_mswea_(\w+?)_(json|usage)_t val;\s+\} exports_mswea_\1_option_\2_t;/typedef mswea_option_$2_t exports_mswea_$1_option_$2_t;/g;
    s/typedef struct \{\s+exports_mswea_(\w+?)_message_t \*ptr;\s+size_t len;\s+\} exports_mswea_\1_list_message_t;/typedef mswea_list_message_t exports_mswea_$1_list_message_t;/g;
' "$tmp/all/mswea.h"
finish "$tmp/all/mswea.h" bindings/types.h
for world in adapter parser formatter processor policy; do
    generate "$wit" "$world" "$world"
    finish "$tmp/$world/mswea.c" "bindings/$world.c"
done
