/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that says it is Erlang's BEAM, and lies: its Erlang stack has return addresses and no end, and
 * what functions, atoms and lines are changes at each look; a file's name is a list that goes round.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))

char version[] = "Erlang/OTP 25%s [erts-13.1.5] [source] [64-bit] [jit:ns]";
EXPORTED int enif_schedule_nif(void)
{
    return version[0];
}

/* (code, stack, rbx, what is changed, how often): runs generated code on a stack of the caller's making,
 * which comes back to `back`. */
uint64_t saved;
extern const char root[];
void run(void *code, uint64_t *stack, uint64_t *registers, uint64_t *changed, uint64_t n);
__asm__(".text\n"
        "process_main:\n"
        "    ret\n"
        "    call process_main\n"
        ".globl root\n"
        "root:\n"
        "    nop\n"
        ".globl run\n"
        "run:\n"
        "    push %rbx\n"
        "    push %rbp\n"
        "    mov %rsp, saved(%rip)\n"
        "    mov %rdi, %rax\n"
        "    mov %rsi, %rsp\n"
        "    mov %rdx, %rbx\n"
        "    lea 1f(%rip), %r9\n"
        "    jmp *%rax\n"
        "1:  mov saved(%rip), %rsp\n"
        "    pop %rbp\n"
        "    pop %rbx\n"
        "    ret\n");

static const uint8_t loop[] = {0x48, 0x83, 0x01, 0x08, /* addq $8, (%rcx) */
                               0x48, 0x83, 0x29, 0x08, /* subq $8, (%rcx) */
                               0x49, 0xff, 0xc8,       /* dec %r8 */
                               0x75, 0xf3,             /* jnz */
                               0x41, 0xff, 0xe1};      /* jmp *%r9 */
static const uint8_t begins[] = {0x48, 0x81, 0xec, 0x40, 0x20, 0,    0,    0x48, 0x83, 0xe4, 0xc0, 0x48,
                                 0x89, 0x27, 0x48, 0x8d, 0x5c, 0x24, 0x40, 0x49, 0x8b, 0x65, 0x58};
#define FRAME     0x2040u
#define REGISTERS 8u /* words */

#define CODE_SIZE (1u << 20)
#define SHARED    0x80000u
#define MAIN      0x40u
#define LOOP      0x7f000u
#define FUNCTIONS 4000u
#define FIRST     0x10000u
#define EACH      0x60u
#define SLOTS     65536u
#define ATOMS     64u

/* Of no program's own reading, so not static: a compiler would leave them out. */
uint64_t descriptor[12], entries[2][4], emulator[4], shared_names[32], ranges[16], modules[4],
    lines[FUNCTIONS + 8], places[64], file_names[2], page[1][1024], atoms[ATOMS][8], atom_table[16],
    stack[SLOTS], pages[1], long_name[256];
uint64_t base[2048] __attribute__((aligned(64)));

static void say_what_code_there_is(uint64_t code)
{
    descriptor[4] = 1ull | 1ull << 32;
    descriptor[6] = (uint64_t)entries;
    entries[0][0] = (uint64_t)entries[1];
    entries[0][2] = (uint64_t)emulator;
    entries[0][3] = sizeof emulator;
    entries[1][2] = (uint64_t)shared_names;
    entries[1][3] = sizeof shared_names;
    emulator[2] = code + 4;
    uint8_t *names = (uint8_t *)shared_names;
    shared_names[0] = 1;
    shared_names[1] = code + SHARED;
    shared_names[2] = 1 | 0x1000ull << 32;
    memcpy(names + 24, "\7\0global", 9);
    uint32_t piece[3] = {MAIN, MAIN + 0x100, 0};
    memcpy(names + 39, piece, sizeof piece);
    memcpy(names + 39 + 12, "\25\0global::process_main", 23);
}

static void say_what_modules_there_are(uint64_t code, uint64_t *writable)
{
    ranges[4] = (uint64_t)modules;
    ranges[5] = 1;
    ranges[6] = 1000;
    ranges[7] = (uint64_t)modules;
    modules[0] = code;
    modules[1] = code + SHARED;
    writable[0] = FUNCTIONS;
    writable[9] = (uint64_t)lines;
    lines[0] = (uint64_t)file_names;
    lines[1] = 2;
    lines[2] = (uint64_t)places;
    for (unsigned i = 0; i < FUNCTIONS; i++) {
        uint64_t *info = writable + (FIRST + i * EACH) / 8;
        writable[12 + i] = code + FIRST + i * EACH;
        info[2] = (uint64_t)(i % ATOMS) << 6 | 0x0b;
        info[3] = (uint64_t)(i * 7 % (ATOMS + 1)) << 6 | 0x0b;
        info[4] = i % 300;
        lines[3 + i] = (uint64_t)stack;
    }
    for (unsigned i = 0; i < 64; i++)
        places[i] = 0x0001000100010001 * i;
    file_names[0] = (uint64_t)'a' << 4 | 0xf;
    file_names[1] = (uint64_t)file_names + 1;
    lines[0] = (uint64_t)&file_names[1];
}

static void say_what_atoms_there_are(void)
{
    static const char name[] = "atom_tab";
    atom_table[4] = (uint64_t)name;
    atom_table[9] = 1024ull << 32;
    atom_table[10] = 4096 | (uint64_t)ATOMS << 32;
    atom_table[11] = (uint64_t)pages;
    pages[0] = (uint64_t)page;
    memset(long_name, 'x', sizeof long_name);
    for (unsigned i = 0; i < ATOMS; i++) {
        page[0][i] = (uint64_t)atoms[i];
        atoms[i][2] = i;
        atoms[i][3] = i * 20;
        atoms[i][4] = i % 3 ? (uint64_t)long_name : (uint64_t)stack;
    }
}

int main(void)
{
    int fd = memfd_create("vmem", 0);
    if (fd < 0 || ftruncate(fd, CODE_SIZE) != 0)
        return 1;
    uint8_t *writable = mmap(NULL, CODE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    uint8_t *code = mmap(NULL, CODE_SIZE, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
    if (writable == MAP_FAILED || code == MAP_FAILED)
        return 1;
    memcpy(writable + LOOP, loop, sizeof loop);
    memcpy(writable + SHARED + MAIN, begins, sizeof begins);
    say_what_code_there_is((uint64_t)code);
    say_what_modules_there_are((uint64_t)code, (uint64_t *)writable);
    say_what_atoms_there_are();
    for (unsigned i = 0; i < SLOTS; i++)
        stack[i] = (uint64_t)code + FIRST + i % 1000 * EACH + 44;
    base[FRAME / 8 + 7] = (uint64_t)root;
    for (unsigned i = 0; i < CODE_SIZE; i += 4096)
        (void)*(volatile uint8_t *)(code + i); /* or the kernel side could not read it */
    uint64_t *changed[] = {&atoms[1][4], &page[0][5],
                           &lines[2],    (uint64_t *)writable + 700,
                           &modules[0],  (uint64_t *)(writable + FIRST + 1000 * EACH) + 4};
    for (unsigned i = 0;; i++)
        run(code + LOOP, stack + i * 100 % (SLOTS / 2), base + REGISTERS, changed[i % 6], 100000 + i % 7);
}
