/* SPDX-License-Identifier: Apache-2.0 */
/* The files that walks know: opened again only while they are what their tables were made of. */
#include "tests/lib/unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "proto/base/macros.h"
#include "sender/run/known.h"
#include "sender/unwind/key.h"

static char path[UNIT_PATH_MAX], other[UNIT_PATH_MAX + 8];

static int make(const char *name, const char *text)
{
    static const struct timespec when[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    ck_assert_int_eq(futimens(fd, when), 0);
    return fd;
}

static bool opens(struct known *k, uint32_t serial)
{
    static struct collector_code code;
    ck_assert(known_open(k, serial, 1, true, &code));
    autoclose int fd = code.fd;
    return fd >= 0;
}

UNIT(a_file_is_opened_while_it_is_the_one)
{
    struct known *k = unit_made(known_new());
    struct collector_code code;
    struct stat st;
    close(unit_new_file(path, ""));
    snprintf(other, sizeof other, "%s-other", path);
    int fd = make(path, "one");
    ck_assert_int_eq(fstat(fd, &st), 0);
    struct unwind_key key = {.inode = st.st_ino,
                             .size = (uint64_t)st.st_size,
                             .mtime = key_time(&st),
                             .device = major(st.st_dev) << 20 | minor(st.st_dev)};
    known_add(k, 7, &key, fd);
    close(fd);
    ck_assert(!known_open(k, 8, 1, true, &code));
    ck_assert(known_open(k, 7, 1, false, &code));
    ck_assert_int_eq(code.fd, -1); /* who may not have it opened is told what it is */
    ck_assert_uint_eq(code.key.content.size, 3);
    ck_assert(opens(k, unwind_mark(&key)));
    ck_assert(!known_open(k, unwind_mark(&key) ^ 1, 1, true, &code));
    ck_assert(opens(k, 7));
    known_rest(k);
    ck_assert(opens(k, 7)); /* by its name */

    int written = make(path, "three");
    ck_assert(!opens(k, 7)); /* written over, in place */
    ck_assert(known_open(k, 7, 1, true, &code));
    ck_assert_uint_eq(code.key.content.size, 3); /* still what it was */
    close(written);
    close(make(path, "one"));
    ck_assert(opens(k, 7));

    close(make(other, "two")); /* of the same size and time, which anybody can make */
    ck_assert_int_eq(rename(other, path), 0);
    ck_assert(!opens(k, 7));
    unlink(path);
    ck_assert_int_eq(mkfifo(path, 0600), 0); /* nobody waits for who is behind it */
    ck_assert(!opens(k, 7));
    unlink(path);
    ck_assert(!opens(k, 7));
    known_free(k);
}
