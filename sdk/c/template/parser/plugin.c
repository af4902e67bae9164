// Finds the commands in a reply: the lines that begin with a prompt.
#include "mswea.h"

static mswea_string_t prompt;

void plugin_describe(mswea_descriptor_t *it) {
    it->name = mswea_str("{{snake_name}}");
    it->version = mswea_str("0.1.0");
    it->summary = mswea_str("Runs the lines that begin with a prompt");
    it->config_schema = mswea_str(
        "{\"type\": \"object\", \"additionalProperties\": false, \"properties\": {"
        "  \"prompt\": {\"type\": \"string\", \"minLength\": 1, \"default\": \"$ \","
        "    \"description\": \"The beginning of a line with a command.\"}}}");
}

mswea_plugin_error_t *plugin_configure(const mswea_value_t *config) {
    prompt = mswea_text_or(mswea_get(config, "prompt"), "$ ");
    return NULL;
}

mswea_plugin_error_t *plugin_parse(const mswea_reply_t *reply, mswea_outcome_t *outcome) {
    mswea_string_t rest = mswea_message_text(&reply->message), line;
    bool found = false;
    while (mswea_next_line(&rest, &line)) {
        if (!mswea_starts_with(line, prompt)) continue;
        mswea_string_t command = mswea_slice(line, prompt.len, line.len);
        if (mswea_trim(command).len == 0) continue;
        mswea_add_action(outcome, command);
        found = true;
    }
    // Not an error of the plugin: the model gets this message and is queried again.
    if (!found)
        mswea_malformed(outcome, "no-command", "Begin a line with `%.*s` to run it.",
                        MSWEA_ARG(prompt));
    return NULL;
}
