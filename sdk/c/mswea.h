// What a plugin for mswea-host is written with, in C. README.md has the tour.
//
// You define the functions called `plugin_*` that your kind wants; the SDK defines everything
// called `mswea_*`. The values (messages, actions, replies, ...) are in bindings/types.h, made from
// the contract, with its documentation.
//
// MEMORY. There is nothing to free.
//  - What you are handed, and what `mswea_*` functions make, lives until the call ends. Then all of
//    it goes at once.
//  - Within `plugin_configure` it lives as long as the plugin does: keep pointers into the config.
//  - So never keep a pointer from another call. What has to last goes into a `mswea_history_t` or a
//    `mswea_buffer_t`, which have memory of their own.
//  - Out of memory ends the call as a fault of the plugin, which the host contains; nothing here
//    returns NULL for want of memory.
#ifndef MSWEA_H
#define MSWEA_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bindings/types.h"

#if defined(__GNUC__) || defined(__clang__)
#define MSWEA_FORMAT(text, first) __attribute__((format(printf, text, first)))
#else
#define MSWEA_FORMAT(text, first)
#endif

// ---- The names of the values of each kind --------------------------------------------------

typedef exports_mswea_plugin_descriptor_t mswea_descriptor_t;

typedef mswea_list_message_t mswea_messages_t;
typedef exports_mswea_formatter_list_action_t mswea_actions_t;
typedef exports_mswea_formatter_list_output_t mswea_outputs_t;

typedef exports_mswea_parser_list_tool_t mswea_tools_t;
typedef exports_mswea_parser_outcome_t mswea_outcome_t;
typedef exports_mswea_parser_problem_t mswea_problem_t;

typedef exports_mswea_policy_verdict_t mswea_verdict_t;
typedef exports_mswea_policy_objection_t mswea_objection_t;

typedef exports_mswea_processor_next_t mswea_processor_next_t;
typedef exports_mswea_processor_query_t mswea_query_t;

typedef exports_mswea_adapter_next_t mswea_adapter_next_t;
typedef exports_mswea_adapter_request_t mswea_request_t;
typedef exports_mswea_adapter_http_request_t mswea_http_request_t;
typedef exports_mswea_adapter_header_t mswea_header_t;
typedef exports_mswea_adapter_delta_t mswea_delta_t;
typedef exports_mswea_adapter_list_delta_t mswea_deltas_t;
typedef exports_mswea_adapter_model_error_t mswea_model_error_t;
typedef mswea_list_tuple2_string_string_t mswea_headers_t;
typedef mswea_list_u8_t mswea_bytes_t;

// A JSON value; see below.
typedef struct mswea_value mswea_value_t;

// ---- What you define -----------------------------------------------------------------------
// A function that can fail returns NULL, or an error from `mswea_error`. Results come zeroed: what
// you leave alone is empty.

// Every plugin: who it is. Called at any time; the answer never changes.
void plugin_describe(mswea_descriptor_t *it);
// Every plugin: its config, an object that fits the schema and has its defaults filled in. Called
// once, first.
mswea_plugin_error_t *plugin_configure(const mswea_value_t *config);

// KIND = parser: the actions in a reply (`mswea_add_action`), or what the model did wrong
// (`mswea_malformed`).
mswea_plugin_error_t *plugin_parse(const mswea_reply_t *reply, mswea_outcome_t *outcome);
// KIND = parser, if you like: the tools that the model is told about.
void plugin_tools(mswea_tools_t *tools);

// KIND = formatter: outputs as messages. `outputs.ptr[i]` belongs to `actions.ptr[i]`; there may be
// fewer outputs than actions. An action with a `tool_call_id` has to be answered by a message of
// role `tool` with it.
mswea_plugin_error_t *plugin_format(mswea_actions_t actions, mswea_outputs_t outputs,
                                    mswea_messages_t *messages);

// KIND = simple_processor: the view of the whole history. The same history always has to give the
// same view. The SDK keeps the history and sends back only what differs.
mswea_plugin_error_t *plugin_process(mswea_messages_t history, mswea_messages_t *view);

// KIND = processor: the protocol itself, for those who want each step to cost only what is new in
// it, or who ask the model. `mswea_history_t` keeps what has to be kept.
mswea_plugin_error_t *plugin_apply(const mswea_change_t *change, mswea_processor_next_t *next);
// KIND = processor, if it asks: the model's answer.
mswea_plugin_error_t *plugin_resume(const mswea_reply_t *reply, mswea_processor_next_t *next);

// KIND = policy: judges an action. A zeroed verdict allows; see `mswea_deny` and its like.
mswea_plugin_error_t *plugin_judge(const mswea_action_t *action, mswea_verdict_t *verdict);

// KIND = adapter: the state machine of wit/model-adapter.wit.
mswea_model_error_t *plugin_query(const mswea_change_t *change, const mswea_request_t *request,
                                  mswea_adapter_next_t *next);
void plugin_head(uint16_t status, mswea_headers_t headers);
void plugin_feed(mswea_bytes_t bytes, mswea_deltas_t *deltas);
mswea_model_error_t *plugin_finish(mswea_adapter_next_t *next);

// ---- Memory --------------------------------------------------------------------------------

// Zeroed memory that lives until the call ends.
void *mswea_alloc(size_t size);

// Appends a copy of `item` to a list (anything with `ptr` and `len`) that began empty.
#define mswea_push(list, item)                                                                    \
    ((list)->ptr = mswea_grown((list)->ptr, (list)->len, sizeof *(list)->ptr),                    \
     (list)->ptr[(list)->len++] = (item))

// For `mswea_push`.
void *mswea_grown(void *ptr, size_t len, size_t size);

// ---- Strings -------------------------------------------------------------------------------
// A string is a pointer and a length: UTF-8, not ended by NUL, and it may have NULs in it. An
// empty one may have any pointer.

// For `printf` and its like: `"%.*s", MSWEA_ARG(text)`.
#define MSWEA_ARG(text) (int)(text).len, (text).len ? (const char *)(text).ptr : ""

// The text of a C string, without a copy of it.
mswea_string_t mswea_str(const char *text);
// `mswea_str` for places where C wants a constant.
#define MSWEA_STR(literal) {(uint8_t *)(literal), sizeof(literal) - 1}
// A text from a format.
mswea_string_t mswea_format(const char *format, ...) MSWEA_FORMAT(1, 2);
mswea_string_t mswea_vformat(const char *format, va_list args);
// A C string of a text; what follows a NUL in it is lost.
const char *mswea_cstr(mswea_string_t text);
// The part from `start` to before `end`; both are cut to the text's length.
mswea_string_t mswea_slice(mswea_string_t text, size_t start, size_t end);
bool mswea_equal(mswea_string_t a, mswea_string_t b);
bool mswea_is(mswea_string_t text, const char *other);
bool mswea_starts_with(mswea_string_t text, mswea_string_t prefix);
// Where `part` begins in `text` from `from` on; MSWEA_NOWHERE if it does not.
size_t mswea_find(mswea_string_t text, mswea_string_t part, size_t from);
#define MSWEA_NOWHERE ((size_t)-1)
// Without white space (of ASCII) at its ends.
mswea_string_t mswea_trim(mswea_string_t text);
// Takes the next line off `rest`, without its end; false if nothing is left.
bool mswea_next_line(mswea_string_t *rest, mswea_string_t *line);
// How many characters (not bytes) it has.
size_t mswea_chars(mswea_string_t text);
// Where character number `chars` begins; the text's length if it has fewer. Cut there, and no
// character is cut in two.
size_t mswea_char_at(mswea_string_t text, size_t chars);

// A text that grows.
typedef struct {
    uint8_t *ptr;
    size_t len, room;
} mswea_text_t;
void mswea_text_add(mswea_text_t *text, mswea_string_t more);
void mswea_text_format(mswea_text_t *text, const char *format, ...) MSWEA_FORMAT(2, 3);
mswea_string_t mswea_text_string(const mswea_text_t *text);

// ---- JSON ----------------------------------------------------------------------------------

typedef enum {
    MSWEA_NULL,
    MSWEA_BOOL,
    MSWEA_NUMBER,
    MSWEA_TEXT,
    MSWEA_ARRAY,
    MSWEA_OBJECT,
} mswea_type_t;

// How deep JSON may be nested.
#define MSWEA_DEPTH 200

// Reads JSON. NULL if it is none; then `why`, unless it is NULL, says what is wrong and where. An
// escaped half of a surrogate pair, which UTF-8 has no bytes for, is read as U+FFFD.
const mswea_value_t *mswea_json_read(mswea_string_t json, const char **why);
// Writes JSON. Numbers that were read are written as they stood.
mswea_string_t mswea_json_write(const mswea_value_t *value);

// Asking is safe: whatever is not there is `null`, and a value of another type is `otherwise`.
mswea_type_t mswea_type(const mswea_value_t *value);
const mswea_value_t *mswea_get(const mswea_value_t *object, const char *key);
bool mswea_has(const mswea_value_t *object, const char *key);
const mswea_value_t *mswea_at(const mswea_value_t *array, size_t index);
// The length of an array or an object, else 0.
size_t mswea_len(const mswea_value_t *value);
// The key and the value of an object's entry.
mswea_string_t mswea_key_at(const mswea_value_t *object, size_t index);
const mswea_value_t *mswea_value_at(const mswea_value_t *object, size_t index);
mswea_string_t mswea_text_or(const mswea_value_t *value, const char *otherwise);
double mswea_number_or(const mswea_value_t *value, double otherwise);
// Rounded towards zero; what an `int64_t` can't hold is `otherwise`.
int64_t mswea_int_or(const mswea_value_t *value, int64_t otherwise);
bool mswea_bool_or(const mswea_value_t *value, bool otherwise);

mswea_value_t *mswea_null(void);
mswea_value_t *mswea_bool(bool value);
mswea_value_t *mswea_number(double value);
mswea_value_t *mswea_text(mswea_string_t value);
mswea_value_t *mswea_array(void);
mswea_value_t *mswea_object(void);
void mswea_append(mswea_value_t *array, const mswea_value_t *value);
// Sets a key of an object; takes the place of what it had.
void mswea_set(mswea_value_t *object, const char *key, const mswea_value_t *value);

// The key of an `extra`.
const mswea_value_t *mswea_extra_get(mswea_option_json_t extra, const char *key);
// Sets a key of an `extra`, and passes on the others. An `extra` that can't be read stays as it is.
void mswea_extra_set(mswea_option_json_t *extra, const char *key, const mswea_value_t *value);

// ---- Making values -------------------------------------------------------------------------

// An error for the user or for you: `invalid-config`, `invalid-input`, `unsupported`, `internal`,
// or a code of your own. What the model did wrong is no error, see `mswea_malformed`.
mswea_plugin_error_t *mswea_error(const char *code, const char *format, ...) MSWEA_FORMAT(2, 3);
// `invalid-config`, with the JSON pointer of the value that is wrong (`/patterns/0`).
mswea_plugin_error_t *mswea_config_error(const char *pointer, const char *format, ...)
    MSWEA_FORMAT(2, 3);
// An error of an adapter, of one of the classes in wit/model-adapter.wit.
mswea_model_error_t *mswea_model_error(const char *class_, const char *format, ...)
    MSWEA_FORMAT(2, 3);

// Parsers.
void mswea_add_action(mswea_outcome_t *outcome, mswea_string_t command);
// With the id of the tool call that asked for it.
void mswea_add_call(mswea_outcome_t *outcome, mswea_string_t command, mswea_string_t id);
// What the model did wrong, for the model to read. Takes the place of actions.
mswea_problem_t *mswea_malformed(mswea_outcome_t *outcome, const char *code, const char *format,
                                 ...) MSWEA_FORMAT(3, 4);
mswea_tool_t mswea_tool(const char *name, const char *description, const char *parameters);

// Policies.
void mswea_allow(mswea_verdict_t *verdict);
void mswea_deny(mswea_verdict_t *verdict, const char *code, const char *format, ...)
    MSWEA_FORMAT(3, 4);
void mswea_ask(mswea_verdict_t *verdict, const char *code, const char *format, ...)
    MSWEA_FORMAT(3, 4);
// Runs another command instead; the rest of the action stays.
void mswea_rewrite(mswea_verdict_t *verdict, const mswea_action_t *action, mswea_string_t command);

// Messages.
mswea_message_t mswea_message(const char *role, mswea_string_t text);
// The answer to an action: of role `tool` if a tool call asked for it, else of role `user`.
mswea_message_t mswea_answer(const mswea_action_t *action, mswea_string_t text);
// The text parts, joined.
mswea_string_t mswea_message_text(const mswea_message_t *message);
// Puts one text in the place of the content.
void mswea_set_text(mswea_message_t *message, mswea_string_t text);

// Adapters.
void mswea_header(mswea_http_request_t *request, const char *name, mswea_string_t value);
// A header that the host fills in: `prefix`, then the secret called `secret`.
void mswea_secret_header(mswea_http_request_t *request, const char *name, const char *prefix,
                         mswea_string_t secret);

// ---- The host ------------------------------------------------------------------------------

#define MSWEA_TRACE MSWEA_HOST_LEVEL_TRACE
#define MSWEA_DEBUG MSWEA_HOST_LEVEL_DEBUG
#define MSWEA_INFO MSWEA_HOST_LEVEL_INFO
#define MSWEA_WARN MSWEA_HOST_LEVEL_WARN
#define MSWEA_ERROR MSWEA_HOST_LEVEL_ERROR

// Writes a line to the host's log.
void mswea_log(mswea_host_level_t level, const char *format, ...) MSWEA_FORMAT(2, 3);
// Renders a Jinja template in the run's environment; `vars` is an object.
mswea_plugin_error_t *mswea_render(mswea_string_t template_, const mswea_value_t *vars,
                                   mswea_string_t *rendered);

// ---- What outlives a call ------------------------------------------------------------------

// A list of messages with memory of its own. Begins zeroed.
typedef struct {
    mswea_message_t *ptr;
    size_t len, room;
} mswea_history_t;
// Lays a change over it. False, and nothing done, if the change begins behind its end.
bool mswea_history_apply(mswea_history_t *history, const mswea_change_t *change);
// Puts `messages` in the place of everything from `start` on, which must not be behind the end.
// They may be messages of the same history.
void mswea_history_replace(mswea_history_t *history, size_t start, mswea_messages_t messages);
void mswea_history_clear(mswea_history_t *history);
mswea_messages_t mswea_history_messages(const mswea_history_t *history);
bool mswea_message_equal(const mswea_message_t *a, const mswea_message_t *b);

// Bytes with memory of their own, for the body of a response. Begins zeroed.
typedef struct {
    uint8_t *ptr;
    size_t len, room;
} mswea_buffer_t;
void mswea_buffer_add(mswea_buffer_t *buffer, const void *bytes, size_t len);
void mswea_buffer_clear(mswea_buffer_t *buffer);
// As a text; bytes that are no UTF-8 become U+FFFD. Lives until the call ends.
mswea_string_t mswea_buffer_text(const mswea_buffer_t *buffer);

#endif
