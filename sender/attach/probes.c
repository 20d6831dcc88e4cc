/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <errno.h>
#include <gnu/libc-version.h>
#include <string.h>

#include "proto/base/macros.h"
#include "sender/attach/parts.h"

/* The malloc family, and which argument says how much. What a library lacks is left out. */
static const struct {
    const char *symbol;
    enum sample_weight weight;
} allocators[] = {
    {"malloc", SAMPLE_WEIGHS_FIRST},    {"calloc", SAMPLE_WEIGHS_PRODUCT},
    {"realloc", SAMPLE_WEIGHS_REGROWN}, {"aligned_alloc", SAMPLE_WEIGHS_SECOND},
    {"memalign", SAMPLE_WEIGHS_SECOND}, {"posix_memalign", SAMPLE_WEIGHS_THIRD},
};

static int add_probe(struct sampler *s, const char *file, const char *symbol, uint64_t cookie)
{
    LIBBPF_OPTS(bpf_uprobe_opts, options, .func_name = symbol,
                .bpf_cookie = s->options.features.cookies ? cookie : 0);
    int pid = s->options.only_pid ? (int)s->options.only_pid : -1;
    if (s->n_probes == PROBES_MAX)
        return -E2BIG;
    struct bpf_link *link = bpf_program__attach_uprobe_opts(s->skel->progs.on_probe, pid, file, 0, &options);
    if (!link)
        return -errno;
    s->probe[s->n_probes++] = link;
    return 0;
}

/* Where our own C library is. */
static const char *own_libc(void)
{
    Dl_info info;
    return dladdr((void *)(uintptr_t)gnu_get_libc_version, &info) && info.dli_fname ? info.dli_fname
                                                                                    : "libc.so.6";
}

static int add_allocators(struct sampler *s, const struct kind *kind, uint32_t source)
{
    const char *file = strcmp(kind->file, "libc") == 0 ? own_libc() : kind->file;
    for (size_t i = 0; i < ARRAY_LEN(allocators); i++) {
        int r = add_probe(s, file, allocators[i].symbol, (uint64_t)allocators[i].weight << 8 | source);
        if (i == 0 && r < 0)
            return r; /* without malloc it is no allocator */
    }
    return 0;
}

int probes_attach(struct sampler *s)
{
    for (uint32_t i = SAMPLE_FROM_OTHERS; i < SAMPLE_SOURCES; i++) {
        const struct kind *kind = &s->options.kinds->at[i];
        int r = kind->how == KIND_PROBE   ? add_probe(s, kind->file, kind->symbol, i)
                : kind->how == KIND_ALLOC ? add_allocators(s, kind, i)
                                          : 0;
        if (r < 0)
            return r;
    }
    return 0;
}

void probes_detach(struct sampler *s)
{
    for (uint32_t i = 0; i < s->n_probes; i++)
        bpf_link__destroy(s->probe[i]);
    s->n_probes = 0;
}
