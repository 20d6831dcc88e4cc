/* needs: symbolize base */
/* Debug information of a profiled process's file: an ELF file, every address of its code asked for. */
#include <stddef.h>
#include <stdint.h>

#include "sender/symbolize/dwarf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct source s = source_memory(bytes_of(data, len));
    struct elf elf;
    struct dwarf_file file;
    struct dwarf_query query[64];
    uint32_t n = 0;
    uint64_t last = 0;
    if (elf_read(&elf, &s) < 0 || dwarf_file_open(&file, &s, &elf, WORK, RESERVED) < 0)
        return 0;
    uint64_t text = elf.text.size ? elf.text.address : 0x401000;
    for (; n < 64 && text + 16 * n >= text; n++) /* some with a symbol around them, some without */
        query[n] = (struct dwarf_query){.address = text + 16 * n,
                                        .start = n % 4 ? 0 : text + 16 * n,
                                        .end = n % 4 ? UINT64_MAX : text + 16 * n + 16};
    (void)dwarf_find(&file, query, n, on_piece, &last);
    if (file.work < -(int64_t)(1 << 20))
        __builtin_trap();
    dwarf_file_close(&file);
    return 0;
}
