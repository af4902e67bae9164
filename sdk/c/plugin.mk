# Builds a plugin and runs its tests. A plugin's Makefile has
#
#     NAME := my-plugin          the component is build/my-plugin.wasm
#     KIND := parser             adapter, parser, formatter, processor, simple_processor or policy
#     include mswea-sdk/plugin.mk
#
# and may set, with these defaults: SOURCES (plugin.c), TESTS (test_plugin.c), CFLAGS, LDLIBS, WIT,
# BUILD.
#
#     make         the component
#     make test    the tests, on this machine
#     make clean

MSWEA_SDK := $(patsubst %/,%,$(dir $(lastword $(MAKEFILE_LIST))))
WIT ?= $(MSWEA_SDK)/../wit
SOURCES ?= plugin.c
TESTS ?= test_plugin.c
BUILD ?= build
CFLAGS ?= -Os -Wall -Wextra
# For the tests; the sanitizers are added below if the compiler has them.
TEST_CFLAGS ?= -g -O1 -Wall -Wextra

# The tools: any clang, or `zig cc`; the headers of wasi-libc (zig has its own); and from Rust's
# target wasm32-wasip2 the C library and the linker that makes components.
WASM_CC ?= clang
WASI_HEADERS ?= $(patsubst %/stdlib.h,%,$(firstword $(wildcard $(addsuffix /stdlib.h,\
    /usr/include/wasm32-wasi /usr/wasm32-wasi/include /usr/share/wasi-sysroot/include/wasm32-wasi \
    /opt/homebrew/opt/wasi-libc/share/wasi-sysroot/include/wasm32-wasi))))
ifndef RUST_LIBDIR
RUST_LIBDIR := $(shell rustc --print target-libdir --target wasm32-wasip2)
endif
RUST_BINDIR ?= $(patsubst %/wasm-component-ld,%,$(firstword $(wildcard $(abspath $(RUST_LIBDIR)/../..)/*/bin/wasm-component-ld)))

mswea_kind := $(KIND:simple_processor=processor)
ifeq ($(filter $(mswea_kind),adapter parser formatter processor policy),)
$(error KIND is `$(KIND)`; it has to be adapter, parser, formatter, processor, simple_processor or policy)
endif

mswea_sources := $(addprefix $(MSWEA_SDK)/,mswea.c text.c json.c values.c history.c kinds/$(KIND).c)
mswea_headers := $(wildcard $(MSWEA_SDK)/*.h $(MSWEA_SDK)/bindings/*.h)
mswea_bindings := $(MSWEA_SDK)/bindings/$(mswea_kind).c
mswea_object = $(patsubst %.c,$(BUILD)/$(1)/%.o,$(subst ../,__/,$(2)))
mswea_wasm_flags := --target=wasm32-wasi -std=gnu11 -I$(MSWEA_SDK) $(if $(filter cc,$(WASM_CC)),,-isystem $(WASI_HEADERS))

.PHONY: plugin test clean
plugin: $(BUILD)/$(NAME).wasm

# The linker reads the component's world from the contract's text.
$(BUILD)/world.wit: $(wildcard $(WIT)/*.wit) $(MAKEFILE_LIST)
	@mkdir -p $(BUILD)
	@{ echo 'package mswea:component;'; \
	  echo 'world component { include mswea:plugin/$(mswea_kind)@'$$(sed -n 's/^package mswea:plugin@\(.*\);/\1/p' $(WIT)/*.wit | head -n 1)'; }'; \
	  sed -n '/^package mswea:plugin@/{s/;/ {/p;q;}' $(WIT)/types.wit; \
	  sed '/^package /d' $(WIT)/*.wit; echo '}'; } > $@

define mswea_compile
$(call mswea_object,wasm,$(1)): $(1) $$(mswea_headers) $$(MAKEFILE_LIST)
	@mkdir -p $$(@D)
	$$(WASM_CC) $$(mswea_wasm_flags) $(2) -MMD -MP -c $$< -o $$@
-include $(patsubst %.o,%.d,$(call mswea_object,wasm,$(1)))
endef
$(foreach source,$(SOURCES) $(mswea_sources),$(eval $(call mswea_compile,$(source),$$(CFLAGS))))
$(eval $(call mswea_compile,$(mswea_bindings),-Os -w))

mswea_objects := $(foreach source,$(SOURCES) $(mswea_sources) $(mswea_bindings),$(call mswea_object,wasm,$(source)))

$(BUILD)/$(NAME).wasm: $(mswea_objects) $(BUILD)/world.wit
	$(RUST_BINDIR)/wasm-component-ld --wasm-ld-path $(RUST_BINDIR)/gcc-ld/wasm-ld \
	    -L $(RUST_LIBDIR)/self-contained $(RUST_LIBDIR)/self-contained/crt1-reactor.o \
	    $(mswea_objects) $(LDLIBS) -lc $(wildcard $(RUST_LIBDIR)/libcompiler_builtins-*.rlib) \
	    --gc-sections --no-entry --strip-all --stack-first -z stack-size=1048576 \
	    --component-type $(BUILD)/world.wit -o $@

mswea_sanitize = $(shell echo 'int main(void) { return 0; }' | $(CC) -fsanitize=address,undefined -x c - -o /dev/null 2>/dev/null && echo '-fsanitize=address,undefined -fno-sanitize-recover')

test: $(BUILD)/test
	$(BUILD)/test

$(BUILD)/test: $(TESTS) $(SOURCES) $(wildcard *.h) $(mswea_sources) $(MSWEA_SDK)/testing.c $(mswea_headers) $(MAKEFILE_LIST)
	@mkdir -p $(BUILD)
	$(CC) -std=gnu11 -I$(MSWEA_SDK) $(TEST_CFLAGS) $(mswea_sanitize) -DMSWEA_TESTING \
	    $(TESTS) $(SOURCES) $(mswea_sources) $(MSWEA_SDK)/testing.c -lm -o $@

clean:
	rm -rf $(BUILD)
