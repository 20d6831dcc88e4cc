/* SPDX-License-Identifier: Apache-2.0 */
/* Runs code of a file that is no ELF file (argv[1], which it makes), as Wine does with Windows': it spins,
 * and has a number in rbp that looks like a frame pointer below which there is nothing. */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

static const unsigned char code[4096] = {0x48, 0xff, 0xcf, 0x75, 0xfb, 0xc3}; /* dec %rdi; jne there; ret */
static unsigned long zeros[64];

/* Calls code(n) with rbp as it is told. */
void call_with(unsigned long n, void *code, void *rbp);
__asm__(".text\n"
        ".type call_with, @function\n"
        "call_with: push %rbp; mov %rdx, %rbp; call *%rsi; pop %rbp; ret\n");

int main(int argc, char **argv)
{
    int fd = open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0755);
    if (write(fd, code, sizeof code) != sizeof code)
        return 1;
    void *at = mmap(0, sizeof code, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
    for (;;)
        call_with(100000000, at, zeros + 32);
}
