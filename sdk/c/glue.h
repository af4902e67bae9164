// Shared by the SDK's own files: the beginning and the end of a call. Not for plugins.
#ifndef MSWEA_GLUE_H
#define MSWEA_GLUE_H

#include "mswea.h"

// With `true`, memory that is allocated from now on is valid as long as the instance; `false` ends
// this.
void mswea_lasting(bool lasting);
// Frees all memory of the call.
void mswea_call_ended(void);

// The host calls this function when it has read the result of an export: the call has ended. It
// replaces the generated function, which would free every piece separately.
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
