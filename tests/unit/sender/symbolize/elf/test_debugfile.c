/* SPDX-License-Identifier: Apache-2.0 */
/* needs: sender/symbolize */
/* Names of stripped programs: separate debug files by build id and by link, .gnu_debugdata; and what
 * debuginfod gives. */
#include "tests/unit/sender/symbolize/built.h"

#include <elf.h>
#include <errno.h>
#include <lzma.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sender/symbolize/binaries.h"
#include "sender/symbolize/elf/debugfile.h"
#include "sender/symbolize/elf/unpack.h"

/* A program, its debug file ("program.debug"), and the stripped program ("stripped") that links to it. */
static struct built stripped(const char *flags)
{
    built_need("objcopy");
    struct built b = built_new();
    built_text(&b, "program.c", built_program);
    ck_assert_int_eq(
        built_run(&b,
                  "gcc -O2 -g %s program.c -o program && objcopy --only-keep-debug program program.debug && "
                  "objcopy --strip-all --add-gnu-debuglink=program.debug program stripped",
                  flags),
        0);
    return b;
}

/* Where a function of the unstripped program is. */
static uint64_t address_of(const struct built *b, const char *symbol)
{
    char line[256], path[128];
    uint64_t address = 0;
    ck_assert_int_eq(built_run(b, "nm program | grep ' %s$' > symbol", symbol), 0);
    snprintf(path, sizeof path, "%s/symbol", b->folder);
    FILE *f = fopen(path, "r");
    ck_assert_ptr_nonnull(fgets(line, sizeof line, f));
    fclose(f);
    address = strtoull(line, NULL, 16);
    ck_assert_uint_ne(address, 0);
    return address;
}

static int open_for(const struct built *b, const char *root)
{
    struct source s;
    struct elf elf;
    char path[128];
    snprintf(path, sizeof path, "%s/stripped", *root == '/' && root[1] == 0 ? b->folder : "");
    built_read(b, "stripped", &s, &elf);
    return debugfile_open(root, path, &s, &elf);
}

UNIT(by_link_beside_the_program)
{
    cleanup(built_free) struct built b = stripped("");
    ck_assert_int_ge(open_for(&b, "/"), 0);
    ck_assert_int_eq(built_run(&b, "mkdir .debug && mv program.debug .debug/"), 0);
    ck_assert_int_ge(open_for(&b, "/"), 0);
    ck_assert_int_eq(built_run(&b, "rm .debug/program.debug"), 0);
    ck_assert_int_lt(open_for(&b, "/"), 0);
}

UNIT(by_build_id_inside_a_root)
{
    cleanup(built_free) struct built b = stripped("-Wl,--build-id=0xabcdef0123456789");
    ck_assert_int_eq(built_run(&b, "mkdir -p usr/lib/debug/.build-id/ab && mv program.debug "
                                   "usr/lib/debug/.build-id/ab/cdef0123456789.debug"),
                     0);
    ck_assert_int_ge(open_for(&b, b.folder), 0);
    /* A link that leads out of the root does not. */
    ck_assert_int_eq(built_run(&b, "mkdir elsewhere && mv usr elsewhere/ && ln -s $PWD/elsewhere/usr usr"),
                     0);
    ck_assert_int_lt(open_for(&b, b.folder), 0);
}

UNIT(a_debug_file_of_another_build_is_none)
{
    cleanup(built_free) struct built b = stripped("");
    ck_assert_int_eq(
        built_run(&b, "gcc -O1 -g program.c -o other && objcopy --only-keep-debug other program.debug"), 0);
    ck_assert_int_lt(open_for(&b, "/"), 0);
}

UNIT(without_a_build_id_the_crc_decides)
{
    cleanup(built_free) struct built b = stripped("-Wl,--build-id=none");
    ck_assert_int_ge(open_for(&b, "/"), 0);
    ck_assert_int_eq(built_run(&b, "printf x >> program.debug"), 0);
    ck_assert_int_lt(open_for(&b, "/"), 0);
}

/* Its check sum is over all of it: whoever has many programs named by large files would have us read them
 * all. */
UNIT(who_has_a_check_sum_made_pays)
{
    cleanup(built_free) struct built b = stripped("-Wl,--build-id=none");
    struct allowance user = {.left = 1 << 30};
    struct source s;
    struct elf elf;
    char path[128];
    snprintf(path, sizeof path, "%s/stripped", b.folder);
    built_read(&b, "stripped", &s, &elf);
    s.allowance = &user;
    int fd = debugfile_open("/", path, &s, &elf);
    ck_assert_int_ge(fd, 0);
    close(fd);
    user.left = 1000;
    ck_assert_int_lt(debugfile_open("/", path, &s, &elf), 0);
    ck_assert_int_eq(built_run(&b, "truncate -s 20M program.debug"), 0);
    user.left = 1 << 30;
    ck_assert_int_lt(debugfile_open("/", path, &s, &elf), 0);
    ck_assert_int_lt(user.left, (1 << 30) - (20 << 20));
}

UNIT(a_debug_file_that_another_user_put_there_is_none)
{
    if (getuid() != 0)
        unit_skip("only root gives files away");
    cleanup(built_free) struct built b = stripped("");
    ck_assert_int_eq(built_run(&b, "chown 65534 program.debug"), 0);
    ck_assert_int_lt(open_for(&b, "/"), 0);
    ck_assert_int_eq(built_run(&b, "chown 65534 stripped"), 0); /* his own program */
    ck_assert_int_ge(open_for(&b, "/"), 0);
}

static const struct binary_key key = {.inode = 7, .major = 1};

/* Looks one address of a file up, met at its path. */
static struct binary_name look_up(struct binaries *b, const struct built *built, const char *file,
                                  uint64_t address)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", built->folder, file);
    uint32_t number = built_add(b, key, file, built_open(built, file), NULL);
    ck_assert_uint_ne(number, 0);
    binaries_met(b, number, (uint32_t)getpid(), path);
    ck_assert(!binaries_want(b, number, address, 1));
    binaries_resolve(b);
    return binaries_name(b, number, address);
}

UNIT(a_stripped_program_is_named_by_its_debug_file)
{
    cleanup(built_free) struct built built = stripped("");
    struct binaries *b = unit_made(binaries_new());
    uint64_t work = address_of(&built, "work");
    struct binary_name name = look_up(b, &built, "stripped", work);
    ck_assert_uint_ge(name.n_lines, 1);
    struct binary_line line = binaries_line(b, &name, name.n_lines - 1);
    ck_assert(bytes_is(line.name, "work"));
    ck_assert_uint_eq(line.start_line, 19);
    ck_assert_uint_eq(line.line, 20);
    ck_assert(bytes_is(bytes_after_last(line.file, '/'), "program.c"));
    ck_assert_uint_eq(binaries_counts(b).debug, 1);
    binaries_free(b);
}

UNIT(without_one_it_has_no_name_but_an_answer)
{
    cleanup(built_free) struct built built = stripped("");
    struct binaries *b = unit_made(binaries_new());
    uint64_t work = address_of(&built, "work");
    ck_assert_int_eq(built_run(&built, "rm program.debug"), 0);
    struct binary_name name = look_up(b, &built, "stripped", work);
    ck_assert_uint_eq(name.n_lines, 0);
    ck_assert(!binaries_want(b, 1, work, 1)); /* it is not looked for again and again */
    ck_assert_uint_eq(binaries_counts(b).debug, 0);
    binaries_free(b);
}

UNIT(addresses_only_leaves_native_code_unnamed)
{
    cleanup(built_free) struct built built = stripped("");
    struct binaries *b = unit_made(binaries_new());
    binaries_configure(b, &(struct binaries_options){.addresses_only = true});
    uint64_t work = address_of(&built, "work");
    ck_assert_uint_eq(look_up(b, &built, "program", work).n_lines, 0);
    binaries_free(b);
}

/* As Fedora builds them: the symbols of functions as a small ELF file, compressed, in a section. */
UNIT(mini_debug_info)
{
    built_need("xz");
    cleanup(built_free) struct built built = stripped("");
    ck_assert_int_eq(
        built_run(&built, "objcopy --strip-debug --remove-section .comment program mini && xz -k mini && "
                          "objcopy --strip-all --add-section .gnu_debugdata=mini.xz program stripped && "
                          "rm program.debug"),
        0);
    struct binaries *b = unit_made(binaries_new());
    struct binary_name name = look_up(b, &built, "stripped", address_of(&built, "work"));
    ck_assert_uint_eq(name.n_lines, 1);
    ck_assert(bytes_is(binaries_line(b, &name, 0).name, "work"));
    binaries_free(b);
}

UNIT(damaged_mini_debug_info_is_none)
{
    static uint8_t bytes[4096];
    uint8_t *out;
    size_t n;
    size_t packed = 0;
    uint8_t plain[1000] = {1, 2, 3};
    ck_assert_int_eq(lzma_easy_buffer_encode(1, LZMA_CHECK_CRC32, NULL, plain, sizeof plain, bytes, &packed,
                                             sizeof bytes),
                     LZMA_OK);
    struct source s = source_memory(bytes_of(bytes, packed));
    struct elf_section whole = {.size = packed}, cut = {.size = packed / 2};
    ck_assert_int_eq(unpack_xz(&s, &whole, &out, &n), 0);
    ck_assert_uint_eq(n, sizeof plain);
    ck_assert_int_eq(memcmp(out, plain, n), 0);
    free(out);
    ck_assert_int_eq(unpack_xz(&s, &cut, &out, &n), -EBADMSG);
    bytes[packed / 2] ^= 0x55;
    ck_assert_int_lt(unpack_xz(&s, &whole, &out, &n), 0);
}

/* 50 MB of zeros are some kilobytes of xz. */
UNIT(an_xz_bomb_is_refused)
{
    built_need("xz");
    cleanup(built_free) struct built b = built_new();
    struct source s;
    uint8_t *out;
    size_t n;
    ck_assert_int_eq(built_run(&b, "head -c 50000000 /dev/zero | xz -1 > bomb"), 0);
    ck_assert_int_eq(source_file(&s, built_open(&b, "bomb")), 0);
    struct elf_section section = {.size = s.size};
    ck_assert_int_eq(unpack_xz(&s, &section, &out, &n), -EFBIG);
}

/* Anybody can make a file that unpacks to all that is allowed, and have it sampled. */
UNIT(what_is_not_root_s_unpacks_to_less)
{
    built_need("xz");
    cleanup(built_free) struct built b = built_new();
    struct source s, memory = source_memory(bytes_of("x", 1));
    uint8_t *out;
    size_t n;
    ck_assert_int_eq(built_run(&b, "head -c 9000000 /dev/zero | xz -1 > large"), 0);
    int fd = built_open(&b, "large");
    ck_assert_int_eq(source_file(&s, fd), 0);
    struct elf_section section = {.size = s.size};
    if (getuid() == 0) {
        ck_assert_uint_eq(unpack_allowed(&s, UNPACK_MAX), UNPACK_MAX);
        ck_assert_int_eq(unpack_xz(&s, &section, &out, &n), 0);
        ck_assert_uint_eq(n, 9000000);
        free(out);
        ck_assert_int_eq(fchown(fd, 65534, 65534), 0);
    }
    ck_assert_uint_eq(unpack_allowed(&s, UNPACK_MAX), UNPACK_OTHERS_MAX);
    ck_assert_uint_eq(unpack_allowed(&memory, UNPACK_MAX), UNPACK_MAX);
    ck_assert_int_eq(unpack_xz(&s, &section, &out, &n), -EFBIG);
}

/* What says that it unpacks to next to nothing is not read whole to see whether it does. */
UNIT(a_section_that_is_larger_packed_than_not_is_damaged)
{
    static uint8_t bytes[70000];
    const Elf64_Chdr head = {.ch_type = 2, .ch_size = 100}; /* ELFCOMPRESS_ZSTD */
    memcpy(bytes, &head, sizeof head);
    struct source s = source_memory(bytes_of(bytes, sizeof bytes));
    struct elf_section section = {.size = sizeof bytes, .is_packed = true};
    struct packed *packed = NULL;
    struct extent extent;
    uint8_t *memory;
    uint64_t left = UNPACK_MAX;
    ck_assert_int_eq(unpack_section(&s, &section, &left, &extent, &memory, &packed), -EBADMSG);
    ck_assert_ptr_null(memory);
    ck_assert_uint_eq(left, UNPACK_MAX);
}
