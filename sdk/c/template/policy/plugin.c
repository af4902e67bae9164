// Judges commands by their text: denies some, and has the user asked about others.
#include "mswea.h"

static const mswea_value_t *deny, *ask;

void plugin_describe(mswea_descriptor_t *it) {
    it->name = mswea_str("{{snake_name}}");
    it->version = mswea_str("0.1.0");
    it->summary = mswea_str("Denies commands, or asks, by their text");
    it->config_schema = mswea_str(
        "{\"type\": \"object\", \"additionalProperties\": false, \"properties\": {"
        "  \"deny\": {\"type\": \"array\", \"items\": {\"type\": \"string\", \"minLength\": 1},"
        "    \"default\": [\"git push --force\"],"
        "    \"description\": \"Commands with one of these are not run.\"},"
        "  \"ask\": {\"type\": \"array\", \"items\": {\"type\": \"string\", \"minLength\": 1},"
        "    \"default\": [\"git push\"],"
        "    \"description\": \"The user is asked before commands with one of these run.\"}}}");
}

mswea_plugin_error_t *plugin_configure(const mswea_value_t *config) {
    // The config's values are valid as long as the instance.
    deny = mswea_get(config, "deny");
    ask = mswea_get(config, "ask");
    return NULL;
}

// The first of the words that the command contains; an empty text if it contains none.
static mswea_string_t found(const mswea_value_t *words, mswea_string_t command) {
    for (size_t i = 0; i < mswea_len(words); i++) {
        mswea_string_t word = mswea_text_or(mswea_at(words, i), "");
        if (word.len && mswea_find(command, word, 0) != MSWEA_NOWHERE) return word;
    }
    return mswea_str("");
}

mswea_plugin_error_t *plugin_judge(const mswea_action_t *action, mswea_verdict_t *verdict) {
    mswea_string_t word = found(deny, action->command);
    if (word.len) {
        mswea_deny(verdict, "denied", "Commands with `%.*s` are not run here.", MSWEA_ARG(word));
        return NULL;
    }
    word = found(ask, action->command);
    if (word.len) mswea_ask(verdict, "ask", "The command contains `%.*s`.", MSWEA_ARG(word));
    return NULL;
}
