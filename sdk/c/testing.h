// For a plugin's tests, which run on your machine: replacements of the host's functions, input
// values, and checks. A test is a function; `main` runs them:
//
//     static void a_command_is_found(void) { ... }
//     int main(void) { MSWEA_RUN(a_command_is_found); return mswea_test_result(); }
#ifndef MSWEA_TESTING_H
#define MSWEA_TESTING_H

#include "mswea.h"

// ---- Checks ----------------------------------------------------------------------------------

#define MSWEA_CHECK(condition) mswea_check((condition), #condition, __FILE__, __LINE__)
// Checks that a text equals the expected one.
#define MSWEA_CHECK_TEXT(text, expected)                                                          \
    mswea_check_text((text), (expected), #text, __FILE__, __LINE__)
// Checks that there is no error; otherwise prints it.
#define MSWEA_CHECK_OK(error) mswea_check_ok((error), #error, __FILE__, __LINE__)
#define MSWEA_RUN(test) mswea_run((test), #test)

void mswea_check(bool condition, const char *text, const char *file, int line);
void mswea_check_text(mswea_string_t text, const char *expected, const char *what,
                      const char *file, int line);
void mswea_check_ok(const mswea_plugin_error_t *error, const char *what, const char *file,
                    int line);
void mswea_run(void (*test)(void), const char *name);
// 0 if every check has passed.
int mswea_test_result(void);

// ---- The plugin ------------------------------------------------------------------------------

// Configures the plugin as the host does: with the `default`s of its schema filled in. The config
// is JSON.
mswea_plugin_error_t *mswea_test_configure(const char *config);
// Ends the call and frees its memory, as with the host. `MSWEA_RUN` does it after each test.
void mswea_test_end_call(void);

// KIND = simple_processor and processor: passes a change, applies the result to the host's view,
// and returns that view.
mswea_messages_t mswea_test_apply(const mswea_change_t *change);
// The last change that the processor returned.
mswea_change_t mswea_test_last_change(void);

// ---- Values ----------------------------------------------------------------------------------

mswea_reply_t mswea_test_reply(const char *text);
// A reply with one tool call.
mswea_reply_t mswea_test_call(const char *id, const char *name, const char *arguments);
mswea_action_t mswea_test_action(const char *command);
mswea_output_t mswea_test_output(const char *output, int32_t returncode);
// A change with these messages, each as a role and a text, with NULL after the last.
mswea_change_t mswea_test_change(uint32_t start, const char *role, const char *text, ...);

// ---- The host --------------------------------------------------------------------------------

// The log since the last call of this function.
mswea_string_t mswea_test_log(void);
// Sets the function that `mswea_render` calls; without one, `mswea_render` fails. The function
// returns `NULL` for a failure.
void mswea_test_set_render(const char *(*render)(mswea_string_t template_, mswea_string_t vars));

#endif
