/* SPDX-License-Identifier: Apache-2.0 */
/* Programs built by a test: a folder of its own, commands run in it, and what came out as a source. */
#ifndef TESTS_UNIT_SENDER_SYMBOLIZE_BUILT_H
#define TESTS_UNIT_SENDER_SYMBOLIZE_BUILT_H

#include "tests/lib/unit.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "sender/symbolize/binaries.h"

struct built {
    char folder[UNIT_PATH_MAX];
};

__attribute__((format(printf, 2, 3))) static inline int built_run(const struct built *b, const char *format,
                                                                  ...)
{
    char command[4096];
    int n = snprintf(command, sizeof command, "cd %s && ", b->folder);
    va_list ap;
    va_start(ap, format);
    vsnprintf(command + n, sizeof command - (size_t)n, format, ap);
    va_end(ap);
    return system(command);
}

static inline struct built built_new(void)
{
    struct built b;
    unit_new_folder(b.folder);
    return b;
}

static inline void built_free(const struct built *b)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", b->folder);
    ck_assert_int_eq(system(command), 0);
}

/* Skips the case where a tool is not on this machine. */
static inline void built_need(const char *tool)
{
    char command[256];
    snprintf(command, sizeof command, "command -v %s >/dev/null", tool);
    if (system(command) != 0)
        unit_skip(tool);
}

static inline void built_text(const struct built *b, const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", b->folder, name);
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    fclose(f);
}

static inline int built_open(const struct built *b, const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", b->folder, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    return fd;
}

/* Adds a file as it is now, under that key; its number. */
static inline uint32_t built_add(struct binaries *b, struct binary_key key, const char *name, int fd,
                                 struct allowance *user)
{
    struct stat st;
    ck_assert_int_eq(fstat(fd, &st), 0);
    key.content = foreign_content(&st);
    return binaries_add(b, &key, name, fd, user);
}

/* The descriptor stays open to the end of the case. */
static inline void built_read(const struct built *b, const char *name, struct source *s, struct elf *elf)
{
    ck_assert_int_eq(source_file(s, built_open(b, name)), 0);
    ck_assert_int_eq(elf_read(elf, s), 0);
}

/* Chains of inlined calls, a cold part, a static function: what there is to get right. */
static const char built_program[] = "#include <stdio.h>\n"
                                    "#include <stdlib.h>\n"
                                    "struct pair { long a, b; };\n"
                                    "static inline __attribute__((always_inline)) long leaf(long x)\n"
                                    "{\n"
                                    "    return x * 31 ^ (x >> 7);\n"
                                    "}\n"
                                    "static inline __attribute__((always_inline)) long middle(long n)\n"
                                    "{\n"
                                    "    long s = 0;\n"
                                    "    for (long i = 0; i < n; i++)\n"
                                    "        s ^= leaf(i + s);\n"
                                    "    return s;\n"
                                    "}\n"
                                    "__attribute__((noinline)) static long apart(struct pair *p)\n"
                                    "{\n"
                                    "    return p->a * middle(p->b) + leaf(p->a);\n"
                                    "}\n"
                                    "__attribute__((noinline)) long work(long n)\n"
                                    "{\n"
                                    "    struct pair p = {n, n + 1};\n"
                                    "    if (__builtin_expect(n == 77, 0)) {\n"
                                    "        printf(\"%ld\\n\", middle(n));\n"
                                    "        abort();\n"
                                    "    }\n"
                                    "    return middle(n) + apart(&p);\n"
                                    "}\n"
                                    "int main(int argc, char **argv)\n"
                                    "{\n"
                                    "    return (int)work(argc) & 1;\n"
                                    "}\n";

#endif
