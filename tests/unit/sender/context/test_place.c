/* SPDX-License-Identifier: Apache-2.0 */
/* The place of the variable in this very process: libraries are built with every access model there is,
 * loaded, and what is found leads to the address the program itself has. */
#include "tests/lib/unit.h"

#include <asm/prctl.h>
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>

#include "proto/base/macros.h"
#include "sender/context/place.h"
#include "sender/context/variable.h"
#include "tests/unit/sender/symbolize/built.h"

#define SOURCE PG_SOURCE_DIR "/tests/sender/contextlib.c"

static struct procs *procs;
static struct process *self;
static struct built b;
static void *library;

static void begin(void)
{
    built_need("gcc");
    b = built_new();
}

static void look_at_ourselves(void)
{
    procs = unit_made(procs_new("/proc"));
    uint64_t start;
    char text[4096];
    FILE *f = fopen("/proc/self/stat", "r");
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = 0;
    unsigned long long ticks;
    ck_assert_int_eq(sscanf(strrchr(text, ')'),
                            ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d "
                            "%*d %*d %*d %llu",
                            &ticks),
                     1);
    start = ticks * (UINT64_C(1000000000) / (uint64_t)sysconf(_SC_CLK_TCK));
    self = unit_made(procs_get(procs, (uint32_t)getpid(), (uint32_t)getpid(), start, "test", false, 1));
    /* However young it is, somebody asks. */
    ck_assert_ptr_nonnull(procs_region(procs, self, (uint64_t)(uintptr_t)look_at_ourselves, true, 1));
}

static int load(uint64_t address, uint64_t *to)
{
    if (address == 0 || address > (uint64_t)INT64_MAX)
        return -EFAULT;
    memcpy(to, (const void *)(uintptr_t)address, sizeof *to);
    return 0;
}

/* What the kernel side would find in the calling thread. */
static uint64_t variable_of(const struct context_place *place)
{
    unsigned long thread;
    uint64_t at;
    ck_assert_int_eq(syscall(SYS_arch_prctl, ARCH_GET_FS, &thread), 0);
    CONTEXT_VARIABLE(place, thread, load, &at);
    return at;
}

static void *in_a_thread(void *place)
{
    static uint64_t before, after;
    before = variable_of(place);
    void *own = dlsym(library, "otel_thread_ctx_v1"); /* makes this thread's storage, if it was not there */
    after = variable_of(place);
    ck_assert(before == 0 || before == after);
    ck_assert_uint_eq(after, (uint64_t)(uintptr_t)own);
    return NULL;
}

static void found_by(const char *flags)
{
    char path[256];
    struct context_place place;
    pthread_t thread;
    begin();
    ck_assert_int_eq(built_run(&b, "gcc -O2 -fPIC -shared %s %s -o lib.so", flags, SOURCE), 0);
    snprintf(path, sizeof path, "%s/lib.so", b.folder);
    library = dlopen(path, RTLD_NOW);
    ck_assert_msg(library != NULL, "%s", dlerror());
    void (*publish)(void *) = (void (*)(void *))(uintptr_t)dlsym(library, "context_publish");
    publish(&place);
    look_at_ourselves();
    ck_assert_int_eq(place_find(procs, self, NULL, &place), 0);
    ck_assert_uint_eq(place.start, self->start);
    ck_assert_uint_eq(variable_of(&place), (uint64_t)(uintptr_t)dlsym(library, "otel_thread_ctx_v1"));
    ck_assert_int_eq(pthread_create(&thread, NULL, in_a_thread, &place), 0);
    pthread_join(thread, NULL);
    procs_free(procs);
    dlclose(library);
    built_free(&b);
}

UNIT(a_descriptor)
{
    found_by("-mtls-dialect=gnu2");
}
UNIT(a_descriptor_among_those_of_the_plt)
{
    found_by("-mtls-dialect=gnu2 -Wl,-z,lazy");
}
UNIT(a_descriptor_of_the_module)
{
    found_by("-mtls-dialect=gnu2 -Wl,-Bsymbolic");
}
UNIT(module_and_offset)
{
    found_by("-mtls-dialect=gnu");
}
UNIT(an_offset_from_the_thread_pointer)
{
    found_by("-ftls-model=initial-exec");
}
UNIT(the_old_hash_table)
{
    found_by("-mtls-dialect=gnu2 -Wl,--hash-style=sysv");
}
UNIT(linked_by_lld)
{
    built_need("ld.lld");
    found_by("-mtls-dialect=gnu2 -fuse-ld=lld");
}

UNIT(a_process_without_it_has_no_place)
{
    struct context_place place;
    look_at_ourselves();
    ck_assert_int_eq(place_find(procs, self, NULL, &place), -ENOENT);
    self->is_gone = true;
    ck_assert_int_eq(place_find(procs, self, NULL, &place), -ENOENT);
    procs_free(procs);
}

UNIT(vectors_that_lead_nowhere_are_no_place)
{
    uint64_t entry[8] = {0, 1 /* how many */, 7, 0, 0x1000, 0, ~0ull, 0};
    uint64_t thread[2] = {0, (uint64_t)(uintptr_t)(entry + 3)};
    struct context_place p = {.how = CONTEXT_GLIBC, .module = 1, .offset = 8};
    uint64_t at, from = (uint64_t)(uintptr_t)thread;
    CONTEXT_VARIABLE(&p, from, load, &at);
    ck_assert_uint_eq(at, 0); /* its block is not there */
    entry[5] = 0x2000;
    CONTEXT_VARIABLE(&p, from, load, &at);
    ck_assert_uint_eq(at, 0x2008);
    entry[5] = ~0ull; /* TLS_DTV_UNALLOCATED */
    CONTEXT_VARIABLE(&p, from, load, &at);
    ck_assert_uint_eq(at, 0);
    entry[5] = 0x2000;
    p.module = 2; /* loaded after the thread's vector was made */
    CONTEXT_VARIABLE(&p, from, load, &at);
    ck_assert_uint_eq(at, 0);
    p.how = CONTEXT_NOWHERE;
    CONTEXT_VARIABLE(&p, from, load, &at);
    ck_assert_uint_eq(at, 0);
    uint64_t musl[3] = {2, 0x3000, 0x4000};
    thread[1] = (uint64_t)(uintptr_t)musl;
    p = (struct context_place){.how = CONTEXT_MUSL, .module = 2, .offset = 16};
    CONTEXT_VARIABLE(&p, from, load, &at);
    ck_assert_uint_eq(at, 0x4010);
    p.module = 3;
    CONTEXT_VARIABLE(&p, from, load, &at);
    ck_assert_uint_eq(at, 0);
}

/* What a program has itself is known by its headers. */
static void in_program(const char *flags, enum variable_access access)
{
    struct source s;
    struct variable v;
    begin();
    ck_assert_int_eq(built_run(&b,
                               "echo 'int main(void) { return 0; }' >m.c && gcc -O2 -rdynamic %s %s m.c -o p",
                               flags, SOURCE),
                     0);
    char path[256];
    snprintf(path, sizeof path, "%s/p", b.folder);
    autoclose int fd = open(path, O_RDONLY);
    ck_assert_int_eq(source_file(&s, fd), 0);
    ck_assert_int_eq(variable_find(&s, &v), 0);
    ck_assert_int_eq(v.access, access);
    ck_assert(v.access != VARIABLE_EXECUTABLE || (v.offset < 0 && v.offset >= -2000));
    built_free(&b);
}

UNIT(a_program_s_own)
{
    in_program("-fno-pic -no-pie", VARIABLE_EXECUTABLE);
}
UNIT(a_program_s_own_pie)
{
    in_program("-fpie -pie", VARIABLE_EXECUTABLE);
}
UNIT(a_program_s_own_by_its_table)
{
    in_program("-fPIC -pie -ftls-model=initial-exec", VARIABLE_THREAD);
}

UNIT(no_truncation_is_believed)
{
    static uint8_t bytes[65536];
    char path[256];
    struct variable v;
    begin();
    ck_assert_int_eq(built_run(&b, "gcc -O2 -fPIC -shared -mtls-dialect=gnu2 -s %s -o lib.so", SOURCE), 0);
    snprintf(path, sizeof path, "%s/lib.so", b.folder);
    FILE *f = fopen(path, "r");
    size_t n = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    struct source whole = source_memory(bytes_of(bytes, n));
    ck_assert_int_eq(variable_find(&whole, &v), 0);
    for (size_t less = 0; less < n; less += 61) {
        struct source s = source_memory(bytes_of(bytes, less));
        int r = variable_find(&s, &v);
        ck_assert(r == 0 || r == VARIABLE_NONE || r == -ENOTSUP);
    }
    built_free(&b);
}

/* A file that has more of everything than a reader could bear: segments, and a chain of symbols that never
 * ends. It is sparse: nobody pays for it but who reads. */
static void endless(const char *path)
{
    enum { SEGMENTS = 60, SYMBOLS = 1 << 20, STRINGS = 0x4000, HASH = 0x5000, TABLE = 0x6000 };
    Elf64_Ehdr h = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, 1},
                    .e_type = ET_DYN,
                    .e_machine = EM_X86_64,
                    .e_phoff = sizeof h,
                    .e_phentsize = sizeof(Elf64_Phdr),
                    .e_phnum = 1024};
    Elf64_Phdr p[1024] = {{.p_type = PT_TLS, .p_memsz = 64},
                          {.p_type = PT_DYNAMIC, .p_offset = 0x3f000, .p_filesz = 5 * sizeof(Elf64_Dyn)}};
    Elf64_Dyn d[5] = {{DT_SYMTAB, {TABLE}}, {DT_STRTAB, {STRINGS}}, {DT_STRSZ, {64}}, {DT_HASH, {HASH}}};
    uint32_t hash[4] = {1, SYMBOLS, 1, 0}, next;
    for (uint32_t i = 2; i < 1024; i++)
        p[i] = (Elf64_Phdr){.p_type = PT_NOTE, .p_filesz = 1 << 16, .p_align = 4};
    p[SEGMENTS] = (Elf64_Phdr){.p_type = PT_LOAD, .p_flags = PF_X, .p_filesz = 1ull << 40};
    autoclose int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
    ck_assert_int_eq(ftruncate(fd, 1ll << 40), 0);
    ck_assert_int_eq(pwrite(fd, &h, sizeof h, 0), sizeof h);
    ck_assert_int_eq(pwrite(fd, p, sizeof p, sizeof h), sizeof p);
    ck_assert_int_eq(pwrite(fd, d, sizeof d, 0x3f000), sizeof d);
    ck_assert_int_eq(pwrite(fd, "otel", 5, STRINGS), 5);
    ck_assert_int_eq(pwrite(fd, hash, sizeof hash, HASH), sizeof hash);
    next = 1;
    ck_assert_int_eq(pwrite(fd, &next, 4, HASH + 16), 4); /* the first symbol's next is itself */
}

UNIT(a_file_without_end_costs_little)
{
    char path[256];
    struct source s;
    struct variable v;
    begin();
    snprintf(path, sizeof path, "%s/endless", b.folder);
    endless(path);
    autoclose int fd = open(path, O_RDONLY);
    ck_assert_int_eq(source_file(&s, fd), 0);
    struct allowance a = {.left = INT64_MAX};
    s.allowance = &a;
    ck_assert_int_eq(variable_find(&s, &v), VARIABLE_NONE);
    ck_assert_int_lt(INT64_MAX - a.left, PLACE_COST_MAX);
    built_free(&b);
}

UNIT(a_search_ends_with_its_allowance)
{
    struct context_place place;
    look_at_ourselves();
    struct allowance user = {.left = 1};
    ck_assert_int_eq(place_find(procs, self, &user, &place), -EDQUOT);
    ck_assert_int_gt(user.left, -PLACE_COST_MAX);
    procs_free(procs);
}
