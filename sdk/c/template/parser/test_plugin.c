#include "testing.h"

static void check(const char *text, const char *commands) {
    mswea_reply_t reply = mswea_test_reply(text);
    mswea_outcome_t outcome = {0};
    MSWEA_CHECK_OK(plugin_parse(&reply, &outcome));
    mswea_text_t found = {0};
    if (outcome.tag == EXPORTS_MSWEA_PARSER_OUTCOME_MALFORMED) {
        mswea_text_add(&found, outcome.val.malformed.message);
    } else {
        for (size_t i = 0; i < outcome.val.actions.len; i++)
            mswea_text_format(&found, "[%.*s]", MSWEA_ARG(outcome.val.actions.ptr[i].command));
    }
    MSWEA_CHECK_TEXT(mswea_text_string(&found), commands);
}

static void lines_with_the_prompt_are_commands(void) {
    MSWEA_CHECK_OK(mswea_test_configure("{}"));
    check("I look.\n$ ls -l\n", "[ls -l]");
    check("$ cd src\r\n$ ls", "[cd src][ls]");
    check("no command", "Begin a line with `$ ` to run it.");
    check("$  \n", "Begin a line with `$ ` to run it.");
    check("", "Begin a line with `$ ` to run it.");
}

static void the_prompt_can_be_set(void) {
    MSWEA_CHECK_OK(mswea_test_configure("{\"prompt\": \"> \"}"));
    check("$ ls\n> pwd", "[pwd]");
}

int main(void) {
    MSWEA_RUN(lines_with_the_prompt_are_commands);
    MSWEA_RUN(the_prompt_can_be_set);
    return mswea_test_result();
}
