/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sender/symbolize/elf/elf.h"

static struct elf own_elf(struct source *s)
{
    struct elf elf;
    ck_assert_int_eq(source_file(s, open("/proc/self/exe", O_RDONLY)), 0);
    ck_assert_int_eq(elf_read(&elf, s), 0);
    return elf;
}

/* Where the loader says our code segment is. */
static int own_segment(struct dl_phdr_info *info, size_t size, void *to)
{
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD && (info->dlpi_phdr[i].p_flags & PF_X))
            *(ElfW(Phdr) *)to = info->dlpi_phdr[i];
    return 1; /* the first is the program */
}

UNIT(our_own_segments_and_sections)
{
    struct source s;
    struct elf elf = own_elf(&s);
    ElfW(Phdr) loaded = {0};
    dl_iterate_phdr(own_segment, &loaded);
    ck_assert_uint_eq(elf.n_segments, 1);
    ck_assert_uint_eq(elf.segment[0].address, loaded.p_vaddr);
    ck_assert_uint_eq(elf.segment[0].file_offset, loaded.p_offset);
    uint64_t at;
    ck_assert_ptr_eq(elf_address(&elf, loaded.p_offset + 5, &at), &elf.segment[0]);
    ck_assert_uint_eq(at, loaded.p_vaddr + 5);
    ck_assert_ptr_null(elf_address(&elf, loaded.p_offset + loaded.p_filesz, &at));
    ck_assert_uint_gt(elf.text.size, 0);
    ck_assert_uint_gt(elf.dynamic.size, 0);
    ck_assert_uint_eq(elf.build_id_n, 20);
    ck_assert_uint_eq(elf.go_lines.size, 0);
    close(s.fd);
}

UNIT(htlhash_of_known_bytes)
{
    /* python3: sha256(b'x'*4096 + b'x'*4096 + (5000).to_bytes(8,'big')).hexdigest()[:32]; and of 3 bytes,
     * where the first and the last 4096 bytes are the same ones. */
    char hex[33];
    uint8_t x[5000];
    memset(x, 'x', sizeof x);
    struct source s = source_memory(bytes_of(x, sizeof x));
    elf_htlhash(&s, hex);
    ck_assert_str_eq(hex, "729a268784e72e6af89bb1a1d0e15eea");
    s = source_memory(BYTES_LIT("abc"));
    elf_htlhash(&s, hex);
    ck_assert_str_eq(hex, "a7e79e8a85da69bad5c3fea209342ac9");
}

UNIT(what_is_no_elf_is_refused)
{
    struct elf elf;
    struct source s = source_memory(BYTES_LIT("#!/bin/sh\n"));
    ck_assert_int_eq(elf_read(&elf, &s), -ENOEXEC);
    Elf64_Ehdr h = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS32, ELFDATA2LSB},
                    .e_phentsize = sizeof(Elf64_Phdr)};
    s = source_memory(bytes_of(&h, sizeof h));
    ck_assert_int_eq(elf_read(&elf, &s), -ENOEXEC);
    h.e_ident[EI_CLASS] = ELFCLASS64;
    ck_assert_int_eq(elf_read(&elf, &s), 0);
    h.e_phnum = 0xffff; /* and nothing there */
    h.e_phoff = UINT64_MAX - 8;
    h.e_shnum = 0xffff;
    h.e_shoff = UINT64_MAX - 8;
    h.e_shentsize = sizeof(Elf64_Shdr);
    ck_assert_int_eq(elf_read(&elf, &s), 0);
    ck_assert_uint_eq(elf.n_segments, 0);
}

UNIT(a_go_build_id_is_read_from_its_note)
{
    struct {
        Elf64_Ehdr h;
        Elf64_Phdr p;
        Elf64_Nhdr n;
        char name[4], id[8];
    } image = {.h = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB},
                     .e_phnum = 1,
                     .e_phentsize = sizeof(Elf64_Phdr)},
               .p = {.p_type = PT_NOTE, .p_align = 4},
               .n = {.n_namesz = 4, .n_descsz = 7, .n_type = 4},
               .name = "Go",
               .id = "abc/def"};
    struct elf elf;
    image.h.e_phoff = sizeof image.h;
    image.p.p_offset = sizeof image.h + sizeof image.p;
    image.p.p_filesz = sizeof image.n + 12;
    struct source s = source_memory(bytes_of(&image, sizeof image));
    ck_assert_int_eq(elf_read(&elf, &s), 0);
    ck_assert_str_eq(elf.go_id, "abc/def");
    image.n.n_descsz = UINT32_MAX; /* leaves the segment */
    ck_assert_int_eq(elf_read(&elf, &s), 0);
    ck_assert_str_eq(elf.go_id, "");
}
