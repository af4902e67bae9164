// Data that stays valid after a call: lists of messages, and bytes.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mswea.h"

static void *resized(void *old, size_t size) {
    void *ptr = realloc(old, size);
    if (!ptr) {
        fputs("out of memory\n", stderr);
        abort();
    }
    return ptr;
}

// ---- Copying a message into one block, and comparing it ---------------------------------------

// The place of the next piece of a block; without a block, only the size is counted.
typedef struct {
    uint8_t *block;
    size_t used;
} into_t;

static void *put(into_t *into, const void *from, size_t size) {
    into->used = (into->used + 7) / 8 * 8;
    uint8_t *piece = into->block ? into->block + into->used : NULL;
    if (piece && size) memcpy(piece, from, size);
    into->used += size;
    return piece;
}

static void put_string(into_t *into, mswea_string_t *to, mswea_string_t from) {
    to->ptr = put(into, from.ptr, from.len);
    to->len = from.len;
}

static void put_extra(into_t *into, mswea_option_json_t *to, mswea_option_json_t from) {
    to->is_some = from.is_some;
    if (from.is_some) put_string(into, &to->val, from.val);
}

static void put_part(into_t *into, mswea_content_part_t *to, const mswea_content_part_t *from) {
    to->tag = from->tag;
    switch (from->tag) {
    case MSWEA_CONTENT_PART_TEXT: put_string(into, &to->val.text, from->val.text); break;
    case MSWEA_CONTENT_PART_IMAGE:
        put_string(into, &to->val.image.url, from->val.image.url);
        put_extra(into, &to->val.image.extra, from->val.image.extra);
        break;
    case MSWEA_CONTENT_PART_REASONING:
        put_string(into, &to->val.reasoning.text, from->val.reasoning.text);
        put_extra(into, &to->val.reasoning.extra, from->val.reasoning.extra);
        break;
    default:
        put_string(into, &to->val.opaque.format, from->val.opaque.format);
        put_string(into, &to->val.opaque.data, from->val.opaque.data);
        put_extra(into, &to->val.opaque.extra, from->val.opaque.extra);
    }
}

// The same code counts and copies: while it counts, `to` is a message that is not used.
static void put_message(into_t *into, mswea_message_t *to, const mswea_message_t *from) {
    mswea_content_part_t part = {0};
    mswea_tool_call_t call = {0};
    put_string(into, &to->role, from->role);
    to->content.len = from->content.len;
    to->content.ptr = put(into, from->content.ptr, from->content.len * sizeof part);
    for (size_t i = 0; i < from->content.len; i++)
        put_part(into, into->block ? &to->content.ptr[i] : &part, &from->content.ptr[i]);
    to->tool_calls.len = from->tool_calls.len;
    to->tool_calls.ptr = put(into, from->tool_calls.ptr, from->tool_calls.len * sizeof call);
    for (size_t i = 0; i < from->tool_calls.len; i++) {
        const mswea_tool_call_t *old = &from->tool_calls.ptr[i];
        mswea_tool_call_t *new = into->block ? &to->tool_calls.ptr[i] : &call;
        put_string(into, &new->id, old->id);
        put_string(into, &new->name, old->name);
        put_string(into, &new->arguments, old->arguments);
        put_extra(into, &new->extra, old->extra);
    }
    to->tool_call_id.is_some = from->tool_call_id.is_some;
    if (from->tool_call_id.is_some)
        put_string(into, &to->tool_call_id.val, from->tool_call_id.val);
    put_extra(into, &to->extra, from->extra);
}

// The role is the first piece of the block, so its pointer is the block's.
static mswea_message_t copied(const mswea_message_t *from) {
    mswea_message_t to = {0};
    into_t size = {NULL, 0};
    put_message(&size, &to, from);
    into_t into = {resized(NULL, size.used + 1), 0};
    put_message(&into, &to, from);
    return to;
}

static void release(mswea_message_t *message) { free(message->role.ptr); }

static bool extra_equal(mswea_option_json_t a, mswea_option_json_t b) {
    return a.is_some == b.is_some && (!a.is_some || mswea_equal(a.val, b.val));
}

static bool part_equal(const mswea_content_part_t *a, const mswea_content_part_t *b) {
    if (a->tag != b->tag) return false;
    switch (a->tag) {
    case MSWEA_CONTENT_PART_TEXT: return mswea_equal(a->val.text, b->val.text);
    case MSWEA_CONTENT_PART_IMAGE:
        return mswea_equal(a->val.image.url, b->val.image.url) &&
               extra_equal(a->val.image.extra, b->val.image.extra);
    case MSWEA_CONTENT_PART_REASONING:
        return mswea_equal(a->val.reasoning.text, b->val.reasoning.text) &&
               extra_equal(a->val.reasoning.extra, b->val.reasoning.extra);
    default:
        return mswea_equal(a->val.opaque.format, b->val.opaque.format) &&
               mswea_equal(a->val.opaque.data, b->val.opaque.data) &&
               extra_equal(a->val.opaque.extra, b->val.opaque.extra);
    }
}

bool mswea_message_equal(const mswea_message_t *a, const mswea_message_t *b) {
    if (!mswea_equal(a->role, b->role) || a->content.len != b->content.len ||
        a->tool_calls.len != b->tool_calls.len ||
        a->tool_call_id.is_some != b->tool_call_id.is_some || !extra_equal(a->extra, b->extra))
        return false;
    if (a->tool_call_id.is_some && !mswea_equal(a->tool_call_id.val, b->tool_call_id.val))
        return false;
    for (size_t i = 0; i < a->content.len; i++) {
        if (!part_equal(&a->content.ptr[i], &b->content.ptr[i])) return false;
    }
    for (size_t i = 0; i < a->tool_calls.len; i++) {
        const mswea_tool_call_t *x = &a->tool_calls.ptr[i], *y = &b->tool_calls.ptr[i];
        if (!mswea_equal(x->id, y->id) || !mswea_equal(x->name, y->name) ||
            !mswea_equal(x->arguments, y->arguments) || !extra_equal(x->extra, y->extra))
            return false;
    }
    return true;
}

// ---- Histories ---------------------------------------------------------------------------

void mswea_history_replace(mswea_history_t *history, size_t start, mswea_messages_t messages) {
    if (start > history->len) return;
    // The messages are copied first, because they may point into the replaced ones.
    mswea_message_t *copies = messages.len ? resized(NULL, messages.len * sizeof *copies) : NULL;
    for (size_t i = 0; i < messages.len; i++) copies[i] = copied(&messages.ptr[i]);
    for (size_t i = start; i < history->len; i++) release(&history->ptr[i]);
    if (start + messages.len > history->room) {
        size_t room = start + messages.len > 2 * history->room ? start + messages.len
                                                               : 2 * history->room;
        history->ptr = resized(history->ptr, room * sizeof *history->ptr);
        history->room = room;
    }
    if (messages.len) memcpy(history->ptr + start, copies, messages.len * sizeof *copies);
    history->len = start + messages.len;
    free(copies);
}

bool mswea_history_apply(mswea_history_t *history, const mswea_change_t *change) {
    if (change->start > history->len) return false;
    mswea_history_replace(history, change->start, change->messages);
    return true;
}

void mswea_history_clear(mswea_history_t *history) {
    mswea_history_replace(history, 0, (mswea_messages_t){0});
}

mswea_messages_t mswea_history_messages(const mswea_history_t *history) {
    return (mswea_messages_t){history->ptr, history->len};
}

// ---- Buffers -----------------------------------------------------------------------------

void mswea_buffer_add(mswea_buffer_t *buffer, const void *bytes, size_t len) {
    if (len == 0) return;
    if (buffer->room - buffer->len < len) {
        size_t room = buffer->len + len > 2 * buffer->room ? buffer->len + len : 2 * buffer->room;
        buffer->ptr = resized(buffer->ptr, room);
        buffer->room = room;
    }
    memcpy(buffer->ptr + buffer->len, bytes, len);
    buffer->len += len;
}

void mswea_buffer_clear(mswea_buffer_t *buffer) {
    free(buffer->ptr);
    *buffer = (mswea_buffer_t){0};
}

// The length of the character that begins at `p`, or 0 if no valid one does (Unicode, table 3-7).
static size_t character(const uint8_t *p, size_t left) {
    uint8_t low = 0x80, high = 0xbf;
    size_t len;
    if (p[0] < 0x80) return 1;
    if (p[0] >= 0xc2 && p[0] <= 0xdf) len = 2;
    else if (p[0] >= 0xe0 && p[0] <= 0xef) len = 3;
    else if (p[0] >= 0xf0 && p[0] <= 0xf4) len = 4;
    else return 0;
    if (p[0] == 0xe0) low = 0xa0;
    if (p[0] == 0xed) high = 0x9f;
    if (p[0] == 0xf0) low = 0x90;
    if (p[0] == 0xf4) high = 0x8f;
    if (left < len || p[1] < low || p[1] > high) return 0;
    for (size_t i = 2; i < len; i++) {
        if ((p[i] & 0xc0) != 0x80) return 0;
    }
    return len;
}

mswea_string_t mswea_buffer_text(const mswea_buffer_t *buffer) {
    mswea_string_t all = {buffer->ptr, buffer->len};
    mswea_text_t text = {0};
    size_t done = 0;
    for (size_t i = 0; i < all.len;) {
        size_t len = character(all.ptr + i, all.len - i);
        if (len == 0) {
            mswea_text_add(&text, mswea_slice(all, done, i));
            mswea_text_add(&text, mswea_str("\xef\xbf\xbd"));
            done = i + 1;
        }
        i += len ? len : 1;
    }
    mswea_text_add(&text, mswea_slice(all, done, all.len));
    return mswea_text_string(&text);
}
