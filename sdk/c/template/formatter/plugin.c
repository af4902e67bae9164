// Makes messages from outputs: the exit code, then the output, without its middle if it is long.
#include "mswea.h"

static size_t max_chars;

void plugin_describe(mswea_descriptor_t *it) {
    it->name = mswea_str("{{snake_name}}");
    it->version = mswea_str("0.1.0");
    it->summary = mswea_str("Shows the exit code and the ends of the output");
    it->config_schema = mswea_str(
        "{\"type\": \"object\", \"additionalProperties\": false, \"properties\": {"
        "  \"max_chars\": {\"type\": \"integer\", \"minimum\": 2, \"maximum\": 1000000000,"
        "    \"default\": 10000,"
        "    \"description\": \"The most characters of an output that the model gets.\"}}}");
}

mswea_plugin_error_t *plugin_configure(const mswea_value_t *config) {
    max_chars = (size_t)mswea_int_or(mswea_get(config, "max_chars"), 10000);
    return NULL;
}

static mswea_string_t in_words(const mswea_output_t *output) {
    mswea_text_t text = {0};
    mswea_text_format(&text, "exit code %d\n", (int)output->returncode);
    if (output->exception_info.len) {
        mswea_text_add(&text, output->exception_info);
        mswea_text_add(&text, mswea_str("\n"));
    }
    size_t chars = mswea_chars(output->output), half = max_chars / 2;
    if (chars <= max_chars) {
        mswea_text_add(&text, output->output);
        return mswea_text_string(&text);
    }
    // Cut between characters, not between bytes.
    size_t head = mswea_char_at(output->output, half);
    size_t tail = mswea_char_at(output->output, chars - half);
    mswea_text_add(&text, mswea_slice(output->output, 0, head));
    mswea_text_format(&text, "\n[%zu characters left out]\n", chars - 2 * half);
    mswea_text_add(&text, mswea_slice(output->output, tail, output->output.len));
    return mswea_text_string(&text);
}

mswea_plugin_error_t *plugin_format(mswea_actions_t actions, mswea_outputs_t outputs,
                                    mswea_messages_t *messages) {
    for (size_t i = 0; i < actions.len && i < outputs.len; i++)
        mswea_push(messages, mswea_answer(&actions.ptr[i], in_words(&outputs.ptr[i])));
    return NULL;
}
