/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Go's row: its frames are machine code, which sender/unwind and sender/symbolize know; what the step has to
 * know is where a thread has its goroutine, and that its labels.
 *
 * The linker leaves the version in .go.buildinfo (debug/buildinfo/buildinfo.go), also in stripped programs.
 */
#include "sender/runtimes/go/go.h"

#include <errno.h>
#include <string.h>

#include "bpf/go.h"
#include "proto/base/macros.h"
#include "sender/runtimes/runtime.h"
#include "sender/symbolize/elf/elf.h"

#define BUILD_HEAD_BYTES    32u /* magic, size of pointers, flags, and what older versions had */
#define BUILD_FLAGS_AT      15u
#define BUILD_IS_INLINE     2u /* the version is behind the head, its length before it (Go 1.18 and later) */
#define BUILD_VERSION_MAX   32u
#define BUILD_VERSION_SHORT 0x80u /* of a varint: one byte */

/* Where a thread has its goroutine, without other thread-local storage in the program (cmd/link: tlsoffset).
 */
#define GO_THREAD_OFFSET (-8)
#define GO_THREAD_SIZE   8u

/* struct g and struct m (runtime/runtime2.go) of 64-bit programs, by the first minor version that has them
 * so; the last row is of none that was seen. */
static const struct layout {
    uint32_t minor;
    uint32_t current, labels;
    bool is_map;
} layouts[] = {
    {18, 192, 360, true},  {21, 192, 344, true},  {23, 192, 352, true}, {24, 192, 352, false},
    {25, 184, 344, false}, {26, 184, 352, false}, {28, 0, 0, false},
};
#define GO_M 48u

uint32_t go_minor(const struct source *file, const struct elf *elf)
{
    static const char magic[] = "\xff Go buildinf:";
    uint8_t head[BUILD_HEAD_BYTES + 1 + BUILD_VERSION_MAX] = {0};
    const uint8_t *text = head + BUILD_HEAD_BYTES + 1;
    size_t n = elf->go_build.size ? source_read_some(file, elf->go_build.offset, head, sizeof head) : 0;
    if (n <= BUILD_HEAD_BYTES || memcmp(head, magic, sizeof magic - 1) != 0 ||
        !(head[BUILD_FLAGS_AT] & BUILD_IS_INLINE) || head[BUILD_HEAD_BYTES] >= BUILD_VERSION_SHORT)
        return 0;
    struct bytes version = bytes_of(text, min_of(n - BUILD_HEAD_BYTES - 1, (size_t)head[BUILD_HEAD_BYTES]));
    uint32_t minor = 0;
    if (!bytes_starts(version, "go1."))
        return 0;
    for (size_t i = 4; i < version.n && version.p[i] >= '0' && version.p[i] <= '9' && minor < 1000; i++)
        minor = 10 * minor + (version.p[i] - '0');
    return minor;
}

static bool recognise(const struct runtime_file *file)
{
    struct elf elf;
    return elf_read(&elf, file->source) == 0 && elf.entry && go_minor(file->source, &elf) != 0;
}

static int prepare(const struct runtime_process *process, struct runtime_place *ret)
{
    struct elf elf;
    const struct layout *found = NULL;
    if (elf_read(&elf, process->file) < 0)
        return -ENOENT;
    uint32_t minor = go_minor(process->file, &elf);
    for (size_t i = 0; i < ARRAY_LEN(layouts) && layouts[i].minor <= minor; i++)
        found = &layouts[i];
    if (!found || !found->labels || (elf.thread_size && elf.thread_size != GO_THREAD_SIZE))
        return RUNTIME_NOT_KNOWN;
    struct go_place place = {.thread = GO_THREAD_OFFSET,
                             .m = GO_M,
                             .current = found->current,
                             .labels = found->labels,
                             .is_map = found->is_map};
    memcpy(ret->word, &place, sizeof place);
    return 0;
}

const struct runtime runtime_go = {
    .name = "go", .frame_type = "go", .recognise = recognise, .prepare = prepare};
