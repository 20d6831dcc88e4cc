/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sender/symbolize/cache/stored.h"

#define KIND 7u
#define ROOM (1u << 20)

static char parent[UNIT_PATH_MAX], folder[UNIT_PATH_MAX + 16], path[UNIT_PATH_MAX + 32];

static void begin(void)
{
    unit_new_folder(parent);
    snprintf(folder, sizeof folder, "%s/names", parent);
    snprintf(path, sizeof path, "%s/names", folder);
}

static struct stored *opened(uint64_t bytes_max)
{
    struct stored *s = NULL;
    ck_assert_int_eq(stored_open(&s, parent, KIND, bytes_max), 0);
    return unit_made(s);
}

static int refused(void)
{
    struct stored *s = NULL;
    int r = stored_open(&s, parent, KIND, ROOM);
    stored_free(s);
    return r;
}

static struct names_set *set_of(struct names *n, const char *key)
{
    struct names_set *set = unit_made(names_open(n, bytes_str(key)));
    set->may_stay = true;
    return set;
}

/* Two functions that share a file, one inlined into the other, and a range without a name. */
static void fill(struct names *n, struct names_set *set, const char *prefix)
{
    char text[64];
    uint32_t function[2];
    for (uint32_t i = 0; i < 2; i++) {
        snprintf(text, sizeof text, "%s_%u", prefix, i);
        struct place_function f = {.name = places_text(&n->places, bytes_str(text)),
                                   .file = places_text(&n->places, BYTES_LIT("/src/a.c")),
                                   .start_line = 3 + i};
        function[i] = places_function(&n->places, &f);
    }
    const struct place_line line[] = {{function[0], 11}, {function[1], 22}};
    struct range range[] = {{0x10, 0x20, places_add(&n->places, line, 2), 0},
                            {0x20, 0x30, 0, RANGE_ROUGH},
                            {0x40, 0x50, places_add(&n->places, line, 1), RANGE_GO}};
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(ranges_add(&set->ranges, &range[i]), 0);
    ranges_settle(&set->ranges);
    set->is_new = true;
    set->debug = 99;
}

static void save(const char *key, const char *prefix, uint64_t bytes_max)
{
    cleanup(names_release) struct names n = {0};
    struct stored *s = opened(bytes_max);
    fill(&n, set_of(&n, key), prefix);
    ck_assert_int_eq(stored_save(s, &n), 0);
    stored_free(s);
}

/* Whether there are names of a key; they are right then. */
static bool loads(const char *key, const char *prefix)
{
    char want[64];
    uint32_t lines;
    cleanup(names_release) struct names n = {0};
    struct stored *s = opened(ROOM);
    struct names_set *set = set_of(&n, key);
    bool is_there = stored_load(s, &n, set);
    if (is_there) {
        ck_assert_uint_eq(set->ranges.all.n, 3);
        ck_assert(set->is_unchecked && set->debug == 99);
        const struct range *range = ranges_find(&set->ranges, 0x1f);
        const struct place_line *line = places_get(&n.places, range->place, &lines);
        ck_assert_uint_eq(lines, 2);
        ck_assert(line[0].line == 11 && line[1].line == 22);
        struct place_function f = places_get_function(&n.places, line[1].function);
        snprintf(want, sizeof want, "%s_1", prefix);
        ck_assert(bytes_is(places_get_text(&n.places, f.name), want));
        ck_assert(bytes_is(places_get_text(&n.places, f.file), "/src/a.c"));
        ck_assert_uint_eq(f.start_line, 4);
        ck_assert_uint_eq(ranges_find(&set->ranges, 0x20)->flags, RANGE_ROUGH);
        ck_assert_uint_eq(ranges_find(&set->ranges, 0x20)->place, 0);
        ck_assert_uint_eq(ranges_find(&set->ranges, 0x40)->flags, RANGE_GO);
        ck_assert_ptr_null(ranges_find(&set->ranges, 0x30));
    } else {
        ck_assert_uint_eq(set->ranges.all.n, 0);
    }
    stored_free(s);
    return is_there;
}

UNIT(names_are_there_after_a_restart)
{
    begin();
    ck_assert(!loads("one", "f"));
    save("one", "f", ROOM);
    ck_assert(loads("one", "f"));
    ck_assert(!loads("two", "f"));
    ck_assert(!loads("on", "f"));
}

UNIT(files_that_were_not_met_keep_their_names)
{
    begin();
    save("one", "f", ROOM);
    save("two", "g", ROOM);
    save("one", "h", ROOM); /* anew */
    ck_assert(loads("one", "h") && loads("two", "g"));
}

UNIT(what_may_not_stay_is_not_written)
{
    begin();
    struct names n = {0};
    struct stored *s = opened(ROOM);
    struct names_set *set = set_of(&n, "one");
    fill(&n, set, "f");
    set->may_stay = false;
    ck_assert_int_eq(stored_save(s, &n), 0);
    stored_free(s);
    names_release(&n);
    ck_assert(!loads("one", "f"));
}

UNIT(another_version_reads_none_of_it)
{
    struct stored *s = NULL;
    cleanup(names_release) struct names n = {0};
    begin();
    save("one", "f", ROOM);
    ck_assert_int_eq(stored_open(&s, parent, KIND + 1, ROOM), 0);
    ck_assert(!stored_load(unit_made(s), &n, set_of(&n, "one")));
    stored_free(s);
}

/* Two sets of some 400 bytes each and a limit that has room for one: the one in use stays. */
UNIT(what_was_used_the_longest_ago_makes_room)
{
    struct stat st;
    begin();
    save("one", "f", ROOM);
    ck_assert_int_eq(stat(path, &st), 0);
    save("two", "g", (uint64_t)st.st_size + 200);
    ck_assert(loads("two", "g"));
    ck_assert(!loads("one", "f"));
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_int_eq(st.st_mode & 0777, 0600);
}

static void write_at(off_t at, uint8_t byte)
{
    autoclose int fd = open(path, O_WRONLY);
    ck_assert_int_eq(pwrite(fd, &byte, 1, at), 1);
}

UNIT(a_damaged_file_says_nothing_wrong)
{
    struct stat st;
    uint8_t bytes[4096];
    begin();
    save("one", "f", ROOM);
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_int_lt(st.st_size, sizeof bytes);
    int fd = open(path, O_RDONLY);
    ck_assert_int_eq(read(fd, bytes, sizeof bytes), st.st_size);
    close(fd);
    for (off_t at = 0; at < st.st_size; at++) {
        write_at(at, bytes[at] ^ 0x41);
        ck_assert(!loads("one", "f"));
        write_at(at, bytes[at]);
    }
    ck_assert(loads("one", "f"));
    for (off_t n = st.st_size; n-- > 0;) {
        ck_assert_int_eq(truncate(path, n), 0);
        ck_assert(!loads("one", "f"));
    }
    save("one", "f", ROOM); /* and is written anew */
    ck_assert(loads("one", "f"));
}

UNIT(what_others_can_write_is_refused)
{
    char elsewhere[sizeof folder + 8], link[sizeof path + 8];
    begin();
    chmod(parent, 0770);
    ck_assert_int_eq(refused(), STORED_REFUSED);
    chmod(parent, 0755);
    save("one", "f", ROOM);
    chmod(folder, 0750);
    ck_assert_int_eq(refused(), STORED_REFUSED);
    chmod(folder, 0700);
    chmod(path, 0640);
    ck_assert_int_eq(refused(), STORED_REFUSED);
    chmod(path, 0600);
    snprintf(link, sizeof link, "%s.too", path);
    ck_assert_int_eq(rename(path, link), 0);
    ck_assert_int_eq(symlink(link, path), 0);
    ck_assert_int_eq(refused(), STORED_REFUSED);
    unlink(path);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    ck_assert_int_eq(refused(), STORED_REFUSED);
    unlink(path);
    ck_assert_int_eq(rename(link, path), 0);
    snprintf(elsewhere, sizeof elsewhere, "%s.too", folder);
    ck_assert_int_eq(rename(folder, elsewhere), 0);
    ck_assert_int_eq(symlink(elsewhere, folder), 0);
    ck_assert_int_eq(refused(), STORED_REFUSED);
    unlink(folder);
    ck_assert_int_eq(rename(elsewhere, folder), 0);
    ck_assert(loads("one", "f"));
    if (geteuid() == 0) {
        ck_assert_int_eq(chown(path, 65534, 65534), 0);
        ck_assert_int_eq(refused(), STORED_REFUSED);
        ck_assert_int_eq(chown(path, 0, 0) + chown(folder, 65534, 65534), 0);
        ck_assert_int_eq(refused(), STORED_REFUSED);
    }
}

UNIT(two_do_not_write_the_same_folder)
{
    begin();
    struct stored *s = opened(ROOM);
    ck_assert_int_eq(refused(), STORED_TAKEN);
    stored_free(s);
    ck_assert_int_eq(refused(), 0);
    ck_assert_int_eq(rmdir(folder), 0);
    ck_assert_int_eq(rmdir(parent), 0);
    ck_assert_int_eq(refused(), -ENOENT);
}
