// Strings with a length.
#include <stdio.h>
#include <string.h>

#include "mswea.h"

mswea_string_t mswea_str(const char *text) {
    return (mswea_string_t){(uint8_t *)text, text ? strlen(text) : 0};
}

mswea_string_t mswea_vformat(const char *format, va_list args) {
    va_list again;
    va_copy(again, args);
    int len = vsnprintf(NULL, 0, format, args);
    mswea_string_t text = {0};
    if (len > 0) {
        text.ptr = mswea_alloc((size_t)len + 1);
        text.len = (size_t)len;
        vsnprintf((char *)text.ptr, (size_t)len + 1, format, again);
    }
    va_end(again);
    return text;
}

mswea_string_t mswea_format(const char *format, ...) {
    va_list args;
    va_start(args, format);
    mswea_string_t text = mswea_vformat(format, args);
    va_end(args);
    return text;
}

const char *mswea_cstr(mswea_string_t text) {
    char *copy = mswea_alloc(text.len + 1);
    if (text.len) memcpy(copy, text.ptr, text.len);
    return copy;
}

mswea_string_t mswea_slice(mswea_string_t text, size_t start, size_t end) {
    if (end > text.len) end = text.len;
    if (start >= end) return (mswea_string_t){0};
    return (mswea_string_t){text.ptr + start, end - start};
}

bool mswea_equal(mswea_string_t a, mswea_string_t b) {
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

bool mswea_is(mswea_string_t text, const char *other) { return mswea_equal(text, mswea_str(other)); }

bool mswea_starts_with(mswea_string_t text, mswea_string_t prefix) {
    return prefix.len <= text.len && mswea_equal(mswea_slice(text, 0, prefix.len), prefix);
}

size_t mswea_find(mswea_string_t text, mswea_string_t part, size_t from) {
    if (from > text.len || part.len > text.len - from) return MSWEA_NOWHERE;
    if (part.len == 0) return from;
    const size_t last = text.len - part.len;
    while (from <= last) {
        const uint8_t *first = memchr(text.ptr + from, part.ptr[0], last - from + 1);
        if (!first) break;
        from = (size_t)(first - text.ptr);
        if (memcmp(first, part.ptr, part.len) == 0) return from;
        from++;
    }
    return MSWEA_NOWHERE;
}

static bool is_space(uint8_t byte) { return byte == ' ' || (byte >= '\t' && byte <= '\r'); }

mswea_string_t mswea_trim(mswea_string_t text) {
    size_t start = 0, end = text.len;
    while (start < end && is_space(text.ptr[start])) start++;
    while (end > start && is_space(text.ptr[end - 1])) end--;
    return mswea_slice(text, start, end);
}

bool mswea_next_line(mswea_string_t *rest, mswea_string_t *line) {
    if (rest->len == 0) return false;
    const uint8_t *end = memchr(rest->ptr, '\n', rest->len);
    size_t len = end ? (size_t)(end - rest->ptr) : rest->len;
    *line = mswea_slice(*rest, 0, len);
    *rest = mswea_slice(*rest, end ? len + 1 : len, rest->len);
    if (line->len && line->ptr[line->len - 1] == '\r') line->len--;
    return true;
}

static bool begins_character(uint8_t byte) { return (byte & 0xc0) != 0x80; }

size_t mswea_chars(mswea_string_t text) {
    size_t chars = 0;
    for (size_t i = 0; i < text.len; i++) chars += begins_character(text.ptr[i]);
    return chars;
}

size_t mswea_char_at(mswea_string_t text, size_t chars) {
    for (size_t i = 0; i < text.len; i++) {
        if (begins_character(text.ptr[i]) && chars-- == 0) return i;
    }
    return text.len;
}

void mswea_text_add(mswea_text_t *text, mswea_string_t more) {
    if (more.len == 0) return;
    if (text->room - text->len < more.len) {
        size_t room = 2 * text->room > text->len + more.len ? 2 * text->room : text->len + more.len;
        uint8_t *grown = mswea_alloc(room);
        if (text->len) memcpy(grown, text->ptr, text->len);
        text->ptr = grown;
        text->room = room;
    }
    memcpy(text->ptr + text->len, more.ptr, more.len);
    text->len += more.len;
}

void mswea_text_format(mswea_text_t *text, const char *format, ...) {
    va_list args;
    va_start(args, format);
    mswea_text_add(text, mswea_vformat(format, args));
    va_end(args);
}

mswea_string_t mswea_text_string(const mswea_text_t *text) {
    return (mswea_string_t){text->ptr, text->len};
}
