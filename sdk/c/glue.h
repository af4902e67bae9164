// What the SDK's own files share: the borders of a call. Not for plugins.
#ifndef MSWEA_GLUE_H
#define MSWEA_GLUE_H

#include "mswea.h"

// From here on memory lasts as long as the plugin; `false` ends that.
void mswea_lasting(bool lasting);
// Everything that the call has made goes.
void mswea_call_ended(void);

// The host has read the result of an export, so its call has ended. Takes the place of the
// generated function, which would free every piece by itself.
#ifdef __wasm__
#define MSWEA_POST_RETURN(name, function)                                                         \
    __attribute__((__export_name__("cabi_post_" name))) void function(uint8_t *result);           \
    void function(uint8_t *result) {                                                              \
        (void)result;                                                                             \
        mswea_call_ended();                                                                       \
    }
#else
#define MSWEA_POST_RETURN(name, function)
#endif

#endif
