/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "proto/base/macros.h"
#include "sender/runtimes/runtime.h"

UNIT(every_tag_has_a_row)
{
    for (uint32_t i = 0; i < RUNTIME_TAGS; i++) {
        const struct runtime *r = runtime_of(i);
        ck_assert_ptr_nonnull(r);
        ck_assert_ptr_nonnull(r->name);
        ck_assert_ptr_nonnull(r->frame_type);
        for (uint32_t k = 0; k < i; k++)
            ck_assert_str_ne(r->name, runtime_of(k)->name);
        /* A step wants a place; its words want a name: Go's tells none. */
        ck_assert(i == RUNTIME_NATIVE || (r->recognise && r->prepare && (r->resolve || i == RUNTIME_GO)));
    }
    ck_assert_ptr_eq(runtime_of(RUNTIME_TAGS), runtime_of(RUNTIME_NATIVE));
}

/* Whose code a file has. */
static enum runtime_tag runtime_in(const char *path)
{
    struct source source;
    autoclose int fd = open(path, O_RDONLY);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(source_file(&source, fd), 0);
    return runtime_recognise(&(struct runtime_file){.path = bytes_str(path), .source = &source});
}

UNIT(what_nobody_recognises_is_native)
{
    struct source nothing = source_memory(bytes_of(NULL, 0));
    struct runtime_file file = {.path = BYTES_LIT("/no/runtime/of/python3.11"), .source = &nothing};
    ck_assert_int_eq(runtime_recognise(&file), RUNTIME_NATIVE);
    ck_assert_int_eq(runtime_in("/proc/self/exe"), RUNTIME_NATIVE);
}

UNIT(python_is_recognised_by_what_it_exports)
{
    char path[PATH_MAX];
    if (!realpath("/usr/bin/python3", path))
        unit_skip("no Python here");
    ck_assert_int_eq(runtime_in(path), RUNTIME_CPYTHON);
}

UNIT(ruby_is_recognised_by_what_it_exports)
{
    static const char *const names[] = {"/usr/lib/x86_64-linux-gnu/libruby-3.1.so.3.1", "/usr/bin/ruby"};
    if (access(names[0], R_OK) != 0)
        unit_skip("no Ruby of Debian 12 here");
    ck_assert_int_eq(runtime_in(names[0]), RUNTIME_RUBY);
    ck_assert_int_eq(runtime_in(names[1]), RUNTIME_NATIVE); /* it is all in the library */
}
