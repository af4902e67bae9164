// KIND = processor: the contract's functions, which call yours.
#include <string.h>

#include "../glue.h"

__attribute__((__weak__)) mswea_plugin_error_t *plugin_resume(const mswea_reply_t *reply,
                                                              mswea_processor_next_t *next) {
    (void)reply, (void)next;
    return mswea_error("unsupported", "this processor has asked nothing, so it can't resume; "
                                      "this is a fault of the host");
}

bool exports_mswea_processor_apply(mswea_change_t *change, mswea_processor_next_t *next,
                                   mswea_plugin_error_t *error) {
    memset(next, 0, sizeof *next);
    mswea_plugin_error_t *failed = plugin_apply(change, next);
    if (failed) *error = *failed;
    return !failed;
}

bool exports_mswea_processor_resume(mswea_reply_t *reply, mswea_processor_next_t *next,
                                    mswea_plugin_error_t *error) {
    memset(next, 0, sizeof *next);
    mswea_plugin_error_t *failed = plugin_resume(reply, next);
    if (failed) *error = *failed;
    return !failed;
}

MSWEA_POST_RETURN("mswea:plugin/history-processor@0.1.0#apply",
                  __wasm_export_exports_mswea_processor_apply_post_return)
MSWEA_POST_RETURN("mswea:plugin/history-processor@0.1.0#resume",
                  __wasm_export_exports_mswea_processor_resume_post_return)
