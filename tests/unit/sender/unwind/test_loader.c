/* SPDX-License-Identifier: Apache-2.0 */
/* Pages of this very program, brought into tables that are plain memory. */
#include "tests/lib/unit.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bpf/runtimes.h"
#include "proto/base/clock.h"
#include "sender/unwind/key.h"
#include "sender/unwind/loader.h"

static struct unwind_bucket page[UNWIND_BUCKETS];
static struct unwind_rule rule[UNWIND_RULES];
static bpf_u32 used[UNWIND_FILES];
static struct unwind_row shard[UNWIND_SHARD_ROWS];

static int shard_open(void *user, uint32_t i, struct unwind_row **ret)
{
    *ret = shard;
    return 0;
}

static void shard_close(void *user, uint32_t i, struct unwind_row *rows) {}

static void shard_drop(void *user, uint32_t i) {}

static int file_set(void *user, const struct unwind_key *key, const struct unwind_file *file)
{
    return 0;
}

static void file_drop(void *user, const struct unwind_key *key) {}

static void changed(void *user, bool is_gone) {}

static const struct tables_backend backend = {.page = page,
                                              .rule = rule,
                                              .used = used,
                                              .shard_open = shard_open,
                                              .shard_close = shard_close,
                                              .shard_drop = shard_drop,
                                              .file_set = file_set,
                                              .file_drop = file_drop,
                                              .changed = changed};

static char own[] = "/proc/self/exe";
static int opened; /* how often it was */

static int open_path(void *of)
{
    int fd = open(of, O_RDONLY | O_CLOEXEC);
    opened++;
    return fd < 0 ? -errno : fd;
}

static struct unwind_key key_of(const char *path)
{
    struct stat st;
    ck_assert_int_eq(stat(path, &st), 0);
    return (struct unwind_key){.inode = st.st_ino, .size = (uint64_t)st.st_size, .mtime = key_time(&st)};
}

/* Where `function` is in this program's file: its text is mapped as it lies there. */
static uint64_t offset_of(void (*function)(void))
{
    uint64_t address = (uint64_t)(uintptr_t)function, start, end, offset = 0;
    char line[512];
    FILE *f = fopen("/proc/self/maps", "r");
    ck_assert(f != NULL);
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "%lx-%lx %*s %lx", &start, &end, &offset) == 3 && address >= start && address < end)
            break;
    fclose(f);
    return address - start + offset;
}

void plain(void);
__asm__(
    ".text\n.globl plain\n.type plain, @function\nplain:\n.cfi_startproc\n"
    "sub $40, %rsp\n.cfi_def_cfa_offset 48\nnop\nadd $40, %rsp\n.cfi_def_cfa_offset 8\nret\n.cfi_endproc\n");

static struct loader l;

static struct tables *begin(void)
{
    struct tables *t = unit_made(tables_new(&backend, 1));
    loader_init(&l, t);
    opened = 0;
    return t;
}

static void end(struct tables *t)
{
    loader_release(&l);
    tables_free(t);
}

UNIT(a_page_is_loaded_when_it_is_asked_for)
{
    struct tables *t = begin();
    struct unwind_key key = key_of("/proc/self/exe");
    struct loader_file file = {.key = &key, .open = open_path, .of = own};
    struct unwind_rule found;
    uint64_t at = offset_of(plain);
    ck_assert_int_eq(loader_add(&l, &file), 0);
    ck_assert_uint_eq(loader_counts(&l).loaded, 0);
    ck_assert_int_eq(loader_rule(&l, &file, at, &found), 0);
    ck_assert(found.cfa == UNWIND_CFA_RSP && found.cfa_offset == 8);
    ck_assert_int_eq(loader_rule(&l, &file, at + 4, &found), 0); /* `sub` has four bytes */
    ck_assert(found.cfa == UNWIND_CFA_RSP && found.cfa_offset == 48);
    ck_assert_uint_eq(loader_counts(&l).loaded, 1);
    ck_assert_int_eq(loader_rule(&l, &file, at + UNWIND_PAGE_SIZE, &found), 0);
    ck_assert_uint_eq(loader_counts(&l).loaded, 2);
    ck_assert_int_eq(loader_rule(&l, &file, key.size + UNWIND_PAGE_SIZE, &found), 0); /* no code of its */
    ck_assert_int_eq(found.cfa, UNWIND_CFA_NONE);
    ck_assert_int_eq(opened, 1);
    loader_rest(&l);
    ck_assert_int_eq(loader_rule(&l, &file, at, &found), 0); /* it is there */
    ck_assert_int_eq(opened, 1);
    end(t);
}

UNIT(another_file_than_the_key_says_is_not_taken)
{
    struct tables *t = begin();
    struct unwind_key key = key_of("/proc/self/exe");
    struct loader_file file = {.key = &key, .open = open_path, .of = own};
    struct unwind_rule found;
    key.mtime++;
    ck_assert_int_eq(loader_rule(&l, &file, 0, &found), LOADER_GONE);
    ck_assert_ptr_null(tables_file(t, &key));
    file.of = (char[]){"/nonexistent"};
    ck_assert_int_eq(loader_rule(&l, &file, 0, &found), LOADER_GONE);
    file.of = own; /* neither is held against it */
    key.mtime--;
    ck_assert_int_eq(loader_rule(&l, &file, 0, &found), 0);
    end(t);
}

UNIT(who_has_no_allowance_left_keeps_nobody_from_a_file)
{
    struct tables *t = begin();
    struct unwind_key key = key_of("/proc/self/exe");
    struct loader_file file = {.key = &key, .user = 65534, .open = open_path, .of = own};
    struct unwind_rule found;
    uint64_t at = offset_of(plain);
    struct allowance *bad = ledger_of(&l.ledger, 65534, clock_monotonic());
    l.ledger.when[bad - l.ledger.user] = UINT64_MAX; /* nothing comes back, however long this takes */
    bad->left = 8000; /* enough to begin: what is read of it must not be believed */
    ck_assert_int_eq(loader_add(&l, &file), LOADER_REFUSED);
    bad->left = INT64_MIN / 2;
    ck_assert_int_eq(loader_add(&l, &file), LOADER_REFUSED);
    file.user = 1000;
    ck_assert_int_eq(loader_rule(&l, &file, at + 4, &found), 0);
    ck_assert(found.cfa == UNWIND_CFA_RSP && found.cfa_offset == 48);
    ck_assert_int_eq(opened, 2);
    end(t);
}

static uint32_t read_too_much(void *user, int fd, const struct source *source)
{
    (void)user, (void)fd;
    allowance_charge(source->allowance, source->allowance->left);
    return RUNTIME_NATIVE;
}

UNIT(whose_code_it_is_is_not_believed_where_an_allowance_ran_out)
{
    struct tables *t = begin();
    struct unwind_key key = key_of("/proc/self/exe");
    struct loader_file file = {.key = &key, .user = 1000, .open = open_path, .of = own};
    l.recognise = read_too_much;
    ck_assert_int_eq(loader_add(&l, &file), LOADER_REFUSED);
    ck_assert_ptr_null(tables_file(t, &key));
    l.recognise = NULL;
    ledger_of(&l.ledger, 1000, clock_monotonic())->left = LEDGER_SAVED;
    ck_assert_int_eq(loader_add(&l, &file), 0);
    end(t);
}

/* Dynamic sections of 64 MiB, which say nothing and do not end: of the first one the first entries are read.
 */
UNIT(a_dynamic_section_without_end_costs_little)
{
    char path[UNIT_PATH_MAX];
    struct tables *t = begin();
    Elf64_Ehdr h = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, 1},
                    .e_machine = EM_X86_64,
                    .e_phoff = sizeof h,
                    .e_phentsize = sizeof(Elf64_Phdr),
                    .e_phnum = 512};
    static Elf64_Phdr p[512];
    static uint8_t full[1 << 20];
    for (size_t i = 0; i < 512; i++)
        p[i] = (Elf64_Phdr){.p_type = PT_DYNAMIC, .p_offset = 1 << 20, .p_filesz = 64u << 20};
    memset(full, 0x55, sizeof full);
    int fd = unit_new_file(path, "");
    ck_assert_int_eq(ftruncate(fd, 1ll << 40), 0);
    ck_assert_int_eq(pwrite(fd, &h, sizeof h, 0), sizeof h);
    ck_assert_int_eq(pwrite(fd, p, sizeof p, sizeof h), sizeof p);
    for (int i = 1; i < 65; i++)
        ck_assert_int_eq(pwrite(fd, full, sizeof full, (off_t)i << 20), sizeof full);
    close(fd);
    struct unwind_key key = key_of(path);
    struct loader_file file = {.key = &key, .user = 65534, .open = open_path, .of = path};
    struct allowance *allowance = ledger_of(&l.ledger, 65534, clock_monotonic());
    int64_t before = allowance_left(allowance);
    ck_assert_int_eq(loader_add(&l, &file), 0);
    ck_assert_int_lt(before - allowance_left(allowance), 4 << 20);
    unlink(path);
    end(t);
}

UNIT(what_cannot_be_opened_is_not_tried_each_time)
{
    struct tables *t = begin();
    struct unwind_key key = key_of("/proc/self/exe");
    struct loader_file file = {
        .key = &key, .open = open_path, .of = (char[]){"/proc/self/exe/under"}}; /* no folder */
    struct unwind_rule found;
    ck_assert_int_eq(loader_rule(&l, &file, 0, &found), -ENOTDIR);
    ck_assert_int_eq(loader_rule(&l, &file, 0, &found), LOADER_REFUSED);
    ck_assert_int_eq(opened, 1);
    end(t);
}

static uint32_t say_v8(void *user, int fd, const struct source *source)
{
    (void)user;
    struct stat st;
    return fstat(fd, &st) == 0 && (uint64_t)st.st_size == source->size ? RUNTIME_V8 : RUNTIME_NATIVE;
}

UNIT(a_file_without_frame_information_may_be_a_runtime_s)
{
    struct tables *t = begin();
    static char path[] = PG_SOURCE_DIR "/tests/unwind/README.md";
    struct unwind_key key = key_of(path);
    struct loader_file file = {.key = &key, .open = open_path, .of = path};
    l.recognise = say_v8;
    ck_assert_int_eq(loader_add(&l, &file), 0);
    ck_assert_uint_eq(tables_file(t, &key)->runtime, RUNTIME_V8);
    ck_assert_uint_eq(tables_file(t, &key)->n_pages, 0);
    end(t);
}

UNIT(a_file_without_frame_information_is_known)
{
    struct tables *t = begin();
    static char path[] = PG_SOURCE_DIR "/tests/unwind/README.md";
    struct unwind_key key = key_of(path);
    struct loader_file file = {.key = &key, .open = open_path, .of = path};
    struct unwind_rule found;
    ck_assert_int_eq(loader_rule(&l, &file, 0, &found), 0);
    ck_assert_int_eq(found.cfa, UNWIND_CFA_NONE);
    ck_assert_uint_eq(loader_counts(&l).without, 1);
    end(t);
}

/* Of one with a name another one of the same size and second is told apart; memory that is written is not. */
UNIT(memory_without_a_name_is_known_by_the_second)
{
    char path[] = "/dev/shm/pg-loader-XXXXXX";
    struct stat st;
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(fstat(fd, &st), 0);
    struct unwind_key named = {.size = (uint64_t)st.st_size, .mtime = key_time(&st)};
    ck_assert(key_is_of(&named, &st));
    st.st_mtim.tv_nsec ^= 1;
    ck_assert(!key_is_of(&named, &st));
    st.st_mtim.tv_nsec ^= 1;
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(fstat(fd, &st), 0);
    ck_assert_uint_eq(st.st_nlink, 0);
    ck_assert(key_is_of(&named, &st)); /* of a process that met it before */
    struct unwind_key nameless = {.size = (uint64_t)st.st_size, .mtime = key_time(&st)};
    st.st_mtim.tv_nsec ^= 1;
    ck_assert(key_is_of(&nameless, &st));
    ck_assert(!key_is_of(&named, &st));
    st.st_mtim.tv_sec++;
    ck_assert(!key_is_of(&nameless, &st));
    close(fd);
}

/* On a disk the next file gets the inode of one that has gone. */
UNIT(a_file_on_a_disk_is_known_by_its_whole_time_without_a_name_too)
{
    struct stat st = {.st_size = 4096, .st_nlink = 0, .st_dev = makedev(8, 1), .st_mtim = {1000, 5}};
    struct unwind_key key = {.size = 4096, .mtime = key_time(&st)};
    ck_assert(key_is_of(&key, &st));
    st.st_mtim.tv_nsec = 6;
    ck_assert(!key_is_of(&key, &st));
}
