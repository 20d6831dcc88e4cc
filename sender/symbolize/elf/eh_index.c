/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/symbolize/elf/eh_index.h"

/* Version, three encodings, 4 bytes, how many; then the entries. */
struct header {
    uint8_t version, frame_encoding, count_encoding, table_encoding;
    int32_t frame;
    uint32_t n;
};
#define ENCODING_UDATA4  0x03u
#define ENCODING_DATAREL 0x3bu

bool eh_index_open(struct eh_index *x, const struct dynamic *d)
{
    const Elf64_Phdr *segment = dynamic_header(d, PT_GNU_EH_FRAME);
    struct header header;
    if (!segment || !dynamic_read(d, segment->p_vaddr, &header, sizeof header) || header.version != 1 ||
        header.count_encoding != ENCODING_UDATA4 || header.table_encoding != ENCODING_DATAREL)
        return false;
    *x = (struct eh_index){d, segment->p_vaddr, header.n};
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
