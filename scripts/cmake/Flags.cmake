# Compiler flags for our own code. Warnings are errors everywhere; generated code gets its own, quieter set.
set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_FLAGS_RELEASE "-O2 -g")     # asserts stay: they guard what no peer can cause

# What makes a mistake of ours harder to use, in releases, for every object (generated code too); what it costs is in
# scripts/README.md, and tests/e2e/test_hardening.py reads the programs. Sanitizers have checks of their own.
if(CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT PG_SANITIZE)
    string(APPEND CMAKE_C_FLAGS_RELEASE " -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3 -fstack-clash-protection")
    if(CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
        # Control-flow enforcement: shadow stack and indirect branch tracking. The linker says so of a program only if all
        # objects do, and Debian 12's start files do not: they have no indirect targets but _start.
        string(APPEND CMAKE_C_FLAGS_RELEASE " -fcf-protection=full")
        add_link_options(-Wl,-z,ibt,-z,shstk)
    elseif(CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64")
        string(APPEND CMAKE_C_FLAGS_RELEASE " -mbranch-protection=standard")
    endif()
    # Addresses in tables are relocated at every start: as a bitmap (glibc 2.36) they are 2 KB to read instead of 117.
    add_link_options(-Wl,-z,pack-relative-relocs)
endif()

# `scripts/build --release`: the same folder is built twice, with counters for `scripts/train`, then by what they say and across
# files. What was not trained is compiled as without a profile, not for size.
if(PG_PROFILE STREQUAL "generate")
    string(APPEND CMAKE_C_FLAGS_RELEASE " -fprofile-generate=${CMAKE_BINARY_DIR}/profile -fprofile-update=atomic")
elseif(PG_PROFILE STREQUAL "use")
    string(APPEND CMAKE_C_FLAGS_RELEASE
           " -fprofile-use=${CMAKE_BINARY_DIR}/profile -fprofile-partial-training -Wno-missing-profile")
    set(CMAKE_INTERPROCEDURAL_OPTIMIZATION ON)
endif()

add_library(pg_flags INTERFACE)
target_include_directories(pg_flags INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}/gen)
target_compile_definitions(pg_flags INTERFACE _GNU_SOURCE PROFGATE_VERSION="${PROJECT_VERSION}")
target_compile_options(pg_flags INTERFACE
    -Wall -Wextra -Werror -Wshadow -Wpointer-arith -Wstrict-prototypes -Wmissing-prototypes
    -Wwrite-strings -Wvla -Wundef -Wformat=2 -Wno-unused-parameter -Wno-missing-field-initializers
    -fno-strict-aliasing -fno-common -fstack-protector-strong)
target_link_options(pg_flags INTERFACE -Wl,-z,relro,-z,now,-z,noexecstack $<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:-pie>)

if(PG_SANITIZE)
    target_compile_options(pg_flags INTERFACE -fsanitize=${PG_SANITIZE} -fno-omit-frame-pointer
        -fno-sanitize-recover=all)
    target_link_options(pg_flags INTERFACE -fsanitize=${PG_SANITIZE})
endif()
if(PG_FUZZ)
    set(fuzzed -fsanitize=fuzzer-no-link)
    if(NOT PG_FUZZ_COMPARISONS) # calls at every one of them: three times what the tests take otherwise
        list(APPEND fuzzed -fno-sanitize-coverage=trace-cmp,indirect-calls,stack-depth)
    endif()
    # Not what is in no fuzzer.
    target_compile_options(pg_flags INTERFACE "$<$<NOT:$<BOOL:$<TARGET_PROPERTY:PG_UNIT_TEST>>>:${fuzzed}>")
    # Half the time of two hundred links; with build ids as long as those of ld.
    target_link_options(pg_flags INTERFACE -fuse-ld=lld -Wl,--build-id=sha1)
endif()
if(PG_COVERAGE)
    target_compile_options(pg_flags INTERFACE --coverage)
    target_link_options(pg_flags INTERFACE --coverage)
endif()
