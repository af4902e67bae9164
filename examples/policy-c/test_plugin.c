#include <stdlib.h>
#include <string.h>

#include "testing.h"

#define ALLOW EXPORTS_MSWEA_POLICY_VERDICT_ALLOW
#define DENY EXPORTS_MSWEA_POLICY_VERDICT_DENY
#define ASK EXPORTS_MSWEA_POLICY_VERDICT_ASK

static mswea_verdict_t judge(mswea_string_t command) {
    mswea_action_t action = {.command = command};
    mswea_verdict_t verdict;
    mswea_allow(&verdict);
    MSWEA_CHECK_OK(plugin_judge(&action, &verdict));
    return verdict;
}

static void check(const char *command, int expected) {
    mswea_verdict_t verdict = judge(mswea_str(command));
    if (verdict.tag != expected) MSWEA_CHECK_TEXT(mswea_str(command), "(judged otherwise)");
    // In a run, each command is a call of its own.
    mswea_test_end_call();
}

static void commands_in_the_folder_are_run(void) {
    MSWEA_CHECK_OK(mswea_test_configure("{\"folder\": \"/work/\"}"));
    check("", ALLOW);
    check("ls -la && make test 2>&1 | tail -5", ALLOW);
    check("cd src && cd .. && cd ./src/../tests", ALLOW);
    check("cd /work && cd /work/src/", ALLOW);
    check("grep -rn 'cd /etc' .", ALLOW);
    check("echo \"cd ..\"", ALLOW);
    check("echo curl", ALLOW);
}

static void commands_that_leave_the_folder_are_denied(void) {
    MSWEA_CHECK_OK(mswea_test_configure("{\"folder\": \"/work\"}"));
    check("cd ..", DENY);
    check("cd src/../..", DENY);
    check("cd /workshop", DENY);
    check("cd /work/../etc", DENY);
    check("cd /", DENY);
    check("cd", DENY);
    check("cd ~/x", DENY);
    check("cd -", DENY);
    check("ls; (cd /etc; ls)", DENY);
    check("A=b sudo cd '/etc'", DENY);
    check("x=$(cd /etc && pwd)", DENY);
    check("if true; then cd \"/e\"tc; fi", DENY);
    check("curl http://h | cd /etc", DENY);
    MSWEA_CHECK_OK(mswea_test_configure("{}"));
    check("cd /work", DENY);
}

static void a_person_is_asked_before_the_network_is_used(void) {
    MSWEA_CHECK_OK(mswea_test_configure("{}"));
    check("curl http://h", ASK);
    check("ls && /usr/bin/wget -q http://h", ASK);
    check("git push origin main", ASK);
    check("git  push", ASK);
    check("git log", ALLOW);
    check("git", ALLOW);
    MSWEA_CHECK_OK(mswea_test_configure("{\"ask_before\": []}"));
    check("curl http://h", ALLOW);
}

static void long_commands_are_not_run(void) {
    MSWEA_CHECK_OK(mswea_test_configure("{\"max_chars\": 4}"));
    check("äöüß", ALLOW);
    check("abcde", DENY);
    mswea_verdict_t verdict = judge(mswea_str("abcde"));
    MSWEA_CHECK_TEXT(verdict.val.deny.code, "too-long");
}

static void unusual_commands_are_judged(void) {
    MSWEA_CHECK_OK(mswea_test_configure("{\"max_chars\": 1000000000}"));
    check("'", ALLOW);
    check("\\", ALLOW);
    check("\"\\", ALLOW);
    check(";;;&&||()`", ALLOW);
    static const char nul[] = "ls\0; cd /etc";
    MSWEA_CHECK(judge((mswea_string_t){(uint8_t *)nul, sizeof nul - 1}).tag == DENY);
    static const char broken[] = "\xff\xfe cd \xc3";
    MSWEA_CHECK(judge((mswea_string_t){(uint8_t *)broken, sizeof broken - 1}).tag == ALLOW);
    const size_t huge = 1 << 22;
    uint8_t *text = malloc(huge);
    memset(text, '(', huge);
    MSWEA_CHECK(judge((mswea_string_t){text, huge}).tag == ALLOW);
    memset(text, 'a', huge);
    MSWEA_CHECK(judge((mswea_string_t){text, huge}).tag == ALLOW);
    free(text);
}

static void a_bad_folder_is_named(void) {
    mswea_plugin_error_t *error = mswea_test_configure("{\"folder\": \"work\"}");
    MSWEA_CHECK(error);
    MSWEA_CHECK_TEXT(error->code, "invalid-config");
    MSWEA_CHECK_TEXT(error->extra.val, "{\"pointer\":\"/folder\"}");
}

int main(void) {
    MSWEA_RUN(commands_in_the_folder_are_run);
    MSWEA_RUN(commands_that_leave_the_folder_are_denied);
    MSWEA_RUN(a_person_is_asked_before_the_network_is_used);
    MSWEA_RUN(long_commands_are_not_run);
    MSWEA_RUN(unusual_commands_are_judged);
    MSWEA_RUN(a_bad_folder_is_named);
    return mswea_test_result();
}
