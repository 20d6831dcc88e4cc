/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/export/file/rotation.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "proto/base/macros.h"
#include "tests/lib/unit.h"

#define STAMP "[0-9][0-9][0-9][0-9]-[01][0-9]-[0-3][0-9]T[0-2][0-9]-[0-5][0-9]-[0-6][0-9].[0-9][0-9][0-9]"

static char folder[UNIT_PATH_MAX];

static const char *path(const char *name)
{
    static char text[UNIT_PATH_MAX + 64];
    snprintf(text, sizeof text, "%s/%s", folder, name);
    return text;
}

/* A file with that in it, open. */
static int put(const char *name, const char *what)
{
    int fd = open(path(name), O_RDWR | O_CREAT | O_TRUNC, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, what, strlen(what)), (ssize_t)strlen(what));
    return fd;
}

static void put_empty(const char *name)
{
    close(put(name, ""));
}

/* How many of the folder's files match; one of them in `found`. */
static unsigned count(const char *pattern, char found[256])
{
    unsigned n = 0;
    DIR *all = unit_made(opendir(folder));
    for (const struct dirent *d; (d = readdir(all));)
        if (d->d_name[0] != '.' || pattern[0] == '.')
            if (fnmatch(pattern, d->d_name, 0) == 0 && ++n && found)
                snprintf(found, 256, "%s", d->d_name);
    closedir(all);
    return n;
}

static int rotate(const char *name, const char *what, struct error *e)
{
    autoclose int fd = put(name, what);
    error_clear(e);
    return rotation_rename(path(name), fd, e);
}

UNIT(a_file_gets_the_time_before_its_ending)
{
    static const struct {
        const char *name, *want;
    } cases[] = {
        {"raw.json", "raw-" STAMP ".json"},
        {"raw.json.zst", "raw-" STAMP ".json.zst"}, /* the whole ending: tools go by it */
        {"raw", "raw-" STAMP},
        {".hidden", ".hidden-" STAMP},
    };
    struct error e;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char name[256] = "", text[8] = "";
        unit_new_folder(folder);
        ck_assert_msg(rotate(cases[i].name, "what", &e) == 0, "%s", e.text);
        ck_assert_int_eq(access(path(cases[i].name), F_OK), -1);
        ck_assert_msg(count(cases[i].want, name) == 1, "%s", cases[i].name);
        autoclose int fd = open(path(name), O_RDONLY);
        ck_assert_int_eq(read(fd, text, sizeof text), 4);
        ck_assert_str_eq(text, "what");
    }
}

UNIT(the_time_is_now_and_utc)
{
    struct error e;
    struct tm tm = {0};
    char name[256] = "";
    const time_t before = time(NULL);
    unit_new_folder(folder);
    setenv("TZ", "Asia/Kathmandu", 1);
    tzset();
    ck_assert_int_eq(rotate("raw.json", "", &e), 0);
    ck_assert_uint_eq(count("raw-*.json", name), 1);
    ck_assert_ptr_nonnull(strptime(name, "raw-%Y-%m-%dT%H-%M-%S", &tm));
    ck_assert_int_ge(timegm(&tm), before);
    ck_assert_int_le(timegm(&tm), time(NULL));
}

UNIT(many_at_once_are_all_kept)
{
    struct error e;
    unit_new_folder(folder);
    for (int i = 0; i < 40; i++)
        ck_assert_msg(rotate("raw.json", "x", &e) == 0, "%s", e.text);
    ck_assert_uint_eq(count("raw-" STAMP ".json", NULL), 40);
}

UNIT(what_cannot_be_renamed_is_where_it_was)
{
    struct error e = {""};
    char too_long[4200];
    unit_new_folder(folder);
    autoclose int fd = put("raw.json", "x");
    ck_assert_int_eq(rotation_rename(path("gone.json"), fd, &e), -ENOENT);
    ck_assert_ptr_nonnull(strstr(e.text, "gone.json cannot be rotated"));
    memset(too_long, 'x', sizeof too_long);
    memcpy(too_long, "/tmp/", 5);
    too_long[4080] = 0;
    ck_assert_int_eq(rotation_rename(too_long, fd, &e), -ENAMETOOLONG);
    ck_assert_int_eq(rotation_rename(path("raw.json"), -1, &e), -EBADF); /* not synced: not given away */
    ck_assert_int_eq(access(path("raw.json"), F_OK), 0);
}

/* Five of ours, and what only looks like it. */
static void put_several(void)
{
    static const char *const others[] = {
        "raw.json",
        "raw-2001-01-02T03-04-05.006.json.tmp",
        "raw-2001-01-02T03-04-05.006.jsonl",
        "raw-2001-01-02T03:04:05.006.json",
        "raw-2001-01-02T03-04-05.json",
        "raw-x-2001-01-02T03-04-05.006.json",
        "xraw-2001-01-02T03-04-05.006.json",
    };
    unit_new_folder(folder);
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        put_empty(others[i]);
    put_empty("raw-2001-01-02T03-04-05.006.json");
    put_empty("raw-2001-01-02T03-04-05.007.json");
    put_empty("raw-2002-01-02T03-04-05.006.json");
    put_empty("raw-2999-01-02T03-04-05.006.json");
    put_empty("raw-2999-01-02T03-04-05.007.json");
}

#define OURS "raw-" STAMP ".json"

UNIT(the_newest_are_kept_and_strangers)
{
    put_several();
    rotation_prune(&(struct rotation){.bytes_max = 1}, path("raw.json")); /* all are kept */
    ck_assert_uint_eq(count("*", NULL), 12);
    rotation_prune(&(struct rotation){.backups_max = 5}, path("raw.json"));
    ck_assert_uint_eq(count("*", NULL), 12);
    rotation_prune(&(struct rotation){.backups_max = 2}, path("raw.json"));
    ck_assert_uint_eq(count(OURS, NULL), 2);
    ck_assert_uint_eq(count("raw-2999-*", NULL), 2);
    ck_assert_uint_eq(count("*", NULL), 9);
}

UNIT(the_old_go_however_few_there_are)
{
    put_several();
    rotation_prune(&(struct rotation){.days_max = 1, .backups_max = 100}, path("raw.json"));
    ck_assert_uint_eq(count(OURS, NULL), 2);
    ck_assert_uint_eq(count("raw-2999-*", NULL), 2);
    ck_assert_uint_eq(count("*", NULL), 9);
    put_several();
    rotation_prune(&(struct rotation){.days_max = 1, .backups_max = 1}, path("raw.json"));
    ck_assert_uint_eq(count(OURS, NULL), 1);
    ck_assert_uint_eq(count("raw-2999-01-02T03-04-05.007.json", NULL), 1);
}

UNIT(a_name_without_a_folder_is_of_this_one)
{
    put_several();
    ck_assert_int_eq(chdir(folder), 0);
    rotation_prune(&(struct rotation){.backups_max = 1}, "raw.json");
    ck_assert_uint_eq(count(OURS, NULL), 1);
    rotation_prune(&(struct rotation){.backups_max = 1},
                   "/nowhere/at/all/raw.json"); /* and none is no matter */
}
