// Shortens old messages: all but the latest show only their beginning.
#include "mswea.h"

static size_t keep, max_chars;

void plugin_describe(mswea_descriptor_t *it) {
    it->name = mswea_str("{{snake_name}}");
    it->version = mswea_str("0.1.0");
    it->summary = mswea_str("Shortens all but the latest messages");
    it->config_schema = mswea_str(
        "{\"type\": \"object\", \"additionalProperties\": false, \"properties\": {"
        "  \"keep\": {\"type\": \"integer\", \"minimum\": 0, \"maximum\": 1000000000,"
        "    \"default\": 10, \"description\": \"How many of the latest messages stay whole.\"},"
        "  \"max_chars\": {\"type\": \"integer\", \"minimum\": 0, \"maximum\": 1000000000,"
        "    \"default\": 2000, \"description\": \"The most characters of an older message.\"}}}");
}

mswea_plugin_error_t *plugin_configure(const mswea_value_t *config) {
    keep = (size_t)mswea_int_or(mswea_get(config, "keep"), 10);
    max_chars = (size_t)mswea_int_or(mswea_get(config, "max_chars"), 2000);
    return NULL;
}

static mswea_message_t shortened(mswea_message_t message) {
    mswea_string_t text = mswea_message_text(&message);
    size_t end = mswea_char_at(text, max_chars);
    // The model's replies stay whole.
    bool is_output = mswea_is(message.role, "user") || mswea_is(message.role, "tool");
    if (!is_output || end == text.len) return message;
    mswea_text_t shorter = {0};
    mswea_text_add(&shorter, mswea_slice(text, 0, end));
    mswea_text_add(&shorter, mswea_str(" [shortened]"));
    mswea_set_text(&message, mswea_text_string(&shorter));
    return message;
}

mswea_plugin_error_t *plugin_process(mswea_messages_t history, mswea_messages_t *view) {
    size_t old = history.len > keep ? history.len - keep : 0;
    for (size_t i = 0; i < history.len; i++) {
        mswea_message_t message = history.ptr[i];
        // The first two are the system's message and the task.
        mswea_push(view, i >= 2 && i < old ? shortened(message) : message);
    }
    return NULL;
}
