// KIND = parser: the contract's functions, which call yours.
#include <string.h>

#include "../glue.h"

__attribute__((__weak__)) void plugin_tools(mswea_tools_t *tools) { (void)tools; }

void exports_mswea_parser_tools(mswea_tools_t *tools) {
    memset(tools, 0, sizeof *tools);
    plugin_tools(tools);
}

bool exports_mswea_parser_parse(mswea_reply_t *reply, mswea_outcome_t *outcome,
                                mswea_plugin_error_t *error) {
    memset(outcome, 0, sizeof *outcome);
    mswea_plugin_error_t *failed = plugin_parse(reply, outcome);
    if (failed) *error = *failed;
    return !failed;
}

MSWEA_POST_RETURN("mswea:plugin/action-parser@0.1.0#tools",
                  __wasm_export_exports_mswea_parser_tools_post_return)
MSWEA_POST_RETURN("mswea:plugin/action-parser@0.1.0#parse",
                  __wasm_export_exports_mswea_parser_parse_post_return)
