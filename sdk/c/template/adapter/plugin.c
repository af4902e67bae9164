// A simple adapter for servers of chat completions: complete answers, text and tool calls. Replace
// `body` and `read_reply` by your server's format.
#include "mswea.h"

static mswea_string_t model, base_url;
static const mswea_value_t *api_key, *model_kwargs;
static mswea_history_t history;
static uint16_t status;
static uint64_t retry_after_ms;
static mswea_buffer_t answer;

void plugin_describe(mswea_descriptor_t *it) {
    it->name = mswea_str("{{snake_name}}");
    it->version = mswea_str("0.1.0");
    it->summary = mswea_str("Chat completions, without streams");
    it->config_schema = mswea_str(
        "{\"type\": \"object\", \"required\": [\"model\"], \"properties\": {"
        "  \"model\": {\"type\": \"string\", \"description\": \"The model's name.\"},"
        "  \"base_url\": {\"type\": \"string\", \"default\": \"https://api.openai.com/v1\","
        "    \"description\": \"The base URL of the server's API.\"},"
        "  \"api_key\": {\"type\": [\"string\", \"null\"], \"default\": \"OPENAI_API_KEY\","
        "    \"description\": \"The NAME of the secret; empty for servers that need none.\"},"
        "  \"model_kwargs\": {\"type\": \"object\", \"default\": {},"
        "    \"description\": \"Further parameters of the model.\"}}}");
    mswea_push(&it->secrets, mswea_str("OPENAI_API_KEY"));
    mswea_push(&it->hosts, mswea_str("api.openai.com"));
}

mswea_plugin_error_t *plugin_configure(const mswea_value_t *config) {
    model = mswea_text_or(mswea_get(config, "model"), "");
    base_url = mswea_text_or(mswea_get(config, "base_url"), "");
    while (base_url.len && base_url.ptr[base_url.len - 1] == '/') base_url.len--;
    api_key = mswea_get(config, "api_key");
    model_kwargs = mswea_get(config, "model_kwargs");
    return NULL;
}

// ---- Requests ------------------------------------------------------------------

static mswea_value_t *function(const char *id, mswea_value_t *it) {
    mswea_value_t *outer = mswea_object();
    if (id) mswea_set(outer, "id", mswea_text(mswea_str(id)));
    mswea_set(outer, "type", mswea_text(mswea_str("function")));
    mswea_set(outer, "function", it);
    return outer;
}

static mswea_value_t *encode(const mswea_message_t *message) {
    mswea_value_t *encoded = mswea_object();
    mswea_set(encoded, "role", mswea_text(message->role));
    mswea_set(encoded, "content", mswea_text(mswea_message_text(message)));
    mswea_value_t *calls = mswea_array();
    for (size_t i = 0; i < message->tool_calls.len; i++) {
        const mswea_tool_call_t *call = &message->tool_calls.ptr[i];
        mswea_value_t *it = mswea_object();
        mswea_set(it, "name", mswea_text(call->name));
        mswea_set(it, "arguments", mswea_text(call->arguments));
        mswea_append(calls, function(mswea_cstr(call->id), it));
    }
    if (mswea_len(calls)) mswea_set(encoded, "tool_calls", calls);
    if (message->tool_call_id.is_some)
        mswea_set(encoded, "tool_call_id", mswea_text(message->tool_call_id.val));
    return encoded;
}

static mswea_string_t body(const mswea_request_t *request) {
    mswea_value_t *all = mswea_object(), *messages = mswea_array(), *tools = mswea_array();
    mswea_set(all, "model", mswea_text(model));
    for (size_t i = 0; i < history.len; i++) mswea_append(messages, encode(&history.ptr[i]));
    mswea_set(all, "messages", messages);
    for (size_t i = 0; i < request->tools.len; i++) {
        const mswea_tool_t *tool = &request->tools.ptr[i];
        mswea_value_t *it = mswea_object();
        mswea_set(it, "name", mswea_text(tool->name));
        mswea_set(it, "description", mswea_text(tool->description));
        mswea_set(it, "parameters", mswea_json_read(tool->parameters, NULL));
        mswea_append(tools, function(NULL, it));
    }
    if (mswea_len(tools)) mswea_set(all, "tools", tools);
    for (size_t i = 0; i < mswea_len(model_kwargs); i++)
        mswea_set(all, mswea_cstr(mswea_key_at(model_kwargs, i)), mswea_value_at(model_kwargs, i));
    return mswea_json_write(all);
}

mswea_model_error_t *plugin_query(const mswea_change_t *change, const mswea_request_t *request,
                                  mswea_adapter_next_t *next) {
    if (!mswea_history_apply(&history, change))
        return mswea_model_error("bad-request",
                                 "the host's change begins after the end of the known history");
    next->tag = EXPORTS_MSWEA_ADAPTER_NEXT_SEND;
    mswea_http_request_t *http = &next->val.send;
    http->method = mswea_str("POST");
    http->url = mswea_format("%.*s/chat/completions", MSWEA_ARG(base_url));
    mswea_header(http, "content-type", mswea_str("application/json"));
    // The plugin never gets a key: the host fills it in, for granted hosts.
    if (mswea_text_or(api_key, "").len > 0)
        mswea_secret_header(http, "authorization", "Bearer ", mswea_text_or(api_key, ""));
    mswea_string_t text = body(request);
    http->body.ptr = text.ptr;
    http->body.len = text.len;
    return NULL;
}

// ---- Responses ------------------------------------------------------------------

void plugin_head(uint16_t status_, mswea_headers_t headers) {
    status = status_;
    retry_after_ms = 0;
    for (size_t i = 0; i < headers.len; i++) {
        if (!mswea_is(headers.ptr[i].f0, "retry-after")) continue;
        const mswea_value_t *seconds = mswea_json_read(headers.ptr[i].f1, NULL);
        int64_t count = mswea_int_or(seconds, 0);
        if (count > 0 && count < 1000000) retry_after_ms = (uint64_t)count * 1000;
    }
    // A request may be sent again: the bytes of the earlier response are discarded.
    mswea_buffer_clear(&answer);
}

void plugin_feed(mswea_bytes_t bytes, mswea_deltas_t *deltas) {
    (void)deltas;
    mswea_buffer_add(&answer, bytes.ptr, bytes.len);
}

static mswea_string_t word(const mswea_value_t *object, const char *key) {
    return mswea_text_or(mswea_get(object, key), "");
}

static void read_reply(const mswea_value_t *it, const mswea_value_t *choice, mswea_reply_t *reply) {
    const mswea_value_t *message = mswea_get(choice, "message");
    reply->message.role = mswea_str("assistant");
    mswea_string_t text = word(message, "content");
    if (text.len) mswea_set_text(&reply->message, text);
    const mswea_value_t *calls = mswea_get(message, "tool_calls");
    for (size_t i = 0; i < mswea_len(calls); i++) {
        const mswea_value_t *call = mswea_at(calls, i), *inner = mswea_get(call, "function");
        mswea_tool_call_t made = {.id = word(call, "id"),
                                  .name = word(inner, "name"),
                                  .arguments = word(inner, "arguments")};
        mswea_push(&reply->message.tool_calls, made);
    }
    reply->finish_reason = word(choice, "finish_reason");
    reply->model = word(it, "model");
    const mswea_value_t *usage = mswea_get(it, "usage");
    reply->usage.is_some = mswea_type(usage) == MSWEA_OBJECT;
    int64_t input = mswea_int_or(mswea_get(usage, "prompt_tokens"), 0);
    int64_t output = mswea_int_or(mswea_get(usage, "completion_tokens"), 0);
    reply->usage.val.input_tokens = input > 0 ? (uint64_t)input : 0;
    reply->usage.val.output_tokens = output > 0 ? (uint64_t)output : 0;
    reply->response = (mswea_option_json_t){true, mswea_json_write(it)};
}

// The class tells the host whether to retry.
static const char *class_of(uint16_t code) {
    switch (code) {
    case 401: return "authentication";
    case 403: return "permission";
    case 404: return "not-found";
    case 429: return "rate-limited";
    default: return code >= 500 ? "overloaded" : "bad-request";
    }
}

mswea_model_error_t *plugin_finish(mswea_adapter_next_t *next) {
    mswea_string_t text = mswea_buffer_text(&answer);
    mswea_string_t start = mswea_slice(text, 0, mswea_char_at(text, 500));
    mswea_buffer_clear(&answer);
    if (status < 200 || status > 299) {
        mswea_model_error_t *error =
            mswea_model_error(class_of(status), "the server answered with status %d: %.*s",
                              (int)status, MSWEA_ARG(start));
        error->retry_after_ms.is_some = retry_after_ms > 0;
        error->retry_after_ms.val = retry_after_ms;
        return error;
    }
    const char *why = "";
    const mswea_value_t *it = mswea_json_read(text, &why);
    if (!it)
        return mswea_model_error("malformed-response", "the answer is no JSON (%s): %.*s", why,
                                 MSWEA_ARG(start));
    const mswea_value_t *choice = mswea_at(mswea_get(it, "choices"), 0);
    if (mswea_type(mswea_get(choice, "message")) != MSWEA_OBJECT)
        return mswea_model_error("malformed-response",
                                 "the answer has no `choices[0].message`: %.*s", MSWEA_ARG(start));
    next->tag = EXPORTS_MSWEA_ADAPTER_NEXT_REPLY;
    read_reply(it, choice, &next->val.reply);
    return NULL;
}
