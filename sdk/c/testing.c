// The test functions of testing.h. For native builds only.
#include "testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "glue.h"

// ---- Checks ----------------------------------------------------------------------------------

static int tests, failures;
static const char *running = "";

static void failed(const char *file, int line) {
    failures++;
    fprintf(stderr, "%s:%d: in %s: ", file, line, running);
}

void mswea_check(bool condition, const char *text, const char *file, int line) {
    if (condition) return;
    failed(file, line);
    fprintf(stderr, "check failed: %s\n", text);
}

void mswea_check_text(mswea_string_t text, const char *expected, const char *what,
                      const char *file, int line) {
    if (mswea_is(text, expected)) return;
    failed(file, line);
    fprintf(stderr, "%s\n    is       `%.*s`\n    not      `%s`\n", what, MSWEA_ARG(text), expected);
}

void mswea_check_ok(const mswea_plugin_error_t *error, const char *what, const char *file,
                    int line) {
    if (!error) return;
    failed(file, line);
    fprintf(stderr, "%s failed with `%.*s`: %.*s\n", what, MSWEA_ARG(error->code),
            MSWEA_ARG(error->message));
}

void mswea_run(void (*test)(void), const char *name) {
    int before = failures;
    running = name;
    test();
    mswea_test_end_call();
    tests++;
    printf("%s %s\n", failures == before ? "ok    " : "FAILED", name);
}

int mswea_test_result(void) {
    printf("%d tests, %d failed checks\n", tests, failures);
    return failures || !tests ? 1 : 0;
}

// ---- The plugin ------------------------------------------------------------------------------

mswea_plugin_error_t *mswea_test_configure(const char *config) {
    mswea_descriptor_t it;
    exports_mswea_plugin_describe(&it);
    const char *why = "";
    const mswea_value_t *schema = mswea_json_read(it.config_schema, &why);
    if (!schema) return mswea_error("internal", "the schema is no valid JSON: %s", why);
    mswea_value_t *value = (mswea_value_t *)mswea_json_read(mswea_str(config), &why);
    if (!value) return mswea_error("internal", "the test's config is no valid JSON: %s", why);
    const mswea_value_t *properties = mswea_get(schema, "properties");
    for (size_t i = 0; i < mswea_len(properties); i++) {
        const char *key = mswea_cstr(mswea_key_at(properties, i));
        const mswea_value_t *property = mswea_value_at(properties, i);
        if (mswea_has(property, "default") && !mswea_has(value, key))
            mswea_set(value, key, mswea_get(property, "default"));
    }
    mswea_string_t text = mswea_json_write(value);
    static mswea_plugin_error_t error;
    return exports_mswea_plugin_configure(&text, &error) ? NULL : &error;
}

void mswea_test_end_call(void) { mswea_call_ended(); }

// Weak, because only processors have this function.
__attribute__((__weak__)) bool exports_mswea_processor_apply(mswea_change_t *change,
                                                             mswea_processor_next_t *next,
                                                             mswea_plugin_error_t *error);

static mswea_history_t view;
static mswea_change_t last;

mswea_messages_t mswea_test_apply(const mswea_change_t *change) {
    mswea_processor_next_t next = {0};
    mswea_plugin_error_t error = {0};
    mswea_change_t copy = *change;
    bool is_ok = exports_mswea_processor_apply(&copy, &next, &error);
    mswea_check_ok(is_ok ? NULL : &error, "plugin_apply", __FILE__, __LINE__);
    if (is_ok && next.tag == EXPORTS_MSWEA_PROCESSOR_NEXT_DONE) {
        last = next.val.done;
        mswea_check(mswea_history_apply(&view, &last), "the change begins within the view",
                    __FILE__, __LINE__);
    }
    return mswea_history_messages(&view);
}

mswea_change_t mswea_test_last_change(void) { return last; }

// ---- Values ----------------------------------------------------------------------------------

mswea_reply_t mswea_test_reply(const char *text) {
    return (mswea_reply_t){.message = mswea_message("assistant", mswea_str(text)),
                           .finish_reason = mswea_str("stop")};
}

mswea_reply_t mswea_test_call(const char *id, const char *name, const char *arguments) {
    mswea_reply_t reply = {.message = {.role = mswea_str("assistant")},
                           .finish_reason = mswea_str("tool_calls")};
    mswea_tool_call_t call = {
        .id = mswea_str(id), .name = mswea_str(name), .arguments = mswea_str(arguments)};
    mswea_push(&reply.message.tool_calls, call);
    return reply;
}

mswea_action_t mswea_test_action(const char *command) {
    return (mswea_action_t){.command = mswea_str(command)};
}

mswea_output_t mswea_test_output(const char *output, int32_t returncode) {
    return (mswea_output_t){.output = mswea_str(output), .returncode = returncode};
}

mswea_change_t mswea_test_change(uint32_t start, const char *role, const char *text, ...) {
    mswea_change_t change = {.start = start};
    va_list args;
    va_start(args, text);
    while (role) {
        mswea_push(&change.messages, mswea_message(role, mswea_str(text)));
        role = va_arg(args, const char *);
        text = role ? va_arg(args, const char *) : NULL;
    }
    va_end(args);
    return change;
}

// ---- The host --------------------------------------------------------------------------------

static mswea_buffer_t logged;
static const char *(*renderer)(mswea_string_t, mswea_string_t);

void mswea_host_log(mswea_host_level_t level, mswea_string_t *text) {
    (void)level;
    if (logged.len) mswea_buffer_add(&logged, "\n", 1);
    mswea_buffer_add(&logged, text->ptr, text->len);
}

mswea_string_t mswea_test_log(void) {
    mswea_string_t text = mswea_buffer_text(&logged);
    mswea_buffer_clear(&logged);
    return text;
}

void mswea_test_set_render(const char *(*render)(mswea_string_t, mswea_string_t)) {
    renderer = render;
}

bool mswea_host_render(mswea_string_t *template_, mswea_string_t *vars, mswea_string_t *rendered,
                       mswea_plugin_error_t *error) {
    const char *text = renderer ? renderer(*template_, *vars) : NULL;
    if (text) {
        *rendered = mswea_format("%s", text);
        return true;
    }
    *error = *mswea_error("template", renderer ? "the template does not render"
                                               : "there is no host in a test; call "
                                                 "`mswea_test_set_render` first");
    return false;
}
