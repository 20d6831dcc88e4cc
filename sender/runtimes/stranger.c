/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runtimes whose functions are told as machine code, by one symbol each that they export: all of these are
 * there for extensions, or for who embeds them, so in stripped files as well.
 */
#include "proto/base/macros.h"
#include "sender/runtimes/runtime.h"
#include "sender/symbolize/elf/dynamic.h"

static const struct {
    const char *symbol, *what;
    unsigned type;
} strangers[] = {
    {"Py_Main", "CPython", STT_FUNC}, /* before 3.8, after 3.14 */
    {"pypy_main_startup", "PyPy", STT_FUNC},
    {"napi_create_function", "JavaScript engine (Deno, Bun, Electron)", STT_FUNC},
    {"__svm_version_info", "GraalVM native image", STT_OBJECT}, /* has a JNI_CreateJavaVM, too */
    {"JNI_CreateJavaVM", "Java machine", STT_FUNC},             /* OpenJ9 */
    {"coreclr_initialize", ".NET", STT_FUNC},
    {"DotNetRuntimeInfo", ".NET", STT_OBJECT}, /* a program in one file */
    {"mono_jit_init", "Mono", STT_FUNC},
    {"ruby_run_node", "Ruby", STT_FUNC},
    {"execute_ex", "PHP", STT_FUNC}, /* for threads (ZTS) */
    {"perl_construct", "Perl", STT_FUNC},
    {"luaJIT_setmode", "LuaJIT", STT_FUNC},    /* 2.0, without LJ_GC64 */
    {"enif_make_int", "Erlang/OTP", STT_FUNC}, /* before 25, without its JIT */
    {"lua_newstate", "Lua", STT_FUNC},         /* LuaJIT has one, too; and who embeds it (Redis) */
    {"Rf_initEmbeddedR", "R", STT_FUNC},
    {"Tcl_CreateInterp", "Tcl", STT_FUNC},
    {"scm_boot_guile", "Guile", STT_FUNC},
    {"jl_init", "Julia", STT_FUNC},
};

const char *runtime_stranger(const struct runtime_file *file)
{
    struct dynamic d;
    Elf64_Sym symbol;
    if (!dynamic_open(&d, file->source))
        return NULL;
    for (size_t i = 0; i < ARRAY_LEN(strangers); i++)
        if (dynamic_find(&d, strangers[i].symbol, strangers[i].type, &symbol, NULL))
            return strangers[i].what;
    return NULL;
}
