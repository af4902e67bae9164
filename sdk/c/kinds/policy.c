// KIND = policy: the contract's functions, which call yours.
#include "../glue.h"

bool exports_mswea_policy_judge(mswea_action_t *action, mswea_verdict_t *verdict,
                                mswea_plugin_error_t *error) {
    mswea_allow(verdict);
    mswea_plugin_error_t *failed = plugin_judge(action, verdict);
    if (failed) *error = *failed;
    return !failed;
}

MSWEA_POST_RETURN("mswea:plugin/action-policy@0.1.0#judge",
                  __wasm_export_exports_mswea_policy_judge_post_return)
