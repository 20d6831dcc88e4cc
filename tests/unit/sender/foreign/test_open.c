/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "proto/base/macros.h"
#include "sender/foreign/open.h"

static char folder[UNIT_PATH_MAX];

static void in_folder(const char *command)
{
    char text[512];
    snprintf(text, sizeof text, "cd %s && %s", folder, command);
    ck_assert_int_eq(system(text), 0);
}

static void done(void)
{
    char text[UNIT_PATH_MAX + 8];
    snprintf(text, sizeof text, "rm -rf %s", folder);
    ck_assert_int_eq(system(text), 0);
}

UNIT(no_link_leads_out_of_a_root)
{
    char text[8] = "";
    unit_new_folder(folder);
    in_folder(
        "mkdir -p root/etc && printf inside >root/etc/hostname && ln -s /etc/hostname root/absolute && "
        "ln -s ../../../../../../etc/hostname root/relative && ln -s /proc/self/root/etc/hostname root/magic");
    char root[UNIT_PATH_MAX + 8];
    snprintf(root, sizeof root, "%s/root", folder);
    const char *const path[] = {"/etc/hostname", "/absolute", "/relative", "/../../etc/hostname"};
    for (size_t i = 0; i < ARRAY_LEN(path); i++) {
        autoclose int fd = foreign_open(root, path[i], 0, 1);
        ck_assert_int_ge(fd, 0);
        ck_assert_int_eq(read(fd, text, sizeof text), 6);
        ck_assert_mem_eq(text, "inside", 6);
    }
    ck_assert_int_lt(foreign_open(root, "/magic", 0, 1), 0);
    done();
}

UNIT(a_pipe_is_left_alone)
{
    char path[UNIT_PATH_MAX + 8];
    unit_new_folder(folder);
    in_folder("mkfifo pipe");
    snprintf(path, sizeof path, "%s/pipe", folder);
    /* who would write to it hears nothing of us */
    ck_assert_int_eq(foreign_open(folder, "/pipe", 0, 1), -ENOENT);
    ck_assert_int_eq(foreign_open_link(path, getuid()), -ENOENT);
    ck_assert_int_eq(foreign_open("/", "/dev/zero", 0, 1), -ENOENT);
    ck_assert_int_eq(foreign_open(folder, "/", 0, 1), -ENOENT);
    ck_assert_int_eq(foreign_open(folder, "/nothing", 0, 1), -ENOENT);
    done();
}

UNIT(a_file_is_known_by_device_and_inode)
{
    struct stat st;
    autoclose int fd = foreign_open_link("/proc/self/exe", getuid());
    ck_assert_int_eq(fstat(fd, &st), 0);
    struct foreign_file file = {st.st_ino, major(st.st_dev), minor(st.st_dev)};
    ck_assert(foreign_is(fd, &file, 1));
    file.inode++;
    ck_assert(!foreign_is(fd, &file, 1));
    file.inode--;
    file.minor++;
    autoclose int shm = memfd_create("x", 0);
    ck_assert_int_eq(fstat(shm, &st), 0);
    file.inode = st.st_ino;
    ck_assert(!foreign_is(shm, &file, 1)); /* the same number on another device */
}
