// The SDK for plugins of mswea-host in C. README.md is an introduction.
//
// You define the functions `plugin_*` of your kind; the SDK defines all functions `mswea_*`. The
// types (messages, actions, replies, ...) are in bindings/types.h, generated from the contract,
// with its documentation.
//
// MEMORY. There is nothing to free.
//  - The arguments of a call, and the memory that `mswea_*` functions return, are valid until the
//    call ends. Then all of it is freed at once.
//  - Memory from within `plugin_configure` is valid as long as the instance: you may keep pointers
//    into the config.
//  - So never keep a pointer from another call. Data that later calls need goes into a
//    `mswea_history_t` or a `mswea_buffer_t`, which have memory of their own.
//  - If there is no memory left, the call ends as a fault of the plugin. No function here returns
//    NULL for lack of memory.
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
// A function that can fail returns NULL, or an error from `mswea_error`. Results are zeroed before
// the call: a field that you do not set is empty.

// Every plugin: its description. May be called at any time; the result must always be the same.
void plugin_describe(mswea_descriptor_t *it);
// Every plugin: its config, an object that fits the schema and has its defaults filled in. Called
// once, before all other functions except `plugin_describe`.
mswea_plugin_error_t *plugin_configure(const mswea_value_t *config);

// KIND = parser: the actions in a reply (`mswea_add_action`), or the model's error
// (`mswea_malformed`).
mswea_plugin_error_t *plugin_parse(const mswea_reply_t *reply, mswea_outcome_t *outcome);
// KIND = parser, optional: the tools that are offered to the model.
void plugin_tools(mswea_tools_t *tools);

// KIND = formatter: outputs as messages. `outputs.ptr[i]` belongs to `actions.ptr[i]`; there may be
// fewer outputs than actions. For every action with a `tool_call_id` there must be a message of
// role `tool` with this id.
mswea_plugin_error_t *plugin_format(mswea_actions_t actions, mswea_outputs_t outputs,
                                    mswea_messages_t *messages);

// KIND = simple_processor: the view of the whole history. The same history must always give the
// same view. The SDK keeps the history and returns only the messages that differ from the last
// view.
mswea_plugin_error_t *plugin_process(mswea_messages_t history, mswea_messages_t *view);

// KIND = processor: the protocol itself, for plugins whose cost per step should depend only on the
// change, or that send queries to the model. `mswea_history_t` keeps a history.
mswea_plugin_error_t *plugin_apply(const mswea_change_t *change, mswea_processor_next_t *next);
// KIND = processor, if it sends queries: passes the model's reply.
mswea_plugin_error_t *plugin_resume(const mswea_reply_t *reply, mswea_processor_next_t *next);

// KIND = policy: judges an action. A zeroed verdict allows it; see `mswea_deny`, `mswea_ask` and
// `mswea_rewrite`.
mswea_plugin_error_t *plugin_judge(const mswea_action_t *action, mswea_verdict_t *verdict);

// KIND = adapter: the state machine of wit/model-adapter.wit.
mswea_model_error_t *plugin_query(const mswea_change_t *change, const mswea_request_t *request,
                                  mswea_adapter_next_t *next);
void plugin_head(uint16_t status, mswea_headers_t headers);
// A delta of the kind `finished` or `end` tells the host that the reply is complete although the
// connection stays open.
void plugin_feed(mswea_bytes_t bytes, mswea_deltas_t *deltas);
mswea_model_error_t *plugin_finish(mswea_adapter_next_t *next);

// ---- Memory --------------------------------------------------------------------------------

// Zeroed memory that is valid until the call ends.
void *mswea_alloc(size_t size);

// Appends a copy of `item` to a list (a struct with `ptr` and `len`) that was empty at first.
#define mswea_push(list, item)                                                                    \
    ((list)->ptr = mswea_grown((list)->ptr, (list)->len, sizeof *(list)->ptr),                    \
     (list)->ptr[(list)->len++] = (item))

// For `mswea_push`.
void *mswea_grown(void *ptr, size_t len, size_t size);

// ---- Strings -------------------------------------------------------------------------------
// A string is a pointer and a length: UTF-8, without a NUL at its end; it may contain NULs. An
// empty string may have any pointer.

// For `printf` and similar functions: `"%.*s", MSWEA_ARG(text)`.
#define MSWEA_ARG(text) (int)(text).len, (text).len ? (const char *)(text).ptr : ""

// The text of a C string, without a copy of it.
mswea_string_t mswea_str(const char *text);
// `mswea_str` for places where C requires a constant.
#define MSWEA_STR(literal) {(uint8_t *)(literal), sizeof(literal) - 1}
// A text from a format, as of `printf`.
mswea_string_t mswea_format(const char *format, ...) MSWEA_FORMAT(1, 2);
mswea_string_t mswea_vformat(const char *format, va_list args);
// A C string with the text; the part after a NUL in it is lost.
const char *mswea_cstr(mswea_string_t text);
// The part from `start` to before `end`; both are limited to the text's length.
mswea_string_t mswea_slice(mswea_string_t text, size_t start, size_t end);
bool mswea_equal(mswea_string_t a, mswea_string_t b);
bool mswea_is(mswea_string_t text, const char *other);
bool mswea_starts_with(mswea_string_t text, mswea_string_t prefix);
// The index of the first `part` in `text` from `from` on; MSWEA_NOWHERE if there is none.
size_t mswea_find(mswea_string_t text, mswea_string_t part, size_t from);
#define MSWEA_NOWHERE ((size_t)-1)
// The text without ASCII white space at its ends.
mswea_string_t mswea_trim(mswea_string_t text);
// Moves the next line from `rest` to `line`, without its line end; false if `rest` is empty.
bool mswea_next_line(mswea_string_t *rest, mswea_string_t *line);
// The number of characters (not bytes).
size_t mswea_chars(mswea_string_t text);
// The index of the byte at which character number `chars` begins; the text's length if it has
// fewer. A text that is cut there has only whole characters.
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

// The largest depth of nested JSON.
#define MSWEA_DEPTH 200

// Reads JSON. Returns NULL if the text is not valid JSON, and sets `why`, unless it is NULL, to the
// error and its position. The escape of a lone surrogate, which UTF-8 can't encode, is read as
// U+FFFD.
const mswea_value_t *mswea_json_read(mswea_string_t json, const char **why);
// Writes JSON. Numbers that were read are written unchanged.
mswea_string_t mswea_json_write(const mswea_value_t *value);

// These functions do not fail: a missing value is `null`, and for a value of another type they
// return `otherwise`.
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
// Rounded towards zero; `otherwise` if an `int64_t` can't hold the number.
int64_t mswea_int_or(const mswea_value_t *value, int64_t otherwise);
bool mswea_bool_or(const mswea_value_t *value, bool otherwise);

mswea_value_t *mswea_null(void);
mswea_value_t *mswea_bool(bool value);
mswea_value_t *mswea_number(double value);
mswea_value_t *mswea_text(mswea_string_t value);
mswea_value_t *mswea_array(void);
mswea_value_t *mswea_object(void);
void mswea_append(mswea_value_t *array, const mswea_value_t *value);
// Sets a key of an object, and replaces its earlier value.
void mswea_set(mswea_value_t *object, const char *key, const mswea_value_t *value);

// The key of an `extra`.
const mswea_value_t *mswea_extra_get(mswea_option_json_t extra, const char *key);
// Sets a key of an `extra`, and keeps the others. An `extra` that is not valid JSON stays
// unchanged.
void mswea_extra_set(mswea_option_json_t *extra, const char *key, const mswea_value_t *value);

// ---- Making values -------------------------------------------------------------------------

// An error for the user or for you: `invalid-config`, `invalid-input`, `unsupported`, `internal`,
// or a code of your own. For an error of the model use `mswea_malformed`.
mswea_plugin_error_t *mswea_error(const char *code, const char *format, ...) MSWEA_FORMAT(2, 3);
// `invalid-config`, with the JSON pointer of the value that is wrong (`/patterns/0`).
mswea_plugin_error_t *mswea_config_error(const char *pointer, const char *format, ...)
    MSWEA_FORMAT(2, 3);
// An error of an adapter, of one of the classes in wit/model-adapter.wit.
mswea_model_error_t *mswea_model_error(const char *class_, const char *format, ...)
    MSWEA_FORMAT(2, 3);

// Parsers.
void mswea_add_action(mswea_outcome_t *outcome, mswea_string_t command);
// Adds an action with the id of its tool call.
void mswea_add_call(mswea_outcome_t *outcome, mswea_string_t command, mswea_string_t id);
// Reports the model's error; the model gets the message. The actions are removed.
mswea_problem_t *mswea_malformed(mswea_outcome_t *outcome, const char *code, const char *format,
                                 ...) MSWEA_FORMAT(3, 4);
mswea_tool_t mswea_tool(const char *name, const char *description, const char *parameters);

// Policies.
void mswea_allow(mswea_verdict_t *verdict);
void mswea_deny(mswea_verdict_t *verdict, const char *code, const char *format, ...)
    MSWEA_FORMAT(3, 4);
void mswea_ask(mswea_verdict_t *verdict, const char *code, const char *format, ...)
    MSWEA_FORMAT(3, 4);
// Runs another command instead; the other fields of the action stay.
void mswea_rewrite(mswea_verdict_t *verdict, const mswea_action_t *action, mswea_string_t command);

// Messages.
mswea_message_t mswea_message(const char *role, mswea_string_t text);
// The message with the output of an action: of role `tool` if the action has a tool call, else of
// role `user`.
mswea_message_t mswea_answer(const mswea_action_t *action, mswea_string_t text);
// The text parts, joined.
mswea_string_t mswea_message_text(const mswea_message_t *message);
// Replaces the content by one text.
void mswea_set_text(mswea_message_t *message, mswea_string_t text);

// Adapters.
void mswea_header(mswea_http_request_t *request, const char *name, mswea_string_t value);
// A header whose value the host fills in: `prefix`, then the secret with the name `secret`.
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

// ---- Data that stays valid after a call ----------------------------------------------------

// A list of messages with memory of its own. Must be zeroed at first.
typedef struct {
    mswea_message_t *ptr;
    size_t len, room;
} mswea_history_t;
// Applies a change. Returns false and changes nothing if the change begins after the end of the
// list.
bool mswea_history_apply(mswea_history_t *history, const mswea_change_t *change);
// Replaces all messages from `start` on by `messages`; `start` must not be after the end. They may
// be messages of the same history.
void mswea_history_replace(mswea_history_t *history, size_t start, mswea_messages_t messages);
void mswea_history_clear(mswea_history_t *history);
mswea_messages_t mswea_history_messages(const mswea_history_t *history);
bool mswea_message_equal(const mswea_message_t *a, const mswea_message_t *b);

// Bytes with memory of their own, for the body of a response. Must be zeroed at first.
typedef struct {
    uint8_t *ptr;
    size_t len, room;
} mswea_buffer_t;
void mswea_buffer_add(mswea_buffer_t *buffer, const void *bytes, size_t len);
void mswea_buffer_clear(mswea_buffer_t *buffer);
// The bytes as a text; invalid UTF-8 becomes U+FFFD. The text is valid until the call ends.
mswea_string_t mswea_buffer_text(const mswea_buffer_t *buffer);

#endif
