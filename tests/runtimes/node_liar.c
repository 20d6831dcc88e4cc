/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that says it is V8, and lies: thousands of frames of functions that are one object or another at
 * each look, with names that are made of themselves, tables of positions without an end, and scripts as long
 * as can be.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SAYS(name, value) __attribute__((visibility("default"))) const int name = value;
SAYS(_ZN2v88internal7Version6major_E, 11)
SAYS(_ZN2v88internal7Version6minor_E, 3)
SAYS(v8dbg_HeapObjectTag, 1)
SAYS(v8dbg_TaggedSize, 8)
SAYS(v8dbg_SmiValueShift, 1)
SAYS(v8dbg_SmiShiftSize, 31)
SAYS(v8dbg_IsNotStringMask, -128)
SAYS(v8dbg_StringRepresentationMask, 7)
SAYS(v8dbg_OneByteStringTag, 8)
SAYS(v8dbg_ConsStringTag, 1)
SAYS(v8dbg_ExternalStringTag, 2)
SAYS(v8dbg_SlicedStringTag, 3)
SAYS(v8dbg_ThinStringTag, 5)
SAYS(v8dbg_class_ConsString__first__String, 16)
SAYS(v8dbg_class_ConsString__second__String, 24)
SAYS(v8dbg_off_fp_context, -8)
SAYS(v8dbg_off_fp_function, -16)
SAYS(v8dbg_off_fp_bytecode_array, -32)
SAYS(v8dbg_off_fp_bytecode_offset, -40)
SAYS(v8dbg_class_JSFunction__shared__SharedFunctionInfo, 24)
SAYS(v8dbg_class_Map__instance_type__uint16_t, 12)
SAYS(v8dbg_class_SharedFunctionInfo__name_or_scope_info__Object, 16)
SAYS(v8dbg_class_SharedFunctionInfo__script_or_debug_info__HeapObject, 32)
SAYS(v8dbg_class_SharedFunctionInfo__flags__int, 48)
SAYS(v8dbg_type_SharedFunctionInfo__SHARED_FUNCTION_INFO_TYPE, 262)
SAYS(v8dbg_type_JSFunction__JS_FUNCTION_TYPE, 2066)
SAYS(v8dbg_type_ScopeInfo__SCOPE_INFO_TYPE, 261)
SAYS(v8dbg_type_Script__SCRIPT_TYPE, 167)
SAYS(v8dbg_type_BytecodeArray__BYTECODE_ARRAY_TYPE, 191)
SAYS(v8dbg_type_FixedArray__FIXED_ARRAY_TYPE, 175)
SAYS(v8dbg_scopeinfo_idx_first_vars, 3)
SAYS(v8dbg_class_Script__name__Object, 16)
SAYS(v8dbg_class_Script__source__Object, 8)
SAYS(v8dbg_class_Script__line_ends__Object, 56)
SAYS(v8dbg_class_String__length__int32_t, 12)
SAYS(v8dbg_class_SeqOneByteString__chars__char, 16)
SAYS(v8dbg_class_SeqTwoByteString__chars__char, 16)
SAYS(v8dbg_class_ThinString__actual__String, 16)
SAYS(v8dbg_class_SlicedString__parent__String, 16)
SAYS(v8dbg_class_SlicedString__offset__SMI, 24)
SAYS(v8dbg_class_ExternalString__resource__Object, 16)
SAYS(v8dbg_class_FixedArrayBase__length__SMI, 8)
SAYS(v8dbg_class_FixedArray__data__uintptr_t, 16)
SAYS(v8dbg_class_BytecodeArray__data__uintptr_t, 54)

/* Code that no table knows, as large as builtins are. */
extern void spin(uint64_t n, void *frame);
extern const char after[];
__asm__(
    ".text\n.p2align 12\nspin: push %rbp\nmov %rsi, %rbp\n1: dec %rdi\njne 1b\nnop\nafter: pop %rbp\nret\n.skip 1 << 20, 0x90\n");

#define TAG(at) ((uint64_t)(at) + 1)
#define SMI(n)  ((uint64_t)(n) << 32)
#define FRAMES  2000
enum { SHARED, SCOPE, SCRIPT, BYTECODE, ARRAY, FUNCTION, ONE_BYTE, CONS, THIN, MAPS };
static const uint16_t types[MAPS] = {262, 261, 167, 191, 175, 2066, 8, 9, 13};
static uint64_t maps[MAPS][8], functions[64][8], shared[64][16], scope[32], script[16], bytecode[16],
    loop[2][4];
static uint64_t *endless; /* a string or a table, as wanted */

static void *change(void *unused)
{
    for (uint64_t i = 0;; i++) {
        shared[i % 64][6] = i << 32; /* its number */
        shared[i / 3 % 64][2] = TAG(i % 2 ? (void *)scope : (void *)loop[i % 2]);
        script[8] = SMI(i / 1000);
        script[7] = i % 3 ? TAG(endless) : 0;
        endless[0] = TAG(maps[i % 5 ? ONE_BYTE : ARRAY]);
        loop[0][0] = TAG(maps[i % 7 ? CONS : THIN]);
    }
    return unused;
}

int main(void)
{
    static uint64_t stack[FRAMES + 1][8];
    pthread_t thread;
    endless = aligned_alloc(4096, 4 << 20);
    memset(endless, 0x80, 4 << 20);
    endless[1] = SMI(INT32_MAX);
    for (int i = 0; i < MAPS; i++)
        memcpy((char *)maps[i] + 12, &types[i], sizeof types[i]);
    for (int i = 0; i < 2; i++) {
        loop[i][0] = TAG(maps[CONS]);
        loop[i][1] = SMI(INT32_MAX);
        loop[i][2] = loop[i][3] = TAG(loop[!i]);
    }
    scope[0] = TAG(maps[SCOPE]);
    scope[1] = SMI(3 << 12 | 1 << 14);
    scope[4] = scope[6] = TAG(loop[0]);
    scope[7] = SMI(100000000);
    scope[8] = SMI(INT32_MAX);
    script[0] = TAG(maps[SCRIPT]);
    script[1] = script[2] = TAG(endless);
    bytecode[0] = TAG(maps[BYTECODE]);
    bytecode[4] = TAG(endless);
    for (int i = 0; i < 64; i++) {
        functions[i][0] = TAG(maps[FUNCTION]);
        functions[i][3] = TAG(shared[i]);
        shared[i][0] =
            i % 16 ? TAG(maps[SHARED]) : (uint64_t)shared[i]; /* some are moved to where they are */
        shared[i][1] = TAG(bytecode);
        shared[i][4] = TAG(script);
    }
    for (int i = 0; i < FRAMES; i++) {
        uint64_t *frame = &stack[i][5];
        frame[-5] = SMI(60 + i % 60000);
        frame[-4] = TAG(bytecode);
        frame[-2] = TAG(functions[i % 64]);
        frame[-1] = TAG(scope);
        frame[0] = (uint64_t)&stack[i + 1][5];
        frame[1] = (uint64_t)after;
    }
    /* What may be spent on names is each user's own. */
    if (getuid() == 0 && setuid(65534))
        return 1;
    pthread_create(&thread, NULL, change, NULL);
    for (;;)
        spin(100000000, &stack[0][5]);
}
