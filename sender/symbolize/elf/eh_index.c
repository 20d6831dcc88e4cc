/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/symbolize/elf/eh_index.h"

#include <stddef.h>

/* Version, three encodings, 4 bytes, how many; then the entries. */
struct header {
    uint8_t version, frame_encoding, count_encoding, table_encoding;
    int32_t frame;
    uint32_t n;
};
_Static_assert(sizeof(struct header) == EH_INDEX_HEAD, "as in the file");
enum { PCREL_SDATA4 = 0x1b, UDATA4 = 0x03, DATAREL_SDATA4 = 0x3b };

bool eh_index_open(struct eh_index *x, const struct dynamic *d)
{
    const Elf64_Phdr *segment = dynamic_header(d, PT_GNU_EH_FRAME);
    struct header h;
    if (!segment || segment->p_filesz < sizeof h || !dynamic_read(d, segment->p_vaddr, &h, sizeof h) ||
        h.version != 1)
        return false;
    *x = (struct eh_index){.in = d, .base = segment->p_vaddr};
    if (h.frame_encoding == PCREL_SDATA4)
        x->frames = x->base + offsetof(struct header, frame) + (uint64_t)(int64_t)h.frame;
    if (h.count_encoding == UDATA4 && h.table_encoding == DATAREL_SDATA4 &&
        h.n <= (segment->p_filesz - sizeof h) / sizeof(struct eh_entry))
        x->n = h.n;
    return true;
}

bool eh_index_read(const struct eh_index *x, uint32_t i, struct eh_entry *to, uint32_t n)
{
    return dynamic_read(x->in, x->base + sizeof(struct header) + i * (uint64_t)sizeof *to, to,
                        n * sizeof *to);
}

bool eh_index_bounds(const struct dynamic *d, uint64_t address, uint64_t *start, uint64_t *end)
{
    struct eh_index index;
    struct eh_entry entry, next;
    if (!eh_index_open(&index, d))
        return false;
    uint32_t low = 0, high = index.n;
    while (low < high) { /* the first one behind the address */
        uint32_t middle = low + (high - low) / 2;
        if (!eh_index_read(&index, middle, &entry, 1))
            return false;
        if (eh_index_address(&index, entry.start) <= address)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0 || low == index.n || !eh_index_read(&index, low - 1, &entry, 1) ||
        !eh_index_read(&index, low, &next, 1))
        return false;
    *start = eh_index_address(&index, entry.start);
    *end = eh_index_address(&index, next.start);
    return *start < *end;
}
