/* SPDX-License-Identifier: Apache-2.0 */
/* Debug files from the network, by a libdebuginfod of our own: who asks for it by name gets the one that is
 * loaded. Which servers a distribution names. */
#include "tests/lib/unit.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/clock.h"
#include "sender/symbolize/fetch.h"
#include "tests/unit/sender/symbolize/built.h"

/* Has the one file whose id begins with 'h', and takes a while for each answer. */
static const char library[] =
    "#include <fcntl.h>\n#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n"
    "void *debuginfod_begin(void) { return malloc(1); }\n"
    "void debuginfod_end(void *c) { free(c); }\n"
    "void debuginfod_set_progressfn(void *c, int (*f)(void *, long, long)) {}\n"
    "int debuginfod_find_debuginfo(void *c, const unsigned char *id, int n, char **path)\n"
    "{ usleep(2000); if (*id != 'h') return -2; *path = strdup(\"/proc/self/exe\"); return open(*path, O_RDONLY); }\n";

UNIT(invented_ids_switch_nothing_off)
{
    struct built b = built_new();
    struct error e = {0};
    struct fetch *f;
    char path[128], id[16];
    int fd = -1, r = FETCH_LATER;
    built_need("gcc");
    built_text(&b, "fake.c", library);
    ck_assert_int_eq(built_run(&b, "gcc -shared -fPIC -w -Wl,-soname,libdebuginfod.so.1 fake.c -o fake.so"),
                     0);
    snprintf(path, sizeof path, "%s/fake.so", b.folder);
    ck_assert_msg(dlopen(path, RTLD_NOW) != NULL, "%s", dlerror());
    setenv("DEBUGINFOD_URLS", "http://127.0.0.1:1", 1);
    ck_assert_int_eq(fetch_new(&f, NULL, &e), 0);
    int refused = 0;
    for (int i = 0; i < 4000; i++) { /* asked for in one window by nobody's programs */
        int n = snprintf(id, sizeof id, "%08d", i);
        refused += fetch_open(f, 65534, bytes_of(id, (size_t)n), &fd) == FETCH_NOWHERE;
    }
    ck_assert_int_lt(refused, 4000 - (int)FETCH_WAITING_MAX); /* most wait to be asked for */
    uint64_t end = clock_monotonic() + unit_patience(NSEC_PER_SEC);
    while ((r = fetch_open(f, 0, BYTES_LIT("honest"), &fd)) == FETCH_LATER && clock_monotonic() < end)
        usleep(1000);
    ck_assert_int_eq(r, 0);
    close(fd);
    /* Answers make room for others when the table is full of them. */
    for (uint32_t i = 0, n = 0; n < 2 * FETCH_FILES_MAX && clock_monotonic() < end; i++) {
        int length = snprintf(id, sizeof id, "%08u", i % (2 * FETCH_FILES_MAX));
        n += fetch_open(f, i % 50, bytes_of(id, (size_t)length), &fd) == FETCH_NOWHERE;
        if (i % 256 == 0)
            usleep(10000);
    }
    while ((r = fetch_open(f, 0, BYTES_LIT("hello"), &fd)) == FETCH_LATER && clock_monotonic() < end)
        usleep(1000);
    ck_assert_int_eq(r, 0);
    close(fd);
    fetch_free(f);
    built_free(&b);
}

UNIT(the_servers_of_all_files_are_joined)
{
    char urls[256];
    struct built b = built_new();
    fetch_urls(b.folder, urls, sizeof urls);
    ck_assert_str_eq(urls, "");
    built_text(&b, "elfutils.urls", "https://one.example/\n\n  https://two.example/\n");
    built_text(&b, "local.urls", "http://three.example");
    built_text(&b, "readme.txt", "http://not-a-server.example");
    fetch_urls(b.folder, urls, sizeof urls);
    ck_assert_str_eq(urls, "https://one.example/ https://two.example/ http://three.example");
    fetch_urls(b.folder, urls, 40);
    ck_assert_str_eq(urls, "");
    fetch_urls("/nonexistent", urls, sizeof urls);
    ck_assert_str_eq(urls, "");
    built_free(&b);
}
