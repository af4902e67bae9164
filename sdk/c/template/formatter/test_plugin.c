#include "testing.h"

static mswea_message_t format(mswea_action_t action, const char *text) {
    mswea_output_t output = mswea_test_output(text, 1);
    mswea_messages_t messages = {0};
    MSWEA_CHECK_OK(
        plugin_format((mswea_actions_t){&action, 1}, (mswea_outputs_t){&output, 1}, &messages));
    MSWEA_CHECK(messages.len == 1);
    return messages.len == 1 ? messages.ptr[0] : mswea_message("", mswea_str(""));
}

static void the_output_follows_the_exit_code(void) {
    MSWEA_CHECK_OK(mswea_test_configure("{}"));
    mswea_message_t message = format(mswea_test_action("ls"), "a\n");
    MSWEA_CHECK_TEXT(message.role, "user");
    MSWEA_CHECK_TEXT(mswea_message_text(&message), "exit code 1\na\n");
}

static void a_tool_call_is_answered_by_its_id(void) {
    MSWEA_CHECK_OK(mswea_test_configure("{}"));
    mswea_action_t action = mswea_test_action("ls");
    action.tool_call_id = (mswea_option_string_t){true, mswea_str("call_1")};
    mswea_message_t message = format(action, "");
    MSWEA_CHECK_TEXT(message.role, "tool");
    MSWEA_CHECK(message.tool_call_id.is_some);
    MSWEA_CHECK_TEXT(message.tool_call_id.val, "call_1");
}

static void a_long_output_loses_its_middle(void) {
    MSWEA_CHECK_OK(mswea_test_configure("{\"max_chars\": 4}"));
    mswea_message_t message = format(mswea_test_action("ls"), "äbcdefgh");
    MSWEA_CHECK_TEXT(mswea_message_text(&message),
                     "exit code 1\näb\n[4 characters left out]\ngh");
}

int main(void) {
    MSWEA_RUN(the_output_follows_the_exit_code);
    MSWEA_RUN(a_tool_call_is_answered_by_its_id);
    MSWEA_RUN(a_long_output_loses_its_middle);
    return mswea_test_result();
}
