#include "testing.h"

static void check(const char *command, int expected) {
    mswea_action_t action = mswea_test_action(command);
    mswea_verdict_t verdict;
    mswea_allow(&verdict);
    MSWEA_CHECK_OK(plugin_judge(&action, &verdict));
    MSWEA_CHECK(verdict.tag == expected);
}

static void commands_are_judged_by_their_words(void) {
    MSWEA_CHECK_OK(mswea_test_configure("{}"));
    check("ls", EXPORTS_MSWEA_POLICY_VERDICT_ALLOW);
    check("", EXPORTS_MSWEA_POLICY_VERDICT_ALLOW);
    // The config's values stay valid after the call.
    mswea_test_end_call();
    check("git push origin main", EXPORTS_MSWEA_POLICY_VERDICT_ASK);
    check("cd a && git push --force", EXPORTS_MSWEA_POLICY_VERDICT_DENY);
}

int main(void) {
    MSWEA_RUN(commands_are_judged_by_their_words);
    return mswea_test_result();
}
