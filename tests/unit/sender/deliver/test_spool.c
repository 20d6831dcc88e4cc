/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sender/deliver/spool.h"

static char folder[UNIT_PATH_MAX];

static struct spool *open_spool(uint64_t max_bytes)
{
    struct spool *s;
    struct error e = {0};
    ck_assert_msg(spool_open(&s, folder, max_bytes, &e) == 0, "%s", e.text);
    return s;
}

static void begin(void)
{
    unit_new_folder(folder);
}

static void end(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    ck_assert_int_eq(system(command), 0);
}

static void expect(struct spool *s, const char *text, uint64_t items)
{
    struct buffer out = {0};
    struct spool_entry e = spool_oldest(s, &out);
    ck_assert_uint_ne(e.number, 0);
    ck_assert_uint_eq(e.items, items);
    ck_assert(out.n == strlen(text) && memcmp(out.p, text, out.n) == 0);
    buffer_release(&out);
    spool_done(s, e.number);
    spool_done(s, e.number); /* once is enough */
}

static void expect_empty(struct spool *s)
{
    struct buffer out = {0};
    ck_assert_uint_eq(spool_oldest(s, &out).number, 0);
    ck_assert_uint_eq(spool_counts(s).files, 0);
    ck_assert_uint_eq(spool_counts(s).bytes, 0);
    buffer_release(&out);
}

UNIT(first_in_first_out_also_over_a_restart)
{
    begin();
    struct spool *s = open_spool(1000);
    ck_assert_int_eq(spool_add(s, bytes_str("one"), 1), 0);
    ck_assert_int_eq(spool_add(s, bytes_str("two"), 22), 0);
    expect(s, "one", 1);
    spool_close(s);
    s = open_spool(1000); /* as after kill -9 */
    ck_assert_int_eq(spool_add(s, bytes_str("three"), 3), 0);
    expect(s, "two", 22);
    expect(s, "three", 3);
    expect_empty(s);
    ck_assert_uint_eq(spool_counts(s).dropped, 0);
    spool_close(s);
    end();
}

UNIT(the_oldest_make_room_and_are_counted)
{
    begin();
    struct spool *s = open_spool(10);
    ck_assert_int_eq(spool_add(s, bytes_str("aaaa"), 1), 0);
    ck_assert_int_eq(spool_add(s, bytes_str("bbbb"), 2), 0);
    ck_assert_int_eq(spool_add(s, bytes_str("cccc"), 4), 0);
    ck_assert_uint_eq(spool_counts(s).dropped, 1);
    ck_assert_int_eq(spool_add(s, bytes_str("dddddddddddd"), 8), -EFBIG);
    ck_assert_uint_eq(spool_counts(s).dropped, 9);
    expect(s, "bbbb", 2);
    spool_close(s);
    s = open_spool(3); /* a smaller limit than what is there */
    expect_empty(s);
    ck_assert_uint_eq(spool_counts(s).dropped, 4);
    spool_close(s);
    end();
}

UNIT(what_somebody_else_did_to_the_folder)
{
    char path[128];
    begin();
    struct spool *s = open_spool(1000);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(spool_add(s, bytes_str("text"), 1), 0);
    snprintf(path, sizeof path, "%s/0000000000000001-1.otlp", folder);
    ck_assert_int_eq(unlink(path), 0);
    snprintf(path, sizeof path, "%s/0000000000000002-1.otlp", folder);
    ck_assert_int_eq(truncate(path, 2), 0);
    expect(s, "text", 1);
    ck_assert_uint_eq(spool_counts(s).dropped, 2);
    spool_close(s);
    snprintf(path, sizeof path, "%s/notes.txt", folder);
    close(open(path, O_CREAT | O_WRONLY, 0600));
    snprintf(path, sizeof path, "%s/writing", folder);
    close(open(path, O_CREAT | O_WRONLY, 0600));
    s = open_spool(1000);
    expect_empty(s);
    ck_assert_int_lt(access(path, F_OK), 0);
    spool_close(s);
    end();
}

UNIT(a_folder_that_cannot_be_used_is_named)
{
    struct spool *s;
    struct error e = {0};
    ck_assert_int_eq(spool_open(&s, "/dev/null", 1, &e), -EINVAL);
    ck_assert_ptr_nonnull(strstr(e.text, "/dev/null"));
    ck_assert_int_eq(spool_open(&s, "/no/such/folder", 1, &e), -EINVAL);
}
