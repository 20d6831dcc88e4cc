/* SPDX-License-Identifier: Apache-2.0 */
/* Debug files from the network, by a libdebuginfod of our own: who asks for it by name gets the one that is
 * loaded. Which servers a distribution names. */
#include "tests/lib/unit.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/clock.h"
#include "sender/symbolize/binaries.h"
#include "sender/symbolize/fetch.h"
#include "tests/unit/sender/symbolize/built.h"

/* Has the one file whose id begins with 'h', and of id 'l' what LATE says; takes a while for each answer. */
static const char library[] =
    "#include <fcntl.h>\n#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n"
    "void *debuginfod_begin(void) { return malloc(1); }\n"
    "void debuginfod_end(void *c) { free(c); }\n"
    "void debuginfod_set_progressfn(void *c, int (*f)(void *, long, long)) {}\n"
    "int debuginfod_find_debuginfo(void *c, const unsigned char *id, int n, char **path)\n"
    "{ usleep(2000); if (*id != 'h' && *id != 'l') return -2;\n"
    "  *path = strdup(*id == 'h' ? \"/proc/self/exe\" : getenv(\"LATE\")); return open(*path, O_RDONLY); }\n";

/* Makes the library that is asked, and asks it. */
static struct fetch *fetch_made(const struct built *b)
{
    struct error e = {0};
    struct fetch *f;
    char path[128];
    built_need("gcc");
    built_text(b, "fake.c", library);
    ck_assert_int_eq(built_run(b, "gcc -shared -fPIC -w -Wl,-soname,libdebuginfod.so.1 fake.c -o fake.so"),
                     0);
    snprintf(path, sizeof path, "%s/fake.so", b->folder);
    ck_assert_msg(dlopen(path, RTLD_NOW) != NULL, "%s", dlerror());
    setenv("DEBUGINFOD_URLS", "http://127.0.0.1:1", 1);
    ck_assert_int_eq(fetch_new(&f, NULL, &e), 0);
    return f;
}

UNIT(invented_ids_switch_nothing_off)
{
    cleanup(built_free) struct built b = built_new();
    struct fetch *f = fetch_made(&b);
    char id[16];
    int fd = -1, r = FETCH_LATER;
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
}

enum { N_FUNCTIONS = 4000 };

static bool wants(struct binaries *b, const struct built *built, uint32_t number, uint64_t address)
{
    if (!binaries_want(b, number, address, 1))
        return false;
    ck_assert(binaries_reopen(b, number, built_open(built, "program")));
    ck_assert(!binaries_want(b, number, address, 1));
    return true;
}

/* A program whose debug file comes while it is sampled: `busy`, with something new in each window. What has a
 * symbol's name keeps it until lines are there. */
static void comes_late(bool busy)
{
    cleanup(built_free) struct built built = built_new();
    struct fetch *f = fetch_made(&built);
    char late[128];
    built_need("objcopy");
    built_text(
        &built, "program.c",
        "#define F(n) __attribute__((noinline)) int f##n(int x) { return x * n; }\n#include \"all.h\"\n"
        "int main(int n, char **v) { return f0(n); }\n");
    ck_assert_int_eq(
        built_run(&built,
                  "seq 0 %d | sed 's/.*/F(&)/' > all.h && gcc -g -rdynamic -Wl,-e,f0,--build-id=0x6c%016d "
                  "program.c -o program && objcopy --only-keep-debug program late && strip -s program",
                  N_FUNCTIONS, busy),
        0);
    snprintf(late, sizeof late, "%s/late", built.folder);
    setenv("LATE", late, 1);
    struct binaries *b = unit_made(binaries_new());
    binaries_configure(b, &(struct binaries_options){.fetch = f});
    uint32_t number =
        built_add(b, (struct binary_key){.inode = 1}, "program", built_open(&built, "program"), NULL);
    ck_assert_uint_ne(number, 0);
    uint64_t at = binaries_get(b, number)->elf.entry, other = at;
    struct binary_name name;
    uint64_t end = clock_monotonic() + unit_patience(10 * NSEC_PER_SEC);
    for (binaries_want(b, number, at, 1);; binaries_sweep(b)) {
        binaries_resolve(b);
        name = binaries_name(b, number, at);
        ck_assert_uint_ge(name.n_lines, 1);
        ck_assert(bytes_is(binaries_line(b, &name, 0).name, "f0"));
        if (binaries_line(b, &name, 0).line)
            break;
        ck_assert_uint_lt(clock_monotonic(), end);
        wants(b, &built, number, at);
        if (busy && other - at < 4 * N_FUNCTIONS)
            wants(b, &built, number, other += 64);
        usleep(1000);
    }
    binaries_free(b);
    fetch_free(f);
}

UNIT(what_comes_late_takes_no_name_away)
{
    comes_late(false);
}

UNIT(what_comes_late_reaches_busy_programs)
{
    comes_late(true);
}

UNIT(the_servers_of_all_files_are_joined)
{
    char urls[256];
    cleanup(built_free) struct built b = built_new();
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
}
