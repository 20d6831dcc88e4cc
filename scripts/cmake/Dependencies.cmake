# Every library we use, from Debian 12 packages (scripts/setup installs them).
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
foreach(pair
        "uv;libuv" "nghttp2;libnghttp2" "protobufc;libprotobuf-c" "jsonc;json-c"
        "pcre2;libpcre2-8" "zlib;zlib" "check;check")
    list(GET pair 0 short)
    list(GET pair 1 package)
    pkg_check_modules(${short} REQUIRED IMPORTED_TARGET ${package})
    add_library(dep_${short} INTERFACE)
    target_link_libraries(dep_${short} INTERFACE PkgConfig::${short})
endforeach()
# Loaded when something needs them (proto/base/library) by a program with PG_ON_DEMAND, and linked with any other.
foreach(pair
        "crypt;libcrypt" "deflate;libdeflate" "isal;libisal" "lz4;liblz4" "openssl;openssl" "rdkafka;rdkafka"
        "snappy;snappy" "sqlite3;sqlite3" "yaml;yaml-0.1" "zstd;libzstd")
    list(GET pair 0 short)
    list(GET pair 1 package)
    pkg_check_modules(${short} REQUIRED IMPORTED_TARGET ${package})
    add_library(dep_${short} INTERFACE)
    target_include_directories(dep_${short} SYSTEM INTERFACE
        $<TARGET_PROPERTY:PkgConfig::${short},INTERFACE_INCLUDE_DIRECTORIES>)
    target_link_libraries(dep_${short} INTERFACE
        $<IF:$<BOOL:$<TARGET_PROPERTY:PG_ON_DEMAND>>,on_demand_${short},PkgConfig::${short}>)
endforeach()
if(PG_BUILD_SENDER)
    foreach(pair "bpf;libbpf" "elf;libelf" "lzma;liblzma" "md;libmd" "seccomp;libseccomp")
        list(GET pair 0 short)
        list(GET pair 1 package)
        pkg_check_modules(${short} REQUIRED IMPORTED_TARGET ${package})
        add_library(dep_${short} INTERFACE)
        target_link_libraries(dep_${short} INTERFACE PkgConfig::${short})
    endforeach()
endif()

# GNU libiberty (C++ and Rust demangling) is a static library without a .pc file.
if(PG_BUILD_SENDER)
    find_library(IBERTY_LIBRARY iberty REQUIRED)
    find_path(IBERTY_INCLUDE libiberty/demangle.h REQUIRED)
    add_library(dep_iberty INTERFACE)
    target_link_libraries(dep_iberty INTERFACE ${IBERTY_LIBRARY})
    target_include_directories(dep_iberty SYSTEM INTERFACE ${IBERTY_INCLUDE})
endif()

# llhttp: a system library where there is one; else Debian's node-llhttp, which ships the C sources.
find_library(LLHTTP_LIBRARY llhttp)
find_path(LLHTTP_INCLUDE llhttp.h PATHS /usr/share/include/llhttp)
add_library(dep_llhttp INTERFACE)
if(LLHTTP_LIBRARY AND LLHTTP_INCLUDE)
    target_link_libraries(dep_llhttp INTERFACE ${LLHTTP_LIBRARY})
    target_include_directories(dep_llhttp SYSTEM INTERFACE ${LLHTTP_INCLUDE})
elseif(LLHTTP_INCLUDE AND EXISTS /usr/share/llhttp/llhttp.c)
    add_library(llhttp_from_source STATIC /usr/share/llhttp/api.c /usr/share/llhttp/http.c /usr/share/llhttp/llhttp.c)
    target_include_directories(llhttp_from_source SYSTEM PUBLIC ${LLHTTP_INCLUDE})
    target_compile_options(llhttp_from_source PRIVATE -O2 -w)
    target_link_libraries(dep_llhttp INTERFACE llhttp_from_source)
else()
    message(FATAL_ERROR "llhttp not found: apt-get install node-llhttp (or run ./scripts/setup)")
endif()
