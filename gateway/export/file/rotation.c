/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/export/file/rotation.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "proto/base/clock.h"
#include "proto/base/macros.h"
#include "proto/base/vec.h"

#define PATH_LENGTH_MAX 4096

/* "2026-11-23T07-24-05.123": as long everywhere, and in the order of time. */
#define STAMP_LENGTH 23

/* Files rotated within one millisecond are told apart by the next ones. */
#define NAME_ATTEMPTS 1000

/* Where the ending of the last part begins: ".json", or its end. */
static size_t ending_of(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *dot = strchr(name, '.');
    return dot && dot > name ? (size_t)(dot - path) : strlen(path);
}

static void stamp(uint64_t ns, char ret[STAMP_LENGTH + 1])
{
    const time_t s = (time_t)(ns / NSEC_PER_SEC);
    struct tm tm;
    char text[64];
    gmtime_r(&s, &tm);
    const size_t n = strftime(text, sizeof text, "%Y-%m-%dT%H-%M-%S", &tm);
    snprintf(text + n, sizeof text - n, ".%03" PRIu64, ns / NSEC_PER_MSEC % 1000);
    memcpy(ret, text, STAMP_LENGTH);
    ret[STAMP_LENGTH] = 0;
}

int rotation_rename(const char *path, int fd, struct error *e)
{
    const int ending = (int)ending_of(path);
    char name[PATH_LENGTH_MAX], when[STAMP_LENGTH + 1];
    const uint64_t now = clock_realtime();
    int error = EEXIST;
    if (fdatasync(fd) < 0)
        return error_set(e, -errno, "%s: %s", path, strerror(errno));
    for (uint64_t i = 0; error == EEXIST && i < NAME_ATTEMPTS; i++) {
        stamp(now + i * NSEC_PER_MSEC, when);
        if (snprintf(name, sizeof name, "%.*s-%s%s", ending, path, when, path + ending) >= (int)sizeof name)
            return error_set(e, -ENAMETOOLONG, "%s: its name is too long to be rotated", path);
        error = renameat2(AT_FDCWD, path, AT_FDCWD, name, RENAME_NOREPLACE) == 0 ? 0 : errno;
    }
    return error ? error_set(e, -error, "%s cannot be rotated: %s", path, strerror(error)) : 0;
}

/* ---- what is too many or too old ---- */

static bool is_stamp(const char *s)
{
    static const char form[] = "0000-00-00T00-00-00.000";
    for (size_t i = 0; i < STAMP_LENGTH; i++)
        if (form[i] == '0' ? s[i] < '0' || s[i] > '9' : s[i] != form[i])
            return false;
    return true;
}

static bool is_rotated(const char *name, const char *base, size_t base_n, const char *ending)
{
    return strncmp(name, base, base_n) == 0 && name[base_n] == '-' &&
           strlen(name) == base_n + 1 + STAMP_LENGTH + strlen(ending) && is_stamp(name + base_n + 1) &&
           strcmp(name + base_n + 1 + STAMP_LENGTH, ending) == 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void rotation_prune(const struct rotation *r, const char *path)
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    const size_t ending = ending_of(path), base_n = ending - (size_t)(base - path);
    char folder[PATH_LENGTH_MAX], oldest[STAMP_LENGTH + 1] = "";
    VEC(char *) found = {0};
    if (r->backups_max == 0 && r->days_max == 0)
        return;
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
    DIR *all = opendir(folder);
    for (const struct dirent *d; all && (d = readdir(all));) {
        if (!is_rotated(d->d_name, base, base_n, path + ending))
            continue;
        char *name = strdup(d->d_name);
        if (!name || vec_append(&found, name) < 0)
            free(name);
    }
    if (r->days_max > 0)
        stamp(clock_realtime() - r->days_max * 86400 * (uint64_t)NSEC_PER_SEC, oldest);
    if (found.n > 0)
        qsort(found.p, found.n, sizeof *found.p, by_name);
    for (uint32_t i = 0; i < found.n; i++) {
        const bool is_beyond = r->backups_max > 0 && found.n - i > r->backups_max;
        if (is_beyond || strncmp(found.p[i] + base_n + 1, oldest, strlen(oldest)) < 0)
            (void)unlinkat(dirfd(all), found.p[i], 0); /* next time, then */
        free(found.p[i]);
    }
    vec_release(&found);
    if (all)
        closedir(all);
}
