// JSON: reads values, gives access to them, makes and writes them. Values are never freed, see
// mswea.h.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mswea.h"

typedef struct {
    mswea_value_t **ptr;
    size_t len;
} values_t;

typedef struct {
    mswea_string_t *ptr;
    size_t len;
} keys_t;

struct mswea_value {
    mswea_type_t type;
    bool boolean;
    double number;
    // A text. For a scalar that was read, `raw` is its JSON text, so that it is written unchanged.
    mswea_string_t text, raw;
    values_t values;
    keys_t keys;
};

static const mswea_value_t nothing = {.type = MSWEA_NULL};

// ---- Reading -----------------------------------------------------------------------------

typedef struct {
    mswea_string_t json;
    size_t at;
    const char *why;
} reader_t;

static mswea_value_t *fail(reader_t *in, const char *why) {
    if (!in->why) in->why = why;
    return NULL;
}

static int peek(const reader_t *in) { return in->at < in->json.len ? in->json.ptr[in->at] : -1; }

static void skip_space(reader_t *in) {
    for (int c = peek(in); c == ' ' || c == '\t' || c == '\n' || c == '\r'; c = peek(in)) in->at++;
}

static bool take(reader_t *in, const char *word) {
    mswea_string_t rest = mswea_slice(in->json, in->at, in->json.len);
    if (!mswea_starts_with(rest, mswea_str(word))) return false;
    in->at += strlen(word);
    return true;
}

static int hex4(reader_t *in) {
    int value = 0;
    for (int i = 0; i < 4; i++) {
        int c = peek(in);
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0) return -1;
        value = value * 16 + digit;
        in->at++;
    }
    return value;
}

static size_t put_utf8(uint8_t *out, uint32_t c) {
    if (c < 0x80) {
        out[0] = (uint8_t)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (uint8_t)(0xc0 | c >> 6);
        out[1] = (uint8_t)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (uint8_t)(0xe0 | c >> 12);
        out[1] = (uint8_t)(0x80 | (c >> 6 & 0x3f));
        out[2] = (uint8_t)(0x80 | (c & 0x3f));
        return 3;
    }
    out[0] = (uint8_t)(0xf0 | c >> 18);
    out[1] = (uint8_t)(0x80 | (c >> 12 & 0x3f));
    out[2] = (uint8_t)(0x80 | (c >> 6 & 0x3f));
    out[3] = (uint8_t)(0x80 | (c & 0x3f));
    return 4;
}

// After `\u`; -1 if it is none.
static int64_t read_unicode(reader_t *in) {
    int first = hex4(in);
    if (first < 0xd800 || first > 0xdfff) return first;
    size_t after = in->at;
    if (first < 0xdc00 && take(in, "\\u")) {
        int second = hex4(in);
        if (second < 0) return -1;
        if (second >= 0xdc00 && second <= 0xdfff)
            return 0x10000 + ((int64_t)(first - 0xd800) << 10) + (second - 0xdc00);
        in->at = after; // not a low surrogate: another character
    }
    return 0xfffd;
}

static bool read_text(reader_t *in, mswea_string_t *text) {
    size_t start = ++in->at, end = start;
    bool is_plain = true;
    for (; end < in->json.len && in->json.ptr[end] != '"'; end++) {
        if (in->json.ptr[end] < 0x20) {
            in->at = end;
            return fail(in, "a control character in a text"), false;
        }
        if (in->json.ptr[end] == '\\') {
            is_plain = false;
            end++;
        }
    }
    if (end >= in->json.len) {
        in->at = in->json.len;
        return fail(in, "a text does not end"), false;
    }
    if (is_plain) {
        *text = mswea_slice(in->json, start, end);
        in->at = end + 1;
        return true;
    }
    // An escape is never shorter than the bytes of its character.
    uint8_t *out = mswea_alloc(end - start);
    size_t len = 0;
    while (in->at < end) {
        uint8_t c = in->json.ptr[in->at++];
        if (c != '\\') {
            out[len++] = c;
            continue;
        }
        c = in->json.ptr[in->at++];
        const char *escape = c ? strchr("\"\"\\\\//b\bf\fn\nr\rt\t", c) : NULL;
        if (c == 'u') {
            int64_t character = read_unicode(in);
            if (character < 0) return fail(in, "`\\u` wants four hexadecimal digits"), false;
            len += put_utf8(out + len, (uint32_t)character);
        } else if (escape && c >= 0x20) {
            // In the text above, each letter is followed by its character.
            out[len++] = (uint8_t)escape[1];
        } else {
            return fail(in, "an escape that JSON does not have"), false;
        }
    }
    *text = (mswea_string_t){out, len};
    in->at = end + 1;
    return true;
}

static size_t digits(reader_t *in) {
    size_t count = 0;
    for (int c = peek(in); c >= '0' && c <= '9'; c = peek(in)) {
        in->at++;
        count++;
    }
    return count;
}

static mswea_value_t *read_number(reader_t *in) {
    size_t start = in->at;
    take(in, "-");
    bool is_zero = peek(in) == '0';
    size_t count = digits(in);
    bool is_good = count == 1 || (count > 1 && !is_zero);
    if (take(in, ".")) is_good = is_good && digits(in) > 0;
    if (take(in, "e") || take(in, "E")) {
        if (!take(in, "+")) take(in, "-");
        is_good = is_good && digits(in) > 0;
    }
    if (!is_good) return fail(in, "neither a value nor a number");
    mswea_string_t raw = mswea_slice(in->json, start, in->at);
    mswea_value_t *value = mswea_number(strtod(mswea_cstr(raw), NULL));
    value->raw = raw;
    return value;
}

static mswea_value_t *read_value(reader_t *in, int depth) {
    if (depth > MSWEA_DEPTH) return fail(in, "nested too deeply");
    skip_space(in);
    int c = peek(in);
    if (c == '"') {
        size_t start = in->at;
        mswea_string_t text;
        if (!read_text(in, &text)) return NULL;
        mswea_value_t *value = mswea_text(text);
        value->raw = mswea_slice(in->json, start, in->at);
        return value;
    }
    if (c == '{' || c == '[') {
        const bool is_object = c == '{';
        const char *end = is_object ? "}" : "]";
        mswea_value_t *value = is_object ? mswea_object() : mswea_array();
        in->at++;
        skip_space(in);
        if (take(in, end)) return value;
        do {
            mswea_string_t key = {0};
            if (is_object) {
                skip_space(in);
                if (peek(in) != '"') return fail(in, "a key in quotes is missing");
                if (!read_text(in, &key)) return NULL;
                skip_space(in);
                if (!take(in, ":")) return fail(in, "a `:` is missing");
            }
            mswea_value_t *part = read_value(in, depth + 1);
            if (!part) return NULL;
            if (is_object) mswea_push(&value->keys, key);
            mswea_push(&value->values, part);
            skip_space(in);
        } while (take(in, ","));
        if (!take(in, end)) return fail(in, is_object ? "a `}` is missing" : "a `]` is missing");
        return value;
    }
    if (take(in, "null")) return mswea_null();
    if (take(in, "true")) return mswea_bool(true);
    if (take(in, "false")) return mswea_bool(false);
    return c < 0 ? fail(in, "it ends too early") : read_number(in);
}

const mswea_value_t *mswea_json_read(mswea_string_t json, const char **why) {
    reader_t in = {json, 0, NULL};
    const mswea_value_t *value = read_value(&in, 0);
    if (value) skip_space(&in);
    if (value && in.at < json.len) value = fail(&in, "something follows the value");
    if (!value && why) *why = mswea_cstr(mswea_format("%s, at byte %zu", in.why, in.at));
    return value;
}

// ---- Asking ------------------------------------------------------------------------------

mswea_type_t mswea_type(const mswea_value_t *value) { return value ? value->type : MSWEA_NULL; }

size_t mswea_len(const mswea_value_t *value) { return value ? value->values.len : 0; }

static size_t place(const mswea_value_t *object, const char *key) {
    if (mswea_type(object) != MSWEA_OBJECT) return MSWEA_NOWHERE;
    // Of duplicate keys the last one counts, as in most JSON libraries.
    for (size_t i = object->keys.len; i-- > 0;) {
        if (mswea_is(object->keys.ptr[i], key)) return i;
    }
    return MSWEA_NOWHERE;
}

const mswea_value_t *mswea_at(const mswea_value_t *array, size_t index) {
    return mswea_type(array) == MSWEA_ARRAY && index < array->values.len ? array->values.ptr[index]
                                                                         : &nothing;
}

const mswea_value_t *mswea_get(const mswea_value_t *object, const char *key) {
    return mswea_value_at(object, place(object, key));
}

bool mswea_has(const mswea_value_t *object, const char *key) {
    return place(object, key) != MSWEA_NOWHERE;
}

mswea_string_t mswea_key_at(const mswea_value_t *object, size_t index) {
    return mswea_type(object) == MSWEA_OBJECT && index < object->keys.len ? object->keys.ptr[index]
                                                                          : mswea_str("");
}

const mswea_value_t *mswea_value_at(const mswea_value_t *object, size_t index) {
    return mswea_type(object) == MSWEA_OBJECT && index < object->values.len
               ? object->values.ptr[index]
               : &nothing;
}

mswea_string_t mswea_text_or(const mswea_value_t *value, const char *otherwise) {
    return mswea_type(value) == MSWEA_TEXT ? value->text : mswea_str(otherwise);
}

double mswea_number_or(const mswea_value_t *value, double otherwise) {
    return mswea_type(value) == MSWEA_NUMBER ? value->number : otherwise;
}

int64_t mswea_int_or(const mswea_value_t *value, int64_t otherwise) {
    double number = mswea_number_or(value, NAN);
    // Both bounds are exact as `double`; NaN is within none.
    return number >= -9223372036854775808.0 && number < 9223372036854775808.0 ? (int64_t)number
                                                                              : otherwise;
}

bool mswea_bool_or(const mswea_value_t *value, bool otherwise) {
    return mswea_type(value) == MSWEA_BOOL ? value->boolean : otherwise;
}

// ---- Making ------------------------------------------------------------------------------

static mswea_value_t *make(mswea_type_t type) {
    mswea_value_t *value = mswea_alloc(sizeof *value);
    value->type = type;
    return value;
}

mswea_value_t *mswea_null(void) { return make(MSWEA_NULL); }
mswea_value_t *mswea_array(void) { return make(MSWEA_ARRAY); }
mswea_value_t *mswea_object(void) { return make(MSWEA_OBJECT); }

mswea_value_t *mswea_bool(bool boolean) {
    mswea_value_t *value = make(MSWEA_BOOL);
    value->boolean = boolean;
    return value;
}

mswea_value_t *mswea_number(double number) {
    mswea_value_t *value = make(MSWEA_NUMBER);
    value->number = number;
    return value;
}

mswea_value_t *mswea_text(mswea_string_t text) {
    mswea_value_t *value = make(MSWEA_TEXT);
    value->text = text;
    return value;
}

void mswea_append(mswea_value_t *array, const mswea_value_t *part) {
    if (mswea_type(array) == MSWEA_ARRAY)
        mswea_push(&array->values, (mswea_value_t *)(part ? part : &nothing));
}

void mswea_set(mswea_value_t *object, const char *key, const mswea_value_t *part) {
    if (mswea_type(object) != MSWEA_OBJECT) return;
    mswea_value_t *value = (mswea_value_t *)(part ? part : &nothing);
    size_t there = place(object, key);
    if (there != MSWEA_NOWHERE) {
        object->values.ptr[there] = value;
        return;
    }
    mswea_push(&object->keys, mswea_format("%s", key));
    mswea_push(&object->values, value);
}

// ---- Writing -----------------------------------------------------------------------------

static void write_text(mswea_text_t *out, mswea_string_t text) {
    mswea_text_add(out, mswea_str("\""));
    size_t done = 0;
    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = text.ptr[i];
        if (c >= 0x20 && c != '"' && c != '\\') continue;
        mswea_text_add(out, mswea_slice(text, done, i));
        done = i + 1;
        switch (c) {
        case '"': mswea_text_add(out, mswea_str("\\\"")); break;
        case '\\': mswea_text_add(out, mswea_str("\\\\")); break;
        case '\n': mswea_text_add(out, mswea_str("\\n")); break;
        case '\t': mswea_text_add(out, mswea_str("\\t")); break;
        default: mswea_text_format(out, "\\u%04x", c);
        }
    }
    mswea_text_add(out, mswea_slice(text, done, text.len));
    mswea_text_add(out, mswea_str("\""));
}

static mswea_string_t number_text(double number) {
    if (!isfinite(number)) return mswea_str("null"); // JSON has none
    // The shortest text that is read as the same number.
    mswea_string_t text = mswea_format("%.15g", number);
    return strtod(mswea_cstr(text), NULL) == number ? text : mswea_format("%.17g", number);
}

static void write_value(mswea_text_t *out, const mswea_value_t *value, int depth) {
    // A value that contains itself, or is nested too deeply to be read again, is cut off here.
    if (depth > 2 * MSWEA_DEPTH) {
        mswea_text_add(out, mswea_str("null"));
        return;
    }
    switch (mswea_type(value)) {
    case MSWEA_NULL: mswea_text_add(out, mswea_str("null")); break;
    case MSWEA_BOOL: mswea_text_add(out, mswea_str(value->boolean ? "true" : "false")); break;
    case MSWEA_NUMBER:
        mswea_text_add(out, value->raw.len ? value->raw : number_text(value->number));
        break;
    case MSWEA_TEXT:
        if (value->raw.len) mswea_text_add(out, value->raw);
        else write_text(out, value->text);
        break;
    case MSWEA_ARRAY:
    case MSWEA_OBJECT: {
        const bool is_object = value->type == MSWEA_OBJECT;
        mswea_text_add(out, mswea_str(is_object ? "{" : "["));
        for (size_t i = 0; i < value->values.len; i++) {
            if (i) mswea_text_add(out, mswea_str(","));
            if (is_object) {
                write_text(out, value->keys.ptr[i]);
                mswea_text_add(out, mswea_str(":"));
            }
            write_value(out, value->values.ptr[i], depth + 1);
        }
        mswea_text_add(out, mswea_str(is_object ? "}" : "]"));
    }
    }
}

mswea_string_t mswea_json_write(const mswea_value_t *value) {
    mswea_text_t out = {0};
    write_value(&out, value, 0);
    return mswea_text_string(&out);
}

const mswea_value_t *mswea_extra_get(mswea_option_json_t extra, const char *key) {
    return extra.is_some ? mswea_get(mswea_json_read(extra.val, NULL), key) : &nothing;
}

void mswea_extra_set(mswea_option_json_t *extra, const char *key, const mswea_value_t *value) {
    const mswea_value_t *read = extra->is_some ? mswea_json_read(extra->val, NULL) : mswea_object();
    if (mswea_type(read) != MSWEA_OBJECT) return;
    mswea_set((mswea_value_t *)read, key, value);
    extra->is_some = true;
    extra->val = mswea_json_write(read);
}
