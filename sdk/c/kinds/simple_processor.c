// KIND = simple_processor: the protocol of changes around one plain function. Keeps the history,
// asks for the view of all of it, and answers with the part that differs from the last view.
#include "processor.c"

static mswea_history_t known, shown;

mswea_plugin_error_t *plugin_apply(const mswea_change_t *change, mswea_processor_next_t *next) {
    if (!mswea_history_apply(&known, change))
        return mswea_error("invalid-input",
                           "a change starts at message %zu, but only %zu are known; send the whole "
                           "history with `start` 0",
                           (size_t)change->start, known.len);
    // After `start = 0` the host knows nothing of an earlier view.
    if (change->start == 0) mswea_history_clear(&shown);
    // Zeroed messages in an answer would be a fault that is hard to find; an error shows nothing.
    mswea_messages_t view = {0};
    mswea_plugin_error_t *failed = plugin_process(mswea_history_messages(&known), &view);
    if (failed) {
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
