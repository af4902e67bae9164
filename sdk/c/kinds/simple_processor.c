// KIND = simple_processor: implements the protocol of changes with one function of the whole
// history. It keeps the history, computes the whole view, and returns the part that differs from
// the last view.
#include "processor.c"

static mswea_history_t known, shown;

mswea_plugin_error_t *plugin_apply(const mswea_change_t *change, mswea_processor_next_t *next) {
    if (!mswea_history_apply(&known, change))
        return mswea_error("invalid-input",
                           "a change starts at message %zu, but only %zu are known; send the whole "
                           "history with `start` 0",
                           (size_t)change->start, known.len);
    // After `start = 0` the host has no earlier view.
    if (change->start == 0) mswea_history_clear(&shown);
    mswea_messages_t view = {0};
    mswea_plugin_error_t *failed = plugin_process(mswea_history_messages(&known), &view);
    if (failed) {
        // The host has no view of this step, so the next call returns the whole view.
        mswea_history_clear(&shown);
        return failed;
    }
    size_t same = 0;
    while (same < view.len && same < shown.len &&
           mswea_message_equal(&view.ptr[same], &shown.ptr[same]))
        same++;
    mswea_messages_t differing = {0};
    if (same < view.len) differing = (mswea_messages_t){view.ptr + same, view.len - same};
    mswea_history_replace(&shown, same, differing);
    next->tag = EXPORTS_MSWEA_PROCESSOR_NEXT_DONE;
    next->val.done.start = (uint32_t)same;
    next->val.done.messages = differing;
    return NULL;
}
