/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The version is in no symbol (before 8.4): it is looked for in what is only read, as the header that PHP
 * sends with every answer (SAPI_PHP_VERSION_HEADER).
 */
#include "sender/runtimes/php/binary.h"

#include <string.h>

#include "sender/symbolize/elf/cold.h"
#include "sender/symbolize/elf/constant.h"
#include "sender/symbolize/elf/dynamic.h"

/* execute_ex saves registers and makes its frame within these. */
#define ENTRY_MAX 64u

bool php_binary_find(struct php_binary *ret, const struct source *file)
{
    struct dynamic d;
    Elf64_Sym loop, globals, other;
    if (!dynamic_open(&d, file) || !dynamic_find(&d, "execute_ex", STT_FUNC, &loop, NULL) ||
        !dynamic_find(&d, "executor_globals", STT_OBJECT, &globals, NULL))
        return false;
    *ret = (struct php_binary){.loop = loop.st_value, .loop_size = loop.st_size, .globals = globals.st_value};
    if (dynamic_find(&d, "zend_ce_generator", STT_OBJECT, &other, NULL))
        ret->generator_class = other.st_value;
    if (dynamic_find(&d, "make_fcontext", STT_FUNC, &other, NULL)) {
        ret->fiber = other.st_value;
        ret->fiber_size = other.st_size;
    }
    return true;
}

/* "8.2.36": three numbers; what follows (-dev, +deb) is left. */
static bool read_version(const char *at, void *user)
{
    uint16_t *ret = user;
    for (int i = 0; i < 3; i++) {
        uint32_t n = 0, digits = 0;
        for (; *at >= '0' && *at <= '9' && digits < 4; at++, digits++)
            n = 10 * n + (uint32_t)(*at - '0');
        if (digits == 0 || (i < 2 && *at++ != '.'))
            return false;
        ret[i] = (uint16_t)n;
    }
    return true;
}

/* Whether compiled code is jumped to from execute_ex: zend_vm_kind() is ZEND_VM_KIND_HYBRID, what GCC makes.
 * Of the other kinds it is called. */
static bool is_hybrid(const struct dynamic *d)
{
    static const uint8_t returns[] = {0xb8, 4, 0, 0, 0}; /* mov $4, %eax */
    uint8_t code[16];
    Elf64_Sym kind;
    return dynamic_find(d, "zend_vm_kind", STT_FUNC, &kind, NULL) &&
           dynamic_read(d, kind.st_value, code, sizeof code) &&
           memmem(code, sizeof code, returns, sizeof returns);
}

/* Where execute_ex has made room on the stack: behind "sub $n, %rsp". 0: it is not to be seen. */
static uint64_t find_body(const struct dynamic *d, uint64_t loop)
{
    uint8_t code[ENTRY_MAX];
    if (!is_hybrid(d) || !dynamic_read(d, loop, code, sizeof code))
        return 0;
    for (size_t i = 0; i + 7 <= sizeof code; i++)
        if (code[i] == 0x48 && (code[i + 1] == 0x83 || code[i + 1] == 0x81) && code[i + 2] == 0xec)
            return loop + i + (code[i + 1] == 0x83 ? 4 : 7);
    return 0;
}

bool php_binary_details(struct php_details *ret, const struct php_binary *b, const struct source *file)
{
    struct dynamic d;
    *ret = (struct php_details){0};
    if (!dynamic_open(&d, file) ||
        !constant_find(&d, BYTES_LIT("X-Powered-By: PHP/"), read_version, ret->version))
        return false;
    for (uint32_t i = 0; i < d.n_program; i++) {
        const Elf64_Phdr *p = &d.program[i];
        if (p->p_type == PT_LOAD && b->loop - p->p_vaddr < p->p_memsz) {
            ret->text = p->p_vaddr;
            ret->text_size = p->p_memsz;
        }
    }
    ret->body = find_body(&d, b->loop);
    (void)cold_find(&d, b->loop, b->loop_size, &ret->cold, &ret->cold_size);
    return true;
}

bool php_is_opcache(struct bytes path)
{
    /* By opcache.preferred_memory_model: mmap, in large pages where there are some; shm. */
    return bytes_is(path, "/dev/zero (deleted)") || bytes_is(path, "/anon_hugepage (deleted)") ||
           bytes_starts(path, "/SYSV");
}
