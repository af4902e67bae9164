// Makes the values of the contract.
#include <string.h>

#include "mswea.h"

#define FORMATTED(text, last)                                                                     \
    mswea_string_t text;                                                                          \
    do {                                                                                          \
        va_list args;                                                                             \
        va_start(args, last);                                                                     \
        text = mswea_vformat(last, args);                                                         \
        va_end(args);                                                                             \
    } while (0)

// A copy of a word whose memory may belong to the caller.
static mswea_string_t word(const char *text) { return mswea_format("%s", text); }

mswea_plugin_error_t *mswea_error(const char *code, const char *format, ...) {
    FORMATTED(message, format);
    mswea_plugin_error_t *error = mswea_alloc(sizeof *error);
    error->code = word(code);
    error->message = message;
    return error;
}

mswea_plugin_error_t *mswea_config_error(const char *pointer, const char *format, ...) {
    FORMATTED(message, format);
    mswea_plugin_error_t *error = mswea_error("invalid-config", "%s", "");
    error->message = message;
    mswea_extra_set(&error->extra, "pointer", mswea_text(word(pointer)));
    return error;
}

mswea_model_error_t *mswea_model_error(const char *class_, const char *format, ...) {
    FORMATTED(message, format);
    mswea_model_error_t *error = mswea_alloc(sizeof *error);
    error->class_ = word(class_);
    error->message = message;
    return error;
}

void mswea_add_action(mswea_outcome_t *outcome, mswea_string_t command) {
    if (outcome->tag != EXPORTS_MSWEA_PARSER_OUTCOME_ACTIONS) return;
    mswea_action_t action = {.command = command};
    mswea_push(&outcome->val.actions, action);
}

void mswea_add_call(mswea_outcome_t *outcome, mswea_string_t command, mswea_string_t id) {
    if (outcome->tag != EXPORTS_MSWEA_PARSER_OUTCOME_ACTIONS) return;
    mswea_action_t action = {.command = command, .tool_call_id = {true, id}};
    mswea_push(&outcome->val.actions, action);
}

mswea_problem_t *mswea_malformed(mswea_outcome_t *outcome, const char *code, const char *format,
                                 ...) {
    FORMATTED(message, format);
    memset(outcome, 0, sizeof *outcome);
    outcome->tag = EXPORTS_MSWEA_PARSER_OUTCOME_MALFORMED;
    outcome->val.malformed.code = word(code);
    outcome->val.malformed.message = message;
    return &outcome->val.malformed;
}

mswea_tool_t mswea_tool(const char *name, const char *description, const char *parameters) {
    return (mswea_tool_t){
        .name = word(name), .description = word(description), .parameters = word(parameters)};
}

void mswea_allow(mswea_verdict_t *verdict) {
    memset(verdict, 0, sizeof *verdict);
    verdict->tag = EXPORTS_MSWEA_POLICY_VERDICT_ALLOW;
}

void mswea_deny(mswea_verdict_t *verdict, const char *code, const char *format, ...) {
    FORMATTED(message, format);
    memset(verdict, 0, sizeof *verdict);
    verdict->tag = EXPORTS_MSWEA_POLICY_VERDICT_DENY;
    verdict->val.deny = (mswea_objection_t){.code = word(code), .message = message};
}

void mswea_ask(mswea_verdict_t *verdict, const char *code, const char *format, ...) {
    FORMATTED(message, format);
    memset(verdict, 0, sizeof *verdict);
    verdict->tag = EXPORTS_MSWEA_POLICY_VERDICT_ASK;
    verdict->val.ask = (mswea_objection_t){.code = word(code), .message = message};
}

void mswea_rewrite(mswea_verdict_t *verdict, const mswea_action_t *action,
                   mswea_string_t command) {
    memset(verdict, 0, sizeof *verdict);
    verdict->tag = EXPORTS_MSWEA_POLICY_VERDICT_REWRITE;
    verdict->val.rewrite = *action;
    verdict->val.rewrite.command = command;
}

mswea_message_t mswea_message(const char *role, mswea_string_t text) {
    mswea_message_t message = {.role = word(role)};
    mswea_set_text(&message, text);
    return message;
}

mswea_message_t mswea_answer(const mswea_action_t *action, mswea_string_t text) {
    mswea_message_t message = mswea_message(action->tool_call_id.is_some ? "tool" : "user", text);
    message.tool_call_id = action->tool_call_id;
    return message;
}

mswea_string_t mswea_message_text(const mswea_message_t *message) {
    mswea_text_t text = {0};
    for (size_t i = 0; i < message->content.len; i++) {
        const mswea_content_part_t *part = &message->content.ptr[i];
        if (part->tag != MSWEA_CONTENT_PART_TEXT) continue;
        // Nearly every message has one part.
        if (message->content.len == 1) return part->val.text;
        mswea_text_add(&text, part->val.text);
    }
    return mswea_text_string(&text);
}

void mswea_set_text(mswea_message_t *message, mswea_string_t text) {
    mswea_content_part_t part = {.tag = MSWEA_CONTENT_PART_TEXT};
    part.val.text = text;
    message->content.ptr = NULL;
    message->content.len = 0;
    mswea_push(&message->content, part);
}

void mswea_header(mswea_http_request_t *request, const char *name, mswea_string_t value) {
    mswea_header_t header = {.name = word(name)};
    header.value.tag = EXPORTS_MSWEA_ADAPTER_HEADER_VALUE_PLAIN;
    header.value.val.plain = value;
    mswea_push(&request->headers, header);
}

void mswea_secret_header(mswea_http_request_t *request, const char *name, const char *prefix,
                         mswea_string_t secret) {
    mswea_header_t header = {.name = word(name)};
    header.value.tag = EXPORTS_MSWEA_ADAPTER_HEADER_VALUE_SECRET;
    header.value.val.secret.name = secret;
    header.value.val.secret.prefix = word(prefix);
    mswea_push(&request->headers, header);
}
