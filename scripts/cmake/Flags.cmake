# Compiler flags for our own code. Warnings are errors everywhere; generated code gets its own, quieter set.
set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_FLAGS_RELEASE "-O2 -g")     # asserts stay: they guard what no peer can cause

add_library(pg_flags INTERFACE)
target_include_directories(pg_flags INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}/gen)
target_compile_definitions(pg_flags INTERFACE _GNU_SOURCE PROFGATE_VERSION="${PROJECT_VERSION}")
target_compile_options(pg_flags INTERFACE
    -Wall -Wextra -Werror -Wshadow -Wpointer-arith -Wstrict-prototypes -Wmissing-prototypes
    -Wwrite-strings -Wvla -Wundef -Wformat=2 -Wno-unused-parameter -Wno-missing-field-initializers
    -fno-strict-aliasing -fno-common -fstack-protector-strong)
target_link_options(pg_flags INTERFACE -Wl,-z,relro,-z,now)

if(PG_SANITIZE)
    target_compile_options(pg_flags INTERFACE -fsanitize=${PG_SANITIZE} -fno-omit-frame-pointer
        -fno-sanitize-recover=all)
    target_link_options(pg_flags INTERFACE -fsanitize=${PG_SANITIZE})
endif()
if(PG_FUZZ)
    # clang counts NULL + 0 as an overflow of a pointer, which C allows since N3322 and both compilers always did.
    target_compile_options(pg_flags INTERFACE -fsanitize=fuzzer-no-link -fno-sanitize=pointer-overflow)
endif()
if(PG_COVERAGE)
    target_compile_options(pg_flags INTERFACE --coverage)
    target_link_options(pg_flags INTERFACE --coverage)
endif()
