// Keeps a run in its folder: denies commands that change into another folder and commands of excessive
// length, and asks a person before the network is used. It reads commands roughly as a shell does. It
// prevents mistakes; for isolation use a sandbox.
#include "mswea.h"

static mswea_string_t folder;
static size_t max_chars;
static const mswea_value_t *ask_before;

void plugin_describe(mswea_descriptor_t *it) {
    it->name = mswea_str("stay_inside");
    it->version = mswea_str("0.1.0");
    it->summary = mswea_str("Keeps commands in the folder, and asks before the network is used");
    it->config_schema = mswea_str(
        "{\"type\": \"object\", \"additionalProperties\": false, \"properties\": {"
        "  \"folder\": {\"type\": \"string\", \"default\": \"\","
        "    \"description\": \"The folder that commands run in, as an absolute path; `cd` into "
        "folders within it is fine. Without, every absolute path is outside.\"},"
        "  \"max_chars\": {\"type\": \"integer\", \"minimum\": 1, \"maximum\": 1000000000,"
        "    \"default\": 20000, \"description\": \"Longer commands are not run.\"},"
        "  \"ask_before\": {\"type\": \"array\", \"items\": {\"type\": \"string\", "
        "\"minLength\": 1},"
        "    \"default\": [\"curl\", \"wget\", \"ssh\", \"scp\", \"rsync\", \"git push\","
        "      \"git clone\", \"git fetch\", \"git pull\", \"pip install\", \"npm install\"],"
        "    \"description\": \"Before commands that begin with one of these a person is "
        "asked.\"}}}");
}

mswea_plugin_error_t *plugin_configure(const mswea_value_t *config) {
    folder = mswea_text_or(mswea_get(config, "folder"), "");
    if (folder.len && folder.ptr[0] != '/')
        return mswea_config_error("/folder", "`%.*s` is not an absolute path; begin it with `/`",
                                  MSWEA_ARG(folder));
    while (folder.len && folder.ptr[folder.len - 1] == '/') folder.len--;
    max_chars = (size_t)mswea_int_or(mswea_get(config, "max_chars"), 20000);
    ask_before = mswea_get(config, "ask_before");
    return NULL;
}

// ---- Commands as words -----------------------------------------------------------------------

typedef struct {
    mswea_string_t *ptr;
    size_t len;
} words_t;

// Whether the character ends a simple command, or begins another one within it.
static bool is_separator(uint8_t c) {
    return c == ';' || c == '&' || c == '|' || c == '\n' || c == '(' || c == ')' || c == '`' ||
           c == '{' || c == '}';
}

static bool is_blank(uint8_t c) { return c == ' ' || c == '\t' || c == '\r'; }

// The words of the next simple command, without their quotes; false at the end.
static bool next_command(mswea_string_t *rest, words_t *words) {
    *words = (words_t){0};
    mswea_text_t word = {0};
    bool in_word = false;
    uint8_t quote = 0;
    size_t i = 0;
    for (; i < rest->len; i++) {
        uint8_t c = rest->ptr[i];
        if (quote) {
            if (c == quote) {
                quote = 0;
                continue;
            }
            if (c == '\\' && quote == '"' && i + 1 < rest->len) c = rest->ptr[++i];
        } else if (c == '\'' || c == '"') {
            quote = c;
            in_word = true;
            continue;
        } else if (c == '\\' && i + 1 < rest->len) {
            c = rest->ptr[++i];
            if (c == '\n') continue;
        } else if (is_separator(c) || is_blank(c)) {
            if (in_word) mswea_push(words, mswea_text_string(&word));
            in_word = false;
            word = (mswea_text_t){0};
            if (is_separator(c) && words->len) break;
            continue;
        }
        in_word = true;
        mswea_text_add(&word, (mswea_string_t){&c, 1});
    }
    if (in_word) mswea_push(words, mswea_text_string(&word));
    *rest = mswea_slice(*rest, i + 1, rest->len);
    return words->len > 0;
}

// The index of the first word after words like `A=b` and `sudo`, which do not matter to the rules.
static size_t first_word(words_t words) {
    static const char *const before[] = {"sudo", "env",  "time", "nohup", "exec", "command",
                                         "then", "else", "do",   "!",     "if",   "while"};
    size_t first = 0;
    for (; first < words.len; first++) {
        mswea_string_t word = words.ptr[first];
        bool skipped = mswea_find(word, mswea_str("="), 0) != MSWEA_NOWHERE;
        for (size_t i = 0; i < sizeof before / sizeof *before; i++)
            skipped = skipped || mswea_is(word, before[i]);
        if (!skipped) break;
    }
    return first;
}

static mswea_string_t without_path(mswea_string_t word) {
    size_t start = 0, slash;
    while ((slash = mswea_find(word, mswea_str("/"), start)) != MSWEA_NOWHERE) start = slash + 1;
    return mswea_slice(word, start, word.len);
}

// ---- The rules -------------------------------------------------------------------------------

// Whether a command begins with the words of `entry`, separated by blanks.
static bool begins_with(words_t words, size_t first, mswea_string_t entry) {
    size_t at = 0;
    for (size_t i = first; at < entry.len; i++) {
        size_t end = mswea_find(entry, mswea_str(" "), at);
        mswea_string_t wanted = mswea_slice(entry, at, end == MSWEA_NOWHERE ? entry.len : end);
        if (i >= words.len) return false;
        if (!mswea_equal(i == first ? without_path(words.ptr[i]) : words.ptr[i], wanted))
            return false;
        at = end == MSWEA_NOWHERE ? entry.len : end + 1;
    }
    return true;
}

// Follows a path from `*depth` folders below the run's folder, and updates `*depth`; false if the path
// leaves the run's folder.
static bool follow(mswea_string_t path, long *depth) {
    if (path.len && path.ptr[0] == '/') {
        if (!folder.len || !mswea_starts_with(path, folder)) return false;
        path = mswea_slice(path, folder.len, path.len);
        if (path.len && path.ptr[0] != '/') return false; // `/work` is not in `/workshop`
        *depth = 0;
    }
    for (size_t at = 0; at < path.len;) {
        size_t end = mswea_find(path, mswea_str("/"), at);
        if (end == MSWEA_NOWHERE) end = path.len;
        mswea_string_t part = mswea_slice(path, at, end);
        if (mswea_is(part, "..")) --*depth;
        else if (part.len && !mswea_is(part, ".")) ++*depth;
        if (*depth < 0) return false;
        at = end + 1;
    }
    return true;
}

mswea_plugin_error_t *plugin_judge(const mswea_action_t *action, mswea_verdict_t *verdict) {
    size_t chars = mswea_chars(action->command);
    if (chars > max_chars) {
        mswea_deny(verdict, "too-long",
                   "The command has %zu characters, and %zu are allowed. Write long texts to files "
                   "in several steps.",
                   chars, max_chars);
        return NULL;
    }
    mswea_string_t rest = action->command;
    words_t words;
    long depth = 0;
    while (next_command(&rest, &words)) {
        size_t first = first_word(words);
        if (first == words.len) continue;
        if (mswea_is(words.ptr[first], "cd") || mswea_is(words.ptr[first], "pushd")) {
            mswea_string_t place = first + 1 < words.len ? words.ptr[first + 1] : mswea_str("~");
            bool is_home = place.len && (place.ptr[0] == '~' || place.ptr[0] == '-');
            if (is_home || !follow(place, &depth)) {
                mswea_deny(verdict, "outside",
                           "`cd %.*s` leaves the folder of this task. Work in it, by paths that "
                           "are relative to it.",
                           MSWEA_ARG(place));
                return NULL;
            }
        }
        for (size_t i = 0; i < mswea_len(ask_before); i++) {
            mswea_string_t entry = mswea_text_or(mswea_at(ask_before, i), "");
            // The loop goes on, because a later `cd` may leave the folder, and a denial replaces a question.
            if (entry.len && verdict->tag == EXPORTS_MSWEA_POLICY_VERDICT_ALLOW &&
                begins_with(words, first, entry))
                mswea_ask(verdict, "network", "`%.*s` uses the network.", MSWEA_ARG(entry));
        }
    }
    return NULL;
}
