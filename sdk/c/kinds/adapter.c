// KIND = adapter: the contract's functions, which call yours.
#include <string.h>

#include "../glue.h"

bool exports_mswea_adapter_query(mswea_change_t *change, mswea_request_t *request,
                                 mswea_adapter_next_t *next, mswea_model_error_t *error) {
    memset(next, 0, sizeof *next);
    mswea_model_error_t *failed = plugin_query(change, request, next);
    if (failed) *error = *failed;
    return !failed;
}

void exports_mswea_adapter_head(uint16_t status, mswea_headers_t *headers) {
    plugin_head(status, *headers);
    // This function has no result, so the host does not call a function after it has read one.
    mswea_call_ended();
}

void exports_mswea_adapter_feed(mswea_bytes_t *bytes, mswea_deltas_t *deltas) {
    memset(deltas, 0, sizeof *deltas);
    plugin_feed(*bytes, deltas);
}

bool exports_mswea_adapter_finish(mswea_adapter_next_t *next, mswea_model_error_t *error) {
    memset(next, 0, sizeof *next);
    mswea_model_error_t *failed = plugin_finish(next);
    if (failed) *error = *failed;
    return !failed;
}

MSWEA_POST_RETURN("mswea:plugin/model-adapter@0.1.0#query",
                  __wasm_export_exports_mswea_adapter_query_post_return)
MSWEA_POST_RETURN("mswea:plugin/model-adapter@0.1.0#feed",
                  __wasm_export_exports_mswea_adapter_feed_post_return)
MSWEA_POST_RETURN("mswea:plugin/model-adapter@0.1.0#finish",
                  __wasm_export_exports_mswea_adapter_finish_post_return)
