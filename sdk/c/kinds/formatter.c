// KIND = formatter: the contract's functions, which call yours.
#include <string.h>

#include "../glue.h"

bool exports_mswea_formatter_format(mswea_actions_t *actions, mswea_outputs_t *outputs,
                                    mswea_messages_t *messages, mswea_plugin_error_t *error) {
    memset(messages, 0, sizeof *messages);
    mswea_plugin_error_t *failed = plugin_format(*actions, *outputs, messages);
    if (failed) *error = *failed;
    return !failed;
}

MSWEA_POST_RETURN("mswea:plugin/observation-formatter@0.1.0#format",
                  __wasm_export_exports_mswea_formatter_format_post_return)
