#include "testing.h"

static void check(mswea_change_t change, const char *expected) {
    mswea_messages_t view = mswea_test_apply(&change);
    mswea_text_t texts = {0};
    for (size_t i = 0; i < view.len; i++)
        mswea_text_format(&texts, "[%.*s]", MSWEA_ARG(mswea_message_text(&view.ptr[i])));
    MSWEA_CHECK_TEXT(mswea_text_string(&texts), expected);
}

static void only_the_latest_stay_whole(void) {
    MSWEA_CHECK_OK(mswea_test_configure("{\"keep\": 1, \"max_chars\": 5}"));
    check(mswea_test_change(0, "system", "system", "user", "the task", "user", "first output",
                            NULL),
          "[system][the task][first output]");
    // With the host, each call ends before the next one begins.
    mswea_test_end_call();
    check(mswea_test_change(3, "assistant", "an answer", "user", "second output", NULL),
          "[system][the task][first [shortened]][an answer][second output]");
    // Unchanged messages are not returned again.
    MSWEA_CHECK(mswea_test_last_change().start == 2);
    mswea_test_end_call();
    // With the whole history, the view is the same.
    check(mswea_test_change(0, "system", "system", "user", "the task", "user", "first output",
                            "assistant", "an answer", "user", "second output", NULL),
          "[system][the task][first [shortened]][an answer][second output]");
    MSWEA_CHECK(mswea_test_last_change().start == 0);
}

int main(void) {
    MSWEA_RUN(only_the_latest_stay_whole);
    return mswea_test_result();
}
