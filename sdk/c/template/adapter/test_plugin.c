#include <string.h>

#include "testing.h"

static void configure(void) {
    MSWEA_CHECK_OK(mswea_test_configure("{\"model\": \"m\", \"base_url\": \"http://h/v1/\"}"));
}

static mswea_model_error_t *answer(uint16_t status, const char *body, mswea_adapter_next_t *next) {
    mswea_tuple2_string_string_t header = {mswea_str("retry-after"), mswea_str("2")};
    plugin_head(status, (mswea_headers_t){&header, 1});
    for (size_t i = 0; i < strlen(body); i++) {
        mswea_deltas_t deltas = {0};
        plugin_feed((mswea_bytes_t){(uint8_t *)body + i, 1}, &deltas);
        // The host passes each piece in a call of its own.
        mswea_test_end_call();
    }
    memset(next, 0, sizeof *next);
    return plugin_finish(next);
}

static void the_request_has_the_history_and_the_tools(void) {
    configure();
    mswea_change_t change = mswea_test_change(0, "user", "hi", NULL);
    mswea_request_t request = {0};
    mswea_push(&request.tools, mswea_tool("bash", "runs", "{\"type\": \"object\"}"));
    mswea_adapter_next_t next = {0};
    MSWEA_CHECK(!plugin_query(&change, &request, &next));
    MSWEA_CHECK_TEXT(next.val.send.url, "http://h/v1/chat/completions");
    mswea_string_t body = {next.val.send.body.ptr, next.val.send.body.len};
    MSWEA_CHECK_TEXT(body, "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],"
                           "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"bash\","
                           "\"description\":\"runs\",\"parameters\":{\"type\":\"object\"}}}]}");
    // The header has the key's name, not the key.
    MSWEA_CHECK(next.val.send.headers.len == 2);
    MSWEA_CHECK_TEXT(next.val.send.headers.ptr[1].value.val.secret.name, "OPENAI_API_KEY");
}

static void an_answer_becomes_a_reply(void) {
    configure();
    mswea_adapter_next_t next;
    MSWEA_CHECK(!answer(200,
                        "{\"model\": \"m-1\", \"choices\": [{\"message\": {\"content\": \"ähm\","
                        "\"tool_calls\": [{\"id\": \"1\", \"function\": {\"name\": \"bash\","
                        "\"arguments\": \"{}\"}}]}}], \"usage\": {\"prompt_tokens\": 7}}",
                        &next));
    const mswea_reply_t *reply = &next.val.reply;
    MSWEA_CHECK_TEXT(mswea_message_text(&reply->message), "ähm");
    MSWEA_CHECK(reply->message.tool_calls.len == 1);
    MSWEA_CHECK_TEXT(reply->message.tool_calls.ptr[0].name, "bash");
    MSWEA_CHECK(reply->usage.val.input_tokens == 7);
}

static void errors_have_classes(void) {
    configure();
    static const struct {
        uint16_t status;
        const char *body, *class_;
    } cases[] = {
        {401, "no", "authentication"},     {429, "slow", "rate-limited"},
        {503, "", "overloaded"},           {400, "{}", "bad-request"},
        {200, "{}", "malformed-response"}, {200, "<html>", "malformed-response"},
        {200, "", "malformed-response"},   {200, "\xff", "malformed-response"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mswea_adapter_next_t next;
        mswea_model_error_t *error = answer(cases[i].status, cases[i].body, &next);
        MSWEA_CHECK(error);
        if (error) MSWEA_CHECK_TEXT(error->class_, cases[i].class_);
        if (error && cases[i].status == 429) MSWEA_CHECK(error->retry_after_ms.val == 2000);
    }
}

int main(void) {
    MSWEA_RUN(the_request_has_the_history_and_the_tools);
    MSWEA_RUN(an_answer_becomes_a_reply);
    MSWEA_RUN(errors_have_classes);
    return mswea_test_result();
}
