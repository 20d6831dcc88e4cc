/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/symbolize/elf/debugfile.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <zlib.h>

#include "proto/base/macros.h"
#include "sender/foreign/open.h"

#define GLOBAL "/usr/lib/debug"

/* What a file says of its alternate one. */
struct alt {
    char name[PATH_MAX];
    struct elf want; /* of it only the build id */
};

/* .gnu_debugaltlink: a path, its NUL, and the build id. */
static bool read_altlink(const struct source *s, const struct elf_section *link, struct alt *ret)
{
    size_t n = source_string(s, link->offset, ret->name, sizeof ret->name);
    uint64_t left = n && n + 1 < link->size ? link->size - n - 1 : 0;
    if (left < 2 || left > ELF_BUILD_ID_MAX ||
        !source_read(s, link->offset + n + 1, ret->want.build_id, (size_t)left))
        return false;
    ret->want.build_id_n = (uint32_t)left;
    return true;
}

/* .debug_sup: version 5; whether this is the alternate file itself; else its path; a NUL, the length of its
 * build id and that. */
static bool read_sup(const struct source *s, const struct elf_section *sup, bool is_itself, struct alt *ret)
{
    uint8_t head[3], length;
    uint16_t version;
    if (sup->size < sizeof head || !source_read(s, sup->offset, head, sizeof head))
        return false;
    memcpy(&version, head, sizeof version);
    size_t n = source_string(s, sup->offset + sizeof head, ret->name, sizeof ret->name);
    uint64_t at = sizeof head + n + 1;
    if (version != 5 || head[2] != is_itself || (n == 0 && !is_itself) || at >= sup->size ||
        !source_read(s, sup->offset + at, &length, 1) || length < 2 || length > ELF_BUILD_ID_MAX ||
        length > sup->size - at - 1 || !source_read(s, sup->offset + at + 1, ret->want.build_id, length))
        return false;
    ret->want.build_id_n = length;
    return true;
}

/* With dwz -5 the alternate file has its build id in .debug_sup only. */
static bool has_sup_id(const struct source *s, const struct elf_section *sup, const struct elf *elf)
{
    autofree struct alt *own = sup->size ? calloc(1, sizeof *own) : NULL;
    return own && read_sup(s, sup, true, own) &&
           bytes_eq(bytes_of(elf->build_id, elf->build_id_n),
                    bytes_of(own->want.build_id, own->want.build_id_n));
}

/* The source of a file that is read for another one: who pays for that pays for it. */
static bool open_for(struct source *ret, int fd, const struct source *of)
{
    if (source_file(ret, fd) < 0)
        return false;
    ret->owner = of ? source_user(of) : UINT32_MAX;
    ret->allowance = of ? of->allowance : NULL;
    return true;
}

bool debugfile_matches(int fd, const struct elf *elf, const struct source *of)
{
    struct source s;
    struct elf other;
    if (!elf->build_id_n || !open_for(&s, fd, of) || elf_read(&other, &s) < 0)
        return false;
    return bytes_eq(bytes_of(elf->build_id, elf->build_id_n), bytes_of(other.build_id, other.build_id_n)) ||
           has_sup_id(&s, &other.debug_sup, elf);
}

static bool has_crc(int fd, uint32_t want, const struct source *of)
{
    uint8_t chunk[8192];
    struct source s;
    uint64_t at = 0;
    uLong crc = crc32(0, NULL, 0);
    if (!open_for(&s, fd, of) || s.size > DEBUGFILE_CRC_MAX)
        return false;
    for (size_t n; (n = source_read_some(&s, at, chunk, sizeof chunk)) > 0; at += n)
        crc = crc32(crc, chunk, (uInt)n);
    return at == s.size && crc == want;
}

/* Who owns a file that is looked for more of; of what is no file it is root, whose the kernel is. */
static uint32_t owner_of(const struct source *s)
{
    struct stat st;
    return s->fd >= 0 && foreign_stat(s->fd, &st) == 0 ? st.st_uid : 0;
}

/* A library is everybody's, and whoever maps it chooses where: what lies beside it there counts only if who
 * owns the library, or root, has put it there. */
static int try(const char *root, const char *path, const struct source *of, const struct elf *elf,
               const uint32_t *crc)
{
    autoclose int fd = foreign_open(root, path, 0, source_user(of));
    if (fd < 0)
        return fd;
    if (!foreign_may_speak(fd, owner_of(of)))
        return -EPERM;
    bool ok = elf->build_id_n ? debugfile_matches(fd, elf, of) : crc && has_crc(fd, *crc, of);
    return ok ? take_fd(&fd) : -ENOENT;
}

static int by_build_id(const char *root, const struct source *of, const struct elf *elf)
{
    char path[sizeof GLOBAL + 32 + 2 * ELF_BUILD_ID_MAX], *to = path;
    if (elf->build_id_n < 2)
        return -ENOENT;
    to += sprintf(to, GLOBAL "/.build-id/%02x/", elf->build_id[0]);
    for (uint32_t i = 1; i < elf->build_id_n; i++)
        to += sprintf(to, "%02x", elf->build_id[i]);
    memcpy(to, ".debug", sizeof ".debug");
    return try(root, path, of, elf, NULL);
}

/* The section holds a file name, padding to a multiple of 4, and the CRC. */
static int by_link(const char *root, const char *file, const struct source *s, const struct elf *elf)
{
    static const char *const form[] = {"%.*s/%s", "%.*s/.debug/%s", GLOBAL "%.*s/%s"};
    char name[256], path[PATH_MAX];
    uint32_t crc;
    size_t n = elf->debug_link.size ? source_string(s, elf->debug_link.offset, name, sizeof name) : 0;
    uint64_t at = (n + 4) & ~UINT64_C(3);
    const char *slash = strrchr(file, '/');
    if (n == 0 || !slash || strchr(name, '/') || at + 4 > elf->debug_link.size ||
        !source_read(s, elf->debug_link.offset + at, &crc, sizeof crc))
        return -ENOENT;
    for (size_t i = 0; i < ARRAY_LEN(form); i++) {
        /* NOLINTNEXTLINE: the forms are above */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        int length = snprintf(path, sizeof path, form[i], (int)(slash - file), file, name);
#pragma GCC diagnostic pop
        int fd =
            length < (int)sizeof path && strcmp(path, file) != 0 ? try(root, path, s, elf, &crc) : -ENOENT;
        if (fd >= 0)
            return fd;
    }
    return -ENOENT;
}

int debugfile_open(const char *root, const char *path, const struct source *s, const struct elf *elf)
{
    int fd = by_build_id(root, s, elf);
    return fd >= 0 ? fd : by_link(root, path, s, elf);
}

/* The folder of an open file, as it is called below its root. */
static bool folder_of(int fd, char folder[PATH_MAX])
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, folder, PATH_MAX - 1);
    if (n <= 0 || folder[0] != '/')
        return false;
    folder[n] = 0;
    *strrchr(folder, '/') = 0;
    return true;
}

int debugfile_open_alt(const char *root, int fd, const struct source *s, const struct elf *elf)
{
    char folder[PATH_MAX], path[2 * PATH_MAX];
    autofree struct alt *alt = calloc(1, sizeof *alt);
    if (!alt)
        return -ENOMEM;
    if (!(elf->debug_sup.size && read_sup(s, &elf->debug_sup, false, alt)) &&
        !(elf->debug_alt.size && read_altlink(s, &elf->debug_alt, alt)))
        return -ENOENT;
    int found = -ENOENT;
    if (*alt->name == '/') {
        found = try(root, alt->name, s, &alt->want, NULL);
    } else if (folder_of(fd, folder)) {
        snprintf(path, sizeof path, "%s/%s", folder, alt->name);
        found = try(root, path, s, &alt->want, NULL);
    }
    if (found < 0)
        found = by_build_id(root, s, &alt->want);
    const char *shared =
        strstr(alt->name, "/.dwz/"); /* where distributions put them, if the rest has moved */
    if (found < 0 && shared) {
        snprintf(path, sizeof path, GLOBAL "%s", shared);
        found = try(root, path, s, &alt->want, NULL);
    }
    return found;
}
