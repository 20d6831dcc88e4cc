/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/library_oom.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <unwind.h>

#define CHAIN_MAX  64 /* frames of libraries above ours: OpenSSL's handshake has about thirty */
#define OF_LIBRARY 2
#define OF_OURS    1

struct range {
    uintptr_t from, to;
};

static struct range mapped[LIBRARY_OOM_N], program, test;

/* The test's source, as its object was made from it (oom_exempt.h); other programs have none. */
const char *oom_test_source(void) __attribute__((weak));

static bool is_in(struct range r, uintptr_t at)
{
    return at >= r.from && at < r.to;
}

/* ---- where everything is ---- */

static struct range *range_of(const char *path)
{
    static const char *const names[] = LIBRARY_OOM_NAMES;
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    if (*path == 0)
        return program.to == 0 ? &program
                               : NULL; /* the first without a name is the program, the other the vDSO */
    for (uint32_t i = 0; i < LIBRARY_OOM_N; i++) {
        size_t n = strlen(names[i]);
        if (strncmp(name, "lib", 3) == 0 && strncmp(name + 3, names[i], n) == 0 && name[3 + n] == '.')
            return &mapped[i];
    }
    return NULL;
}

static int note(struct dl_phdr_info *info, size_t size, void *base)
{
    (void)size;
    struct range *r = range_of(info->dlpi_name);
    if (!r)
        return 0;
    if (r == &program)
        *(uintptr_t *)base = info->dlpi_addr;
    r->from = UINTPTR_MAX;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type != PT_LOAD || !(p->p_flags & PF_X))
            continue;
        uintptr_t from = info->dlpi_addr + p->p_vaddr;
        r->from = from < r->from ? from : r->from;
        r->to = from + p->p_memsz > r->to ? from + p->p_memsz : r->to;
    }
    return 0;
}

/* The functions of a source are static, but for its constructors', and stand together: those that come behind
 * the source's name in the table of symbols. */
static void find_test(const Elf64_Sym *symbol, size_t n, const char *names, uintptr_t base)
{
    const char *slash = strrchr(oom_test_source(), '/'), *source = slash ? slash + 1 : oom_test_source();
    bool inside = false;
    struct range found = {UINTPTR_MAX, 0};
    for (size_t i = 0; i < n; i++) {
        unsigned type = ELF64_ST_TYPE(symbol[i].st_info);
        if (type == STT_FILE)
            inside = strcmp(names + symbol[i].st_name, source) == 0;
        if (!inside || type != STT_FUNC || ELF64_ST_BIND(symbol[i].st_info) != STB_LOCAL)
            continue;
        uintptr_t from = base + symbol[i].st_value;
        found.from = from < found.from ? from : found.from;
        found.to = from + symbol[i].st_size > found.to ? from + symbol[i].st_size : found.to;
    }
    if (found.to > 0)
        test = found;
}

static void read_symbols(const uint8_t *file, uintptr_t base)
{
    const Elf64_Ehdr *head = (const Elf64_Ehdr *)file;
    const Elf64_Shdr *section = (const Elf64_Shdr *)(file + head->e_shoff);
    for (uint32_t i = 0; i < head->e_shnum; i++)
        if (section[i].sh_type == SHT_SYMTAB)
            find_test((const Elf64_Sym *)(file + section[i].sh_offset),
                      section[i].sh_size / sizeof(Elf64_Sym),
                      (const char *)file + section[section[i].sh_link].sh_offset, base);
}

/* Of libcrypto, if it is linked. */
int OPENSSL_init_crypto(uint64_t options, const void *settings) __attribute__((weak));
int RAND_bytes(unsigned char *ret, int n) __attribute__((weak));
const void *EVP_sha256(void) __attribute__((weak));
int EVP_Digest(const void *data, size_t n, unsigned char *ret, unsigned *ret_n, const void *type,
               void *engine) __attribute__((weak));

static void begin_openssl(void)
{
    unsigned char digest[32];
    if (OPENSSL_init_crypto && RAND_bytes && EVP_sha256 && EVP_Digest) {
        OPENSSL_init_crypto(0, NULL);
        EVP_Digest("", 0, digest, NULL, EVP_sha256(), NULL);
        RAND_bytes(digest, sizeof digest);
    }
}

void library_oom_begin(void)
{
    if (program.to != 0)
        return;
    begin_openssl();
    uintptr_t base = 0;
    dl_iterate_phdr(note, &base);
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd >= 0 && fstat(fd, &st) == 0 && oom_test_source) {
        void *file = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (file != MAP_FAILED) {
            read_symbols(file, base);
            munmap(file, (size_t)st.st_size);
        }
    }
    if (fd >= 0)
        close(fd);
}

int library_oom_of(const void *at)
{
    for (uint32_t i = 0; i < LIBRARY_OOM_N; i++)
        if (is_in(mapped[i], (uintptr_t)at))
            return (int)i;
    return -1;
}

bool library_oom_is_fatal(int library, enum library_oom_by by)
{
    static const char *const names[] = LIBRARY_OOM_NAMES;
    static const struct {
        const char *library;
        enum library_oom_by by;
    } fatal[] = {
        /* 1.44, src/unix/core.c, maybe_resize(): abort() when the table of descriptors cannot grow. */
        {"uv", BY_REALLOC},
        /* 0.16, json_tokener.c: a key is copied by strdup() and looked up unseen. */
        {"json-c", BY_STRDUP},
    };
    for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++)
        if (fatal[i].by == by && strcmp(fatal[i].library, names[library]) == 0)
            return true;
    return false;
}

/* ---- for whom ---- */

struct chain {
    uint64_t hash;
    uint32_t n, of_library, of_ours;
    bool for_test;
};

static void add(struct chain *c, uintptr_t at)
{
    c->hash = (c->hash ^ at) * 0xff51afd7ed558ccdu;
    c->hash ^= c->hash >> 29;
}

/* The first of our frames says for whom. The shim's own, in the program too, come before any library's. */
static _Unwind_Reason_Code step(struct _Unwind_Context *context, void *to)
{
    struct chain *c = to;
    uintptr_t at = _Unwind_GetIP(context);
    if (++c->n > CHAIN_MAX)
        return _URC_END_OF_STACK;
    if (library_oom_of((const void *)at) >= 0 && c->of_ours == 0) {
        if (c->of_library++ < OF_LIBRARY)
            add(c, at);
    } else if (c->of_library > 0 && is_in(program, at)) {
        if (c->of_ours == 0)
            c->for_test = is_in(test, at);
        add(c, at);
        if (++c->of_ours == OF_OURS)
            return _URC_END_OF_STACK;
    }
    return _URC_NO_REASON;
}

uint64_t library_oom_place(void)
{
    struct chain c = {.hash = 0x9e3779b97f4a7c15u};
    _Unwind_Backtrace(step, &c);
    return c.of_ours > 0 && !c.for_test ? c.hash | 1 : 0;
}
