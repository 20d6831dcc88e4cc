/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a library (argv[1] and argv[2] in turn), loads, runs and unloads it, argv[4] milliseconds each,
 * again and again: each has other names, `generation_NNNNNN_…`, which the thread has as its own while it is
 * in it. argv[5] says how one comes after the other, in the folder argv[3]:
 *
 *   unlink   a file of its own, which has lost its name when it is run
 *   rename   the file before is replaced
 *   write    the file before is written over
 *   memfd    a file that never had a name
 *   fixed    mapped by hand, at the place of the one before, without unmapping that
 *   remap    mapped by hand elsewhere, and moved there (mremap)
 *   times    as unlink, and all have the same time
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tests/unwind/chain.h"

typedef void enter_fn(void (*back)(unsigned long), unsigned long n);

static char image[2][1 << 20];
static size_t size[2];
static void *place; /* of what is mapped by hand */

static void read_image(int i, const char *path)
{
    int fd = open(path, O_RDONLY);
    ssize_t n = fd < 0 ? 0 : read(fd, image[i], sizeof image[i]);
    size[i] = n > 0 ? (size_t)n : 0;
    close(fd);
}

/* Every name gets this number. */
static void number(int i, int generation)
{
    static const char begin[] = "generation_";
    char digits[16];
    snprintf(digits, sizeof digits, "%06d", generation % 1000000);
    for (char *p = image[i]; (p = memmem(p, size[i] - (size_t)(p - image[i]), begin, sizeof begin - 1));
         p += 17)
        memcpy(p + sizeof begin - 1, digits, 6);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* The library's segments as the linker lays them out: it needs no relocation to run. */
static char *map_by_hand(int fd, int i, char *at)
{
    const Elf64_Ehdr *h = (const Elf64_Ehdr *)image[i];
    const Elf64_Phdr *p = (const Elf64_Phdr *)(image[i] + h->e_phoff);
    char *base = at ? at : mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int j = 0; j < h->e_phnum; j++)
        if (p[j].p_type == PT_LOAD) {
            size_t within = p[j].p_vaddr & 4095;
            int rights =
                PROT_READ | (p[j].p_flags & PF_X ? PROT_EXEC : 0) | (p[j].p_flags & PF_W ? PROT_WRITE : 0);
            if (mmap(base + p[j].p_vaddr - within, p[j].p_filesz + within, rights, MAP_PRIVATE | MAP_FIXED,
                     fd, (off_t)(p[j].p_offset - within)) == MAP_FAILED)
                return NULL;
        }
    return base;
}

static unsigned long address_of_enter(int i)
{
    const Elf64_Ehdr *h = (const Elf64_Ehdr *)image[i];
    const Elf64_Shdr *s = (const Elf64_Shdr *)(image[i] + h->e_shoff);
    for (int j = 0; j < h->e_shnum; j++) {
        const Elf64_Sym *symbol = (const Elf64_Sym *)(image[i] + s[j].sh_offset);
        for (size_t k = 0; s[j].sh_type == SHT_DYNSYM && k < s[j].sh_size / sizeof *symbol; k++)
            if (strcmp(image[i] + s[s[j].sh_link].sh_offset + symbol[k].st_name, "enter") == 0)
                return symbol[k].st_value;
    }
    return 0;
}

/* The code alone is moved to where that of the one before was. */
static void move(char *from, int i, char *to)
{
    const Elf64_Ehdr *h = (const Elf64_Ehdr *)image[i];
    const Elf64_Phdr *p = (const Elf64_Phdr *)(image[i] + h->e_phoff);
    for (int j = 0; j < h->e_phnum; j++)
        if (p[j].p_type == PT_LOAD && p[j].p_flags & PF_X)
            mremap(from + p[j].p_vaddr, p[j].p_filesz, p[j].p_filesz, MREMAP_MAYMOVE | MREMAP_FIXED,
                   to + p[j].p_vaddr);
    munmap(from, 1 << 20);
}

int main(int argc, char **argv)
{
    char path[4096], from[4096], name[16];
    if (argc < 6)
        return 1;
    double lasts = atof(argv[4]) / 1e3;
    const char *how = argv[5];
    int times = argc > 6 ? atoi(argv[6]) : 1 << 30;
    read_image(0, argv[1]);
    read_image(1, argv[2]);
    snprintf(path, sizeof path, "%s/lib.so", argv[3]);
    snprintf(from, sizeof from, "%s/next.so", argv[3]);
    for (int g = 1; g <= times; g++) {
        int i = g % 2;
        prctl(PR_SET_NAME, "between");
        number(i, g);
        int is_memory = strcmp(how, "memfd") == 0, is_written = strcmp(how, "write") == 0;
        int by_hand = strcmp(how, "fixed") == 0 || strcmp(how, "remap") == 0;
        const char *to = is_written ? path : from;
        int fd = is_memory ? memfd_create("lib", 0)
                           : open(to, O_RDWR | O_CREAT | (is_written ? 0 : O_TRUNC), 0755);
        if (pwrite(fd, image[i], size[i], 0) != (ssize_t)size[i])
            return 2;
        if (strcmp(how, "times") == 0)
            futimens(fd, (struct timespec[2]){{1000000000, 0}, {1000000000, 0}});
        if (!is_memory && !is_written && rename(from, path) < 0)
            return 3;
        if (is_memory)
            snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        void *library = NULL;
        enter_fn *enter;
        if (by_hand) {
            char *base = map_by_hand(fd, i, strcmp(how, "fixed") == 0 ? place : NULL);
            if (place && place != base) {
                move(base, i, place);
                base = place;
            }
            place = base;
            enter = (enter_fn *)(base + address_of_enter(i));
        } else {
            library = dlopen(path, RTLD_NOW);
            enter = library ? (enter_fn *)dlsym(library, "enter") : 0;
        }
        close(fd);
        if (!enter)
            return 4;
        if (strcmp(how, "unlink") == 0 || strcmp(how, "times") == 0 || by_hand)
            unlink(path);
        snprintf(name, sizeof name, "g%06d", g % 1000000);
        prctl(PR_SET_NAME, name);
        for (double end = now() + lasts; now() < end;)
            enter(chain_a, 20000);
        prctl(PR_SET_NAME, "between");
        if (library)
            dlclose(library);
    }
    return 0;
}
