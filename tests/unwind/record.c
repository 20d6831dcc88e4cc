/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records one stack of a running process: registers, stack bytes, the rules its frames have, and where they
 * lead. tests/unit/sender/unwind/test_step.c replays what this wrote.
 *
 *     record PID > tests/unwind/recorded/NAME.txt
 *
 * Stops the process for a moment (ptrace(2)); needs no BPF. tests/e2e/test_unwind.py builds it and says how.
 */
#include <elf.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sender/procs/maps.h"
#include "sender/unwind/rows.h"
#include "tests/unwind/walk.h"

/* As much of a stack as is kept: those of the test programs are far smaller, but for the environment. */
#define STACK_MAX 65536u

static struct maps maps;

static int open_proc(int pid, const char *name)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
    return open(path, O_RDONLY | O_CLOEXEC);
}

static struct unwind_rule rule_at(int pid, uint64_t address)
{
    const struct region *region = maps_find(&maps, address);
    char name[64];
    struct source source;
    struct rows_file *f = NULL;
    static struct rows rows;
    struct unwind_rule rule = {0};
    if (!region || region->inode == 0)
        return rule;
    snprintf(name, sizeof name, "map_files/%" PRIx64 "-%" PRIx64, region->start, region->end);
    int fd = open_proc(pid, name);
    uint64_t offset = address - region->start + region->offset;
    if (fd >= 0 && source_file(&source, fd) == 0 && rows_open(&f, &source) == 0) {
        rows_page(f, (uint32_t)(offset >> UNWIND_PAGE_BITS), &rows);
        rule = rows_find(&rows, offset & (UNWIND_PAGE_SIZE - 1));
    }
    rows_close(f);
    if (fd >= 0)
        close(fd);
    return rule;
}

int main(int argc, char **argv)
{
    static uint8_t bytes[STACK_MAX];
    struct user_regs_struct u;
    int pid = argc == 2 ? atoi(argv[1]) : 0, maps_fd = open_proc(pid, "maps"), mem = open_proc(pid, "mem");
    if (pid <= 0 || maps_fd < 0 || mem < 0 || maps_read(&maps, maps_fd, MAPS_BYTES_MAX) < 0 ||
        ptrace(PTRACE_ATTACH, pid, NULL, NULL) < 0 || waitpid(pid, NULL, __WALL) < 0 ||
        ptrace(PTRACE_GETREGS, pid, NULL, &u) < 0) {
        fprintf(stderr, "record: cannot look into process %d\n", pid);
        return 1;
    }
    struct unwind_registers r = {.ip = u.rip,
                                 .sp = u.rsp,
                                 .bp = u.rbp,
                                 .has_all = 1,
                                 .all = {u.rax, u.rdx, u.rcx, u.rbx, u.rsi, u.rdi, u.rbp, u.rsp, u.r8, u.r9,
                                         u.r10, u.r11, u.r12, u.r13, u.r14, u.r15}};
    struct memory stack = {.start = (u.rsp - 128) & ~UINT64_C(7), .bytes = bytes};
    /* Page by page: behind the last one there is nothing. */
    for (size_t n = 4096 - stack.start % 4096; stack.size + n <= STACK_MAX; n = 4096) {
        if (pread(mem, bytes + stack.size, n, (off_t)(stack.start + stack.size)) != (ssize_t)n)
            break;
        stack.size += n;
    }
    printf("start %" PRIx64 " %" PRIx64 " %" PRIx64, r.ip, r.sp, r.bp);
    for (int i = 0; i < 16; i++)
        printf(" %" PRIx64, r.all[i]);
    int end = UNWIND_END_NONE;
    for (int i = 0; end == UNWIND_END_NONE && i < UNWIND_FRAMES_MAX; i++) {
        struct unwind_rule rule = rule_at(pid, r.ip - r.is_return);
        printf("\nframe %" PRIx64 " %u %u %d %d", r.ip, rule.cfa, rule.rbp, rule.rbp_offset, rule.cfa_offset);
        end = unwind_step(&stack, &r, rule);
    }
    uint64_t reached = r.sp + 16 - stack.start; /* what lies above the last frame is not needed */
    printf("\nend %d\nstack %" PRIx64 " ", end, stack.start);
    for (uint64_t i = 0; i < stack.size && i < reached; i++)
        printf("%02x", bytes[i]);
    printf("\n");
    ptrace(PTRACE_DETACH, pid, NULL, NULL);
    return 0;
}
