/* SPDX-License-Identifier: Apache-2.0 */
/* needs: sender/symbolize */
/* Debug information of a profiled process's file: an ELF file, every address of its code asked for. */
#include "sender/symbolize/dwarf/dwarf.h"
#include "tests/fuzz/fuzz.h"

/* No input is longer than some kilobytes: what does more work than this is caught going round in circles. */
#define WORK     (4ll << 20)
#define RESERVED (4ll << 20)

static uint64_t given;

static void on_piece(void *user, const struct dwarf_piece *piece)
{
    uint64_t *last = user;
    if (piece->start >= piece->end || piece->n_frames == 0 || piece->n_frames > DWARF_DEPTH_MAX + 1)
        __builtin_trap();
    for (uint32_t i = 0; i < piece->n_frames; i++) {
        const struct dwarf_frame *f = &piece->frame[i];
        if (f->name.n >= DWARF_NAME_MAX || f->linkage.n >= DWARF_NAME_MAX)
            __builtin_trap();
        for (size_t k = 0; k < f->file.n; k++)
            given += f->file.p[k];
    }
    *last = piece->end;
}

/* Asks for addresses all over the code: some with a symbol around them, some without. */
static void ask(const struct source *s, const struct elf *elf, struct dwarf_keep *keep, uint32_t at_once)
{
    struct dwarf_file file, alt;
    struct dwarf_query query[64];
    uint64_t last = 0, text = elf->text.size ? elf->text.address : 0x401000;
    if (dwarf_file_open(&file, s, elf, keep, WORK, RESERVED) < 0)
        return;
    /* A file that is its own alternate one: references lead anywhere. */
    if (dwarf_file_open(&alt, s, elf, NULL, WORK, RESERVED) == 0)
        file.alt = &alt;
    for (uint32_t from = 0; from < 64; from += at_once) {
        uint32_t n = 0;
        for (uint32_t i = from; n < at_once && text + 16 * i >= text; i++, n++)
            query[n] = (struct dwarf_query){.address = text + 16 * i,
                                            .start = i % 4 ? 0 : text + 16 * i,
                                            .end = i % 4 ? UINT64_MAX : text + 16 * i + 16};
        (void)dwarf_find(&file, query, n, on_piece, &last);
    }
    if (file.work < -(int64_t)(1 << 20))
        __builtin_trap();
    if (file.alt)
        dwarf_file_close(&alt);
    dwarf_file_close(&file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct source s = source_memory(bytes_of(data, len));
    struct elf elf;
    struct dwarf_keep keep = {0};
    if (elf_read(&elf, &s) < 0 || !elf.debug[ELF_DEBUG_INFO].size)
        return 0;
    ask(&s, &elf, &keep, 64);
    ask(&s, &elf, &keep, 16); /* by what the first look left */
    if (dwarf_keep_memory(&keep) > (8u << 20))
        __builtin_trap();
    dwarf_keep_release(&keep);
    return 0;
}
