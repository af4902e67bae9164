// Memory, the host's functions, and the exports of every plugin.
#include "mswea.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "glue.h"

// ---- Memory: an arena that is emptied after each call ---------------------------------------

#define ALIGNMENT 16
#define CHUNK ((size_t)64 * 1024)

typedef struct chunk {
    struct chunk *before;
    size_t used, size;
} chunk_t;

// The header's size, rounded up so that the memory after it is aligned.
#define HEADER ((sizeof(chunk_t) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT)

static chunk_t *call_chunks, *lasting_chunks;
static bool is_lasting;

static void die(const char *why) {
    // The host shows the last text on standard error as the reason.
    fprintf(stderr, "%s\n", why);
    abort();
}

void mswea_lasting(bool lasting) { is_lasting = lasting; }

static void *take(size_t size) {
    if (size > SIZE_MAX / 2) die("out of memory: the plugin asked for too large a block");
    size = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    chunk_t **chunks = is_lasting ? &lasting_chunks : &call_chunks;
    chunk_t *chunk = *chunks;
#ifdef __wasm__
    const size_t least = CHUNK;
#else
    // Each piece is allocated separately, so that the sanitizers find writes beyond its end.
    const size_t least = 0;
#endif
    if (!chunk || chunk->size - chunk->used < size || !least) {
        size_t room = size > least ? size : least;
        chunk = malloc(HEADER + room);
        if (!chunk) die("out of memory");
        *chunk = (chunk_t){*chunks, 0, room};
        *chunks = chunk;
    }
    void *piece = (uint8_t *)chunk + HEADER + chunk->used;
    chunk->used += size;
    return piece;
}

void *mswea_alloc(size_t size) {
    void *piece = take(size ? size : 1);
    return memset(piece, 0, size);
}

void *mswea_grown(void *ptr, size_t len, size_t size) {
    // The memory has room for the next power of two.
    if (len & (len - 1)) return ptr;
    size_t room = len ? 2 * len : 1;
    if (room > SIZE_MAX / 2 / size) die("out of memory: a list is too long");
    void *grown = mswea_alloc(room * size);
    if (len) memcpy(grown, ptr, len * size);
    return grown;
}

void mswea_call_ended(void) {
    chunk_t *chunk = call_chunks;
    while (chunk) {
        chunk_t *before = chunk->before;
        // One chunk of the usual size is kept for the next call.
        if (!before && chunk->size == CHUNK) {
            chunk->used = 0;
            break;
        }
        free(chunk);
        chunk = before;
    }
    call_chunks = chunk;
}

#ifdef __wasm__
// Allocates memory for the host, which copies arguments and the results of its functions into the
// guest.
__attribute__((__export_name__("cabi_realloc"))) void *cabi_realloc(void *old, size_t old_size,
                                                                    size_t align, size_t size);
void *cabi_realloc(void *old, size_t old_size, size_t align, size_t size) {
    (void)align; // never more than 8
    if (size <= old_size) return old;
    void *piece = take(size);
    if (old_size) memcpy(piece, old, old_size);
    return piece;
}
#endif

// ---- The exports of every plugin --------------------------------------------------------------

void exports_mswea_plugin_describe(mswea_descriptor_t *it) {
    memset(it, 0, sizeof *it);
    it->version = mswea_str("0.1.0");
    it->config_schema = mswea_str("{\"type\":\"object\",\"additionalProperties\":false}");
    plugin_describe(it);
}

bool exports_mswea_plugin_configure(mswea_string_t *config, mswea_plugin_error_t *error) {
    mswea_lasting(true);
    const char *why = NULL;
    // Values point into the text from which they were read, and the host's text is freed after the
    // call. So the text is copied.
    mswea_text_t text = {0};
    mswea_text_add(&text, *config);
    const mswea_value_t *value = mswea_json_read(mswea_text_string(&text), &why);
    mswea_plugin_error_t *failed =
        value ? plugin_configure(value)
              : mswea_error("invalid-input", "the config is no valid JSON: %s", why);
    mswea_lasting(false);
    if (failed) *error = *failed;
    return !failed;
}

MSWEA_POST_RETURN("mswea:plugin/plugin@0.1.0#describe",
                  __wasm_export_exports_mswea_plugin_describe_post_return)
MSWEA_POST_RETURN("mswea:plugin/plugin@0.1.0#configure",
                  __wasm_export_exports_mswea_plugin_configure_post_return)

// ---- The host --------------------------------------------------------------------------------

void mswea_log(mswea_host_level_t level, const char *format, ...) {
    va_list args;
    va_start(args, format);
    mswea_string_t text = mswea_vformat(format, args);
    va_end(args);
    mswea_host_log(level, &text);
}

mswea_plugin_error_t *mswea_render(mswea_string_t template_, const mswea_value_t *vars,
                                   mswea_string_t *rendered) {
    mswea_string_t json = mswea_json_write(vars);
    mswea_plugin_error_t *error = mswea_alloc(sizeof *error);
    return mswea_host_render(&template_, &json, rendered, error) ? NULL : error;
}
