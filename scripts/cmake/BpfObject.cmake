# pg_bpf_skeleton(NAME file.bpf.c): compiles a CO-RE object and its libbpf skeleton; the interface target NAME_skel
# lets user-side code say #include "NAME.skel.h".
function(pg_bpf_skeleton name source)
    find_program(BPF_CLANG NAMES clang REQUIRED)
    find_program(BPFTOOL NAMES bpftool PATHS /usr/sbin REQUIRED)
    set(object ${CMAKE_CURRENT_BINARY_DIR}/${name}.bpf.o)
    set(skeleton ${CMAKE_BINARY_DIR}/gen/${name}.skel.h)
    if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
        set(arch x86)
        set(multiarch x86_64-linux-gnu)
    else()
        set(arch arm64)
        set(multiarch aarch64-linux-gnu)
    endif()
    file(GLOB headers CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.h)
    add_custom_command(
        OUTPUT ${object}
        COMMAND ${BPF_CLANG} -g -O2 -target bpf -mcpu=v3 -D__TARGET_ARCH_${arch} -Wall -Werror
                -I${CMAKE_SOURCE_DIR} -I/usr/include/${multiarch} -c ${CMAKE_CURRENT_SOURCE_DIR}/${source} -o ${object}
        DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${source} ${headers})
    add_custom_command(
        OUTPUT ${skeleton}
        COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/gen
        COMMAND ${BPFTOOL} gen skeleton ${object} name ${name} > ${skeleton}
        DEPENDS ${object})
    add_custom_target(${name}_skel_file DEPENDS ${skeleton})
    add_library(${name}_skel INTERFACE)
    add_dependencies(${name}_skel ${name}_skel_file)
    target_include_directories(${name}_skel SYSTEM INTERFACE ${CMAKE_BINARY_DIR}/gen)
    target_link_libraries(${name}_skel INTERFACE dep_bpf dep_elf dep_zlib)
endfunction()
