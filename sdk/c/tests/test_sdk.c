// Tests of the SDK itself: JSON, strings and histories, also with hostile input. Run them with
// `make -C tests`.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "testing.h"

void plugin_describe(mswea_descriptor_t *it) { it->name = mswea_str("test"); }

static mswea_string_t kept;

mswea_plugin_error_t *plugin_configure(const mswea_value_t *config) {
    kept = mswea_text_or(mswea_get(config, "kept"), "");
    if (mswea_has(config, "bad")) return mswea_config_error("/bad", "`bad` %s", "is bad");
    return NULL;
}

// The view is the history without messages that begin with `-`, and with the last message in
// capitals. So old messages of the view change, disappear and appear.
mswea_plugin_error_t *plugin_process(mswea_messages_t history, mswea_messages_t *view) {
    for (size_t i = 0; i < history.len; i++) {
        mswea_message_t message = history.ptr[i];
        mswea_string_t text = mswea_message_text(&message);
        if (mswea_is(text, "fail")) return mswea_error("mine", "asked to fail");
        if (mswea_starts_with(text, mswea_str("-"))) continue;
        if (i + 1 == history.len) {
            mswea_text_t last = {0};
            mswea_text_add(&last, text);
            mswea_text_add(&last, mswea_str("!"));
            mswea_set_text(&message, mswea_text_string(&last));
        }
        mswea_push(view, message);
    }
    return NULL;
}

// ---- JSON --------------------------------------------------------------------------------

static void good_json_is_read_and_written(void) {
    static const char *const cases[][2] = {
        {"null", "null"},
        {" [ 1 , 2.50 , -0 , 1e5 , 12345678901234567890 ] ", "[1,2.50,-0,1e5,12345678901234567890]"},
        {"{\"a\":{\"b\":[]},\"c\":{}}", "{\"a\":{\"b\":[]},\"c\":{}}"},
        {"\"\\u00e4\\ud83d\\ude00\\ud800\"", "\"\\u00e4\\ud83d\\ude00\\ud800\""},
        {"[true,false]", "[true,false]"},
        {"{\"\":\"\",\"\\n\":1}", "{\"\":\"\",\"\\n\":1}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *why = "";
        const mswea_value_t *value = mswea_json_read(mswea_str(cases[i][0]), &why);
        MSWEA_CHECK(value);
        MSWEA_CHECK_TEXT(mswea_json_write(value), cases[i][1]);
    }
}

static void bad_json_is_refused_with_its_place(void) {
    static const char *const cases[][2] = {
        {"", "it ends too early, at byte 0"},
        {"{", "a key in quotes is missing, at byte 1"},
        {"[1,]", "neither a value nor a number, at byte 3"},
        {"[1 2]", "a `]` is missing, at byte 3"},
        {"{\"a\" 1}", "a `:` is missing, at byte 5"},
        {"{\"a\":1", "a `}` is missing, at byte 6"},
        {"01", "neither a value nor a number, at byte 2"},
        {"1.", "neither a value nor a number, at byte 2"},
        {"-", "neither a value nor a number, at byte 1"},
        {"1e", "neither a value nor a number, at byte 2"},
        {"nul", "neither a value nor a number, at byte 0"},
        {"\"a", "a text does not end, at byte 2"},
        {"\"\\", "a text does not end, at byte 2"},
        {"\"\\\"", "a text does not end, at byte 3"},
        {"\"\\x\"", "an escape that JSON does not have, at byte 3"},
        {"\"\\u12g4\"", "`\\u` wants four hexadecimal digits, at byte 5"},
        {"\"\\ud800\\u12\"", "`\\u` wants four hexadecimal digits, at byte 11"},
        {"\"a\nb\"", "a control character in a text, at byte 2"},
        {"1 1", "something follows the value, at byte 2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *why = "";
        MSWEA_CHECK(!mswea_json_read(mswea_str(cases[i][0]), &why));
        MSWEA_CHECK_TEXT(mswea_str(why), cases[i][1]);
    }
    // A NUL is a byte like any other.
    MSWEA_CHECK(!mswea_json_read((mswea_string_t){(uint8_t *)"1\0", 2}, NULL));
    MSWEA_CHECK(!mswea_json_read((mswea_string_t){(uint8_t *)"\"\\\0\"", 4}, NULL));
    MSWEA_CHECK(!mswea_json_read((mswea_string_t){NULL, 0}, NULL));
}

static void escapes_are_read(void) {
    static const struct {
        const char *json, *text;
    } cases[] = {
        {"\"\\u00e4\\u20ac\"", "ä€"},
        {"\"\\ud83d\\ude00\"", "😀"},
        {"\"\\ud800\"", "\xef\xbf\xbd"},
        {"\"\\udc00x\"", "\xef\xbf\xbdx"},
        {"\"\\ud800\\u0041\"", "\xef\xbf\xbd" "A"},
        {"\"\\ud800\\ud800\"", "\xef\xbf\xbd\xef\xbf\xbd"},
        {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        MSWEA_CHECK_TEXT(mswea_text_or(mswea_json_read(mswea_str(cases[i].json), NULL), "?"),
                         cases[i].text);
    mswea_string_t nul = mswea_text_or(mswea_json_read(mswea_str("\"\\u0000\""), NULL), "?");
    MSWEA_CHECK(nul.len == 1 && nul.ptr[0] == 0);
    MSWEA_CHECK_TEXT(mswea_json_write(mswea_text(nul)), "\"\\u0000\"");
}

static void asking_is_safe(void) {
    const mswea_value_t *it =
        mswea_json_read(mswea_str("{\"a\":1,\"a\":2,\"big\":1e300,\"x\":-7.9,\"t\":\"s\"}"), NULL);
    MSWEA_CHECK(mswea_int_or(mswea_get(it, "a"), 0) == 2);
    MSWEA_CHECK(mswea_int_or(mswea_get(it, "x"), 0) == -7);
    MSWEA_CHECK(mswea_int_or(mswea_get(it, "big"), 42) == 42);
    MSWEA_CHECK(mswea_int_or(mswea_get(it, "t"), 42) == 42);
    MSWEA_CHECK(mswea_bool_or(mswea_get(it, "t"), true));
    MSWEA_CHECK(mswea_type(mswea_get(mswea_get(NULL, "a"), "b")) == MSWEA_NULL);
    MSWEA_CHECK(mswea_type(mswea_at(it, 0)) == MSWEA_NULL);
    MSWEA_CHECK(mswea_type(mswea_value_at(it, 99)) == MSWEA_NULL);
    MSWEA_CHECK(mswea_key_at(it, 99).len == 0);
    MSWEA_CHECK(mswea_len(NULL) == 0);
    MSWEA_CHECK_TEXT(mswea_json_write(mswea_number(1.0 / 0.0)), "null");
    MSWEA_CHECK_TEXT(mswea_json_write(mswea_number(0.1)), "0.1");
    MSWEA_CHECK_TEXT(mswea_json_write(mswea_number(3)), "3");
}

static void an_extra_passes_on_what_it_does_not_know(void) {
    mswea_option_json_t extra = {true, mswea_str("{\"id\":12345678901234567890,\"u\":\"\\ud800\"}")};
    mswea_extra_set(&extra, "mine", mswea_bool(true));
    mswea_extra_set(&extra, "mine", mswea_bool(false));
    MSWEA_CHECK_TEXT(extra.val, "{\"id\":12345678901234567890,\"u\":\"\\ud800\",\"mine\":false}");
    MSWEA_CHECK(!mswea_bool_or(mswea_extra_get(extra, "mine"), true));
    extra.val = mswea_str("broken");
    mswea_extra_set(&extra, "mine", mswea_null());
    MSWEA_CHECK_TEXT(extra.val, "broken");
    mswea_option_json_t none = {0};
    mswea_extra_set(&none, "a", NULL);
    MSWEA_CHECK_TEXT(none.val, "{\"a\":null}");
}

static void json_that_is_deep_or_huge_is_no_trouble(void) {
    enum { DEEP = 1000000 };
    uint8_t *deep = malloc(DEEP);
    memset(deep, '[', DEEP);
    const char *why = "";
    MSWEA_CHECK(!mswea_json_read((mswea_string_t){deep, DEEP}, &why));
    MSWEA_CHECK_TEXT(mswea_slice(mswea_str(why), 0, 17), "nested too deeply");
    for (size_t i = 0; i + 4 < DEEP; i += 5) memcpy(deep + i, "{\"a\":", 5);
    MSWEA_CHECK(!mswea_json_read((mswea_string_t){deep, DEEP}, &why));
    memset(deep, ' ', DEEP);
    memcpy(deep, "[\"", 2);
    memcpy(deep + DEEP - 2, "\"]", 2);
    const mswea_value_t *value = mswea_json_read((mswea_string_t){deep, DEEP}, NULL);
    MSWEA_CHECK(mswea_text_or(mswea_at(value, 0), "").len == DEEP - 4);
    free(deep);
    // The largest allowed depth.
    mswea_text_t text = {0};
    for (int i = 0; i < MSWEA_DEPTH; i++) mswea_text_add(&text, mswea_str("["));
    for (int i = 0; i < MSWEA_DEPTH; i++) mswea_text_add(&text, mswea_str("]"));
    value = mswea_json_read(mswea_text_string(&text), NULL);
    MSWEA_CHECK(mswea_equal(mswea_json_write(value), mswea_text_string(&text)));
    // A value that contains itself is written down to some depth.
    mswea_value_t *circle = mswea_array();
    mswea_append(circle, circle);
    MSWEA_CHECK(mswea_json_write(circle).len > MSWEA_DEPTH);
}

// Changes, cuts off or doubles every byte of a JSON text: the text is read or refused, and no byte
// beyond its end is read.
static void broken_json_is_no_trouble(void) {
    static const char whole[] =
        "{\"a\":[1,-2.5e3,\"\\u00e4\\ud83d\\ude00\"],\"b\":{\"c\":null,\"d\":[true,false]}}";
    const size_t len = sizeof whole - 1;
    unsigned read = 0;
    for (size_t i = 0; i <= len; i++) {
        for (int byte = 0; byte < 256; byte++) {
            // A copy in memory of its own, so that the sanitizer finds reads beyond its end.
            uint8_t *copy = malloc(len);
            memcpy(copy, whole, len);
            if (i < len) copy[i] = (uint8_t)byte;
            read += mswea_json_read((mswea_string_t){copy, len}, NULL) != NULL;
            free(copy);
            copy = malloc(i ? i : 1);
            memcpy(copy, whole, i);
            read += mswea_json_read((mswea_string_t){copy, i}, NULL) != NULL;
            free(copy);
        }
        mswea_test_end_call();
    }
    MSWEA_CHECK(read > 256);
}

// ---- Strings -----------------------------------------------------------------------------

static void strings_keep_to_their_length(void) {
    mswea_string_t text = mswea_str("  äb\r\n\nc"), line, rest = text;
    MSWEA_CHECK_TEXT(mswea_slice(text, 2, 4), "ä");
    MSWEA_CHECK(mswea_slice(text, 9, 3).len == 0);
    MSWEA_CHECK(mswea_slice(text, 100, 200).len == 0);
    MSWEA_CHECK(mswea_slice((mswea_string_t){NULL, 0}, 0, 5).len == 0);
    MSWEA_CHECK_TEXT(mswea_trim(mswea_str(" \t a b\n ")), "a b");
    MSWEA_CHECK_TEXT(mswea_trim(mswea_str(" \n ")), "");
    MSWEA_CHECK(mswea_chars(mswea_str("äb€😀")) == 4);
    MSWEA_CHECK(mswea_char_at(mswea_str("äb€"), 1) == 2);
    MSWEA_CHECK(mswea_char_at(mswea_str("äb€"), 3) == 6);
    MSWEA_CHECK(mswea_char_at(mswea_str(""), 0) == 0);
    static const char *const lines[] = {"  äb", "", "c"};
    for (size_t i = 0; i < 3; i++) {
        MSWEA_CHECK(mswea_next_line(&rest, &line));
        MSWEA_CHECK_TEXT(line, lines[i]);
    }
    MSWEA_CHECK(!mswea_next_line(&rest, &line));
}

static void parts_are_found(void) {
    static const struct {
        const char *text, *part;
        size_t from, where;
    } cases[] = {
        {"aab", "ab", 0, 1}, {"aab", "ab", 2, MSWEA_NOWHERE}, {"", "", 0, 0},
        {"", "a", 0, MSWEA_NOWHERE}, {"abc", "", 3, 3}, {"abc", "", 4, MSWEA_NOWHERE},
        {"abc", "abcd", 0, MSWEA_NOWHERE}, {"aaab", "aab", 0, 1},
        {"abc", "c", (size_t)-1, MSWEA_NOWHERE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        MSWEA_CHECK(mswea_find(mswea_str(cases[i].text), mswea_str(cases[i].part),
                               cases[i].from) == cases[i].where);
}

static void lists_and_texts_grow(void) {
    mswea_actions_t list = {0};
    mswea_text_t text = {0};
    for (int i = 0; i < 1000; i++) {
        mswea_push(&list, ((mswea_action_t){.command = mswea_format("%d", i)}));
        mswea_text_format(&text, "%d,", i);
    }
    MSWEA_CHECK(list.len == 1000);
    MSWEA_CHECK_TEXT(list.ptr[999].command, "999");
    MSWEA_CHECK_TEXT(list.ptr[511].command, "511");
    MSWEA_CHECK(text.len == 10 * 2 + 90 * 3 + 900 * 4);
}

static void bytes_become_text(void) {
    static const struct {
        const char *bytes;
        size_t len;
        const char *text;
    } cases[] = {
        {"ä😀", 6, "ä😀"},
        {"a\xff", 2, "a\xef\xbf\xbd"},
        {"\xc3", 1, "\xef\xbf\xbd"},
        {"\xe2\x82", 2, "\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xed\xa0\x80", 3, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xc0\xaf", 2, "\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xf4\x90\x80\x80x", 5, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdx"},
        {"", 0, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mswea_buffer_t buffer = {0};
        mswea_buffer_add(&buffer, cases[i].bytes, cases[i].len);
        MSWEA_CHECK_TEXT(mswea_buffer_text(&buffer), cases[i].text);
        mswea_buffer_clear(&buffer);
    }
}

// ---- Calls and histories -----------------------------------------------------------------

static void what_configure_makes_lasts(void) {
    MSWEA_CHECK_OK(mswea_test_configure("{\"kept\": \"a\\u0062c\"}"));
    mswea_test_end_call();
    MSWEA_CHECK_TEXT(kept, "abc");
    mswea_plugin_error_t *error = mswea_test_configure("{\"bad\": 1}");
    MSWEA_CHECK(error);
    MSWEA_CHECK_TEXT(error->code, "invalid-config");
    MSWEA_CHECK_TEXT(error->message, "`bad` is bad");
    MSWEA_CHECK_TEXT(error->extra.val, "{\"pointer\":\"/bad\"}");
    mswea_string_t broken = mswea_str("{");
    mswea_plugin_error_t why;
    MSWEA_CHECK(!exports_mswea_plugin_configure(&broken, &why));
    MSWEA_CHECK_TEXT(why.code, "invalid-input");
}

static mswea_message_t rich(unsigned seed) {
    mswea_message_t message = mswea_message("assistant", mswea_format("text %u", seed));
    mswea_content_part_t part = {.tag = (uint8_t)(seed % 4)};
    switch (part.tag) {
    case MSWEA_CONTENT_PART_TEXT: part.val.text = mswea_str(""); break;
    case MSWEA_CONTENT_PART_IMAGE: part.val.image.url = mswea_format("data:%u", seed); break;
    case MSWEA_CONTENT_PART_REASONING: part.val.reasoning.text = mswea_str("because"); break;
    default:
        part.val.opaque.format = mswea_str("f");
        part.val.opaque.data = mswea_str("{}");
        part.val.opaque.extra = (mswea_option_json_t){true, mswea_str("{\"a\":1}")};
    }
    mswea_push(&message.content, part);
    mswea_tool_call_t call = {.id = mswea_format("id %u", seed), .arguments = mswea_str("{}")};
    mswea_push(&message.tool_calls, call);
    if (seed % 2) message.tool_call_id = (mswea_option_string_t){true, mswea_str("x")};
    if (seed % 3) message.extra = (mswea_option_json_t){true, mswea_str("{}")};
    return message;
}

static void a_history_outlives_the_call(void) {
    mswea_history_t history = {0};
    for (unsigned i = 0; i < 20; i++) {
        mswea_message_t message = rich(i);
        mswea_history_replace(&history, i, (mswea_messages_t){&message, 1});
        mswea_test_end_call();
    }
    // Messages of the same history, backwards: the replaced messages are still needed.
    mswea_messages_t all = {0};
    for (size_t i = history.len; i-- > 0;) mswea_push(&all, history.ptr[i]);
    mswea_history_replace(&history, 0, all);
    mswea_test_end_call();
    for (unsigned i = 0; i < 20; i++) {
        mswea_message_t message = rich(19 - i), other = rich(i);
        MSWEA_CHECK(mswea_message_equal(&history.ptr[i], &message));
        MSWEA_CHECK(!mswea_message_equal(&history.ptr[i], &other));
    }
    mswea_change_t beyond = {.start = 21};
    MSWEA_CHECK(!mswea_history_apply(&history, &beyond) && history.len == 20);
    mswea_history_clear(&history);
    free(history.ptr);
}

static mswea_string_t in_words(mswea_messages_t messages) {
    mswea_text_t text = {0};
    for (size_t i = 0; i < messages.len; i++)
        mswea_text_format(&text, "[%.*s]", MSWEA_ARG(mswea_message_text(&messages.ptr[i])));
    return mswea_text_string(&text);
}

// Random changes give the same view as the whole history, and only different messages are returned.
static void changes_are_as_good_as_the_whole(void) {
    MSWEA_CHECK_OK(mswea_test_configure("{}"));
    unsigned state = 1;
    mswea_history_t truth = {0};
    for (int round = 0; round < 500; round++) {
        mswea_change_t change = {0};
        state = state * 1103515245u + 12345u;
        change.start = (uint32_t)(truth.len ? (state >> 8) % (truth.len + 1) : 0);
        for (unsigned i = 0; i < (state >> 16) % 4; i++)
            mswea_push(&change.messages,
                       mswea_message("user", mswea_format("%s%u", state >> 20 & i ? "-" : "",
                                                          (state >> 4) % 7 + i)));
        mswea_history_apply(&truth, &change);
        mswea_string_t seen = in_words(mswea_test_apply(&change));
        mswea_messages_t expected = {0};
        MSWEA_CHECK_OK(plugin_process(mswea_history_messages(&truth), &expected));
        MSWEA_CHECK(mswea_equal(seen, in_words(expected)));
        mswea_test_end_call();
    }
    mswea_history_clear(&truth);
    free(truth.ptr);
}

static void a_processor_refuses_what_makes_no_sense(void) {
    mswea_processor_next_t next;
    mswea_plugin_error_t error = {0};
    mswea_change_t beyond = {.start = 4000000000u};
    MSWEA_CHECK(!exports_mswea_processor_apply(&beyond, &next, &error));
    MSWEA_CHECK_TEXT(error.code, "invalid-input");
    mswea_reply_t reply = mswea_test_reply("");
    MSWEA_CHECK(!exports_mswea_processor_resume(&reply, &next, &error));
    MSWEA_CHECK_TEXT(error.code, "unsupported");
    // After a failure the whole view is returned.
    mswea_change_t first = mswea_test_change(0, "user", "a", "user", "b", NULL);
    MSWEA_CHECK_TEXT(in_words(mswea_test_apply(&first)), "[a][b!]");
    mswea_change_t fail = mswea_test_change(2, "user", "fail", NULL);
    MSWEA_CHECK(!exports_mswea_processor_apply(&fail, &next, &error));
    mswea_change_t good = mswea_test_change(2, "user", "c", NULL);
    MSWEA_CHECK_TEXT(in_words(mswea_test_apply(&good)), "[a][b][c!]");
    MSWEA_CHECK(mswea_test_last_change().start == 0);
}

// ---- The host ----------------------------------------------------------------------------

static const char *render(mswea_string_t template_, mswea_string_t vars) {
    if (mswea_is(template_, "bad")) return NULL;
    return mswea_is(vars, "{\"a\":1}") ? "rendered" : "other";
}

static void the_host_is_doubled(void) {
    mswea_log(MSWEA_INFO, "%d apples", 3);
    MSWEA_CHECK_TEXT(mswea_test_log(), "3 apples");
    MSWEA_CHECK_TEXT(mswea_test_log(), "");
    mswea_string_t text = {0};
    MSWEA_CHECK(mswea_render(mswea_str("x"), mswea_object(), &text));
    mswea_test_set_render(render);
    mswea_value_t *vars = mswea_object();
    mswea_set(vars, "a", mswea_number(1));
    MSWEA_CHECK_OK(mswea_render(mswea_str("x"), vars, &text));
    MSWEA_CHECK_TEXT(text, "rendered");
    mswea_plugin_error_t *error = mswea_render(mswea_str("bad"), vars, &text);
    MSWEA_CHECK(error);
    MSWEA_CHECK_TEXT(error->code, "template");
}

int main(void) {
    MSWEA_RUN(good_json_is_read_and_written);
    MSWEA_RUN(bad_json_is_refused_with_its_place);
    MSWEA_RUN(escapes_are_read);
    MSWEA_RUN(asking_is_safe);
    MSWEA_RUN(an_extra_passes_on_what_it_does_not_know);
    MSWEA_RUN(json_that_is_deep_or_huge_is_no_trouble);
    MSWEA_RUN(broken_json_is_no_trouble);
    MSWEA_RUN(strings_keep_to_their_length);
    MSWEA_RUN(parts_are_found);
    MSWEA_RUN(lists_and_texts_grow);
    MSWEA_RUN(bytes_become_text);
    MSWEA_RUN(what_configure_makes_lasts);
    MSWEA_RUN(a_history_outlives_the_call);
    MSWEA_RUN(changes_are_as_good_as_the_whole);
    MSWEA_RUN(a_processor_refuses_what_makes_no_sense);
    MSWEA_RUN(the_host_is_doubled);
    return mswea_test_result();
}
