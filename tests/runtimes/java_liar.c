/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that says it is HotSpot of JDK 17, and lies: its code cache is one method, whose return addresses
 * are others at each look, which is inlined into itself, and whose tables of lines have no end.
 */
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct field {
    const char *type, *name, *as;
    int32_t is_static;
    uint64_t offset;
    void *address;
};

struct type {
    const char *name;
    uint64_t size;
};

static uint64_t heaps_at, heap_at, one = 1;
static uint32_t major = 17, zero;
static struct {
    uint64_t n, data;
} heaps;
static struct {
    uint64_t low, high, segments, shift;
} heap;

/* Offsets are ours; what is static is where it says. */
static struct field fields[] = {
    {"CodeCache", "_heaps", "", 1, 0, &heaps_at},
    {"GrowableArrayBase", "_len", "int", 0, 0, 0},
    {"GrowableArray<int>", "_data", "", 0, 8, 0},
    {"CodeHeap", "_memory", "", 0, 0, 0},
    {"CodeHeap", "_segmap", "", 0, 16, 0},
    {"CodeHeap", "_log2_segment_size", "int", 0, 24, 0},
    {"VirtualSpace", "_low_boundary", "", 0, 0, 0},
    {"VirtualSpace", "_high_boundary", "", 0, 8, 0},
    {"CodeBlob", "_name", "", 0, 0, 0},
    {"CodeBlob", "_frame_size", "int", 0, 8, 0},
    {"CodeBlob", "_frame_complete_offset", "int", 0, 12, 0},
    {"CodeBlob", "_code_begin", "", 0, 16, 0},
    {"CompiledMethod", "_deopt_handler_begin", "", 0, 24, 0},
    {"nmethod", "_orig_pc_offset", "int", 0, 32, 0},
    {"nmethod", "_compile_id", "int", 0, 36, 0},
    {"CompiledMethod", "_method", "", 0, 40, 0},
    {"nmethod", "_scopes_pcs_offset", "int", 0, 48, 0},
    {"nmethod", "_dependencies_offset", "int", 0, 52, 0},
    {"CompiledMethod", "_scopes_data_begin", "", 0, 56, 0},
    {"nmethod", "_metadata_offset", "int", 0, 64, 0},
    {"Method", "_constMethod", "", 0, 0, 0},
    {"ConstMethod", "_constants", "", 0, 8, 0},
    {"ConstMethod", "_flags", "u2", 0, 16, 0},
    {"ConstMethod", "_code_size", "u2", 0, 18, 0},
    {"ConstMethod", "_name_index", "u2", 0, 20, 0},
    {"ConstantPool", "_pool_holder", "", 0, 0, 0},
    {"ConstantPool", "_source_file_name_index", "u2", 0, 8, 0},
    {"Klass", "_name", "", 0, 0, 0},
    {"Symbol", "_length", "u2", 0, 0, 0},
    {"Symbol", "_body", "", 0, 2, 0},
    {"StubRoutines", "_call_stub_return_address", "", 1, 0, &one},
    {"Abstract_VM_Version", "_vm_major_version", "int", 1, 0, &major},
    {"Abstract_VM_Version", "_vm_minor_version", "int", 1, 0, &zero},
    {"Abstract_VM_Version", "_vm_security_version", "int", 1, 0, &zero},
    {0},
};
static struct type types[] = {
    {"HeapBlock", 16}, {"ConstMethod", 24}, {"ConstantPool", 16}, {"PcDesc", 16}, {0}};

#define SAYS(name, value) __attribute__((visibility("default"))) uint64_t name = value
__attribute__((visibility("default"))) struct field *gHotSpotVMStructs = fields;
__attribute__((visibility("default"))) struct type *gHotSpotVMTypes = types;
SAYS(gHotSpotVMTypeEntryArrayStride, sizeof(struct type));
SAYS(gHotSpotVMTypeEntryTypeNameOffset, 0);
SAYS(gHotSpotVMTypeEntrySizeOffset, 8);
SAYS(gHotSpotVMStructEntryArrayStride, sizeof(struct field));
SAYS(gHotSpotVMStructEntryTypeNameOffset, 0);
SAYS(gHotSpotVMStructEntryFieldNameOffset, 8);
SAYS(gHotSpotVMStructEntryTypeStringOffset, 16);
SAYS(gHotSpotVMStructEntryOffsetOffset, 32);
SAYS(gHotSpotVMStructEntryAddressOffset, 40);

#define CACHE   (1u << 20)
#define SEGMENT 16 /* its logarithm */
#define FRAMES  2048u
#define CODE    2048 /* in it */

static uint8_t segments[CACHE >> SEGMENT];

static void put(uint8_t *at, uint64_t value, size_t n)
{
    memcpy(at, &value, n);
}

/* Says at each look that who called was elsewhere, and is in that code in between. */
static void spin(const uint8_t *cache)
{
    uint64_t frames[2 * FRAMES], i = 1; /* on the stack */
    for (;;) {
        i = i * 6364136223846793005u + 1442695040888963407u;
        for (uint64_t k = 0; k < FRAMES; k++)
            *(volatile uint64_t *)&frames[2 * k + 1] =
                (uint64_t)cache + 4096 + (i + k * 7919) % (CACHE - 8192);
        __asm__ volatile(
            "mov %%rsp, %%rbx; mov %0, %%rsp; lea 1f(%%rip), %%rdx; jmp *%1; 1: mov %%rbx, %%rsp" ::"r"(
                frames),
            "r"(cache + CODE)
            : "rbx", "rcx", "rdx", "memory", "cc");
    }
}

int main(void)
{
    static const uint8_t code[] = {0xb9, 0,    0,    1,    0,   0xff,
                                   0xc9, 0x75, 0xfc, 0xff, 0xe2}; /* count down; jmp *%rdx */
    static uint8_t endless[1 << 20];
    uint8_t *cache =
                mmap(NULL, CACHE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
            *blob = cache + 16;
    memcpy(cache + CODE, code, sizeof code);
    memset(endless, 0x09, sizeof endless);
    for (uint32_t i = 0; i < sizeof segments; i++)
        segments[i] = (uint8_t)i;
    heap.low = (uint64_t)cache;
    heap.high = heap.low + CACHE;
    heap.segments = (uint64_t)segments;
    heap.shift = SEGMENT;
    heap_at = (uint64_t)&heap;
    heaps.n = 1;
    heaps.data = (uint64_t)&heap_at;
    heaps_at = (uint64_t)&heaps;
    put(blob, (uint64_t) "nmethod", 8);
    put(blob + 8, 2, 4); /* words of a frame */
    put(blob + 16, (uint64_t)cache, 8);
    put(blob + 40, (uint64_t)(blob + 128), 8);
    put(blob + 48, 256, 4); /* four PcDescs: offset, scope */
    put(blob + 52, 256 + 64, 4);
    put(blob + 256, (uint32_t)-1, 4);
    put(blob + 272, CACHE, 4);
    put(blob + 276, 1, 4);
    put(blob + 288, CACHE, 4);
    put(blob + 292, 1, 4);
    put(blob + 304, CACHE, 4);
    put(blob + 56, (uint64_t)(blob + 384), 8);
    put(blob + 385, 0x010101, 3); /* inlined into itself, method 1, bytecode 0 */
    put(blob + 64, 448, 4);
    put(blob + 448, (uint64_t)(blob + 128), 8);
    put(blob + 128, (uint64_t)endless, 8); /* Method: ConstMethod */
    put(endless + 8, (uint64_t)(blob + 512), 8);
    put(endless + 16, 1 | 1 << 16 | (uint64_t)1 << 32, 8); /* has lines; a byte of code; name 1 */
    put(blob + 512, (uint64_t)(blob + 600), 8);            /* ConstantPool: its class, source and entries */
    put(blob + 520, 1, 8);
    put(blob + 536, (uint64_t)(endless + 4096), 8);
    put(blob + 600, (uint64_t)(endless + 4096), 8); /* and the class's name, 2,313 bytes as all */
    /* What may be spent on names is each user's own. */
    if (getuid() == 0 && setuid(65534))
        return 1;
    spin(cache);
}
