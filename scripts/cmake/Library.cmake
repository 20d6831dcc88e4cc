# The library of a folder is named by its path: gateway/serve/lanes is pg_gateway_serve_lanes. Where libraries are
# listed, folders are written as paths; what is no folder of ours (dep_uv, Threads::Threads) as it is.
function(pg_library_names result)
    set(names)
    foreach(item ${ARGN})
        if(IS_DIRECTORY ${CMAKE_SOURCE_DIR}/${item} OR item STREQUAL "descriptors" OR item STREQUAL "testlib")
            string(REPLACE "/" "_" item "pg_${item}")
        endif()
        list(APPEND names ${item})
    endforeach()
    set(${result} ${names} PARENT_SCOPE)
endfunction()

# pg_library([DEPS folder-or-library…] [SOURCES generated.c…]): the calling folder's static library, from every *.c in it
# but main.c; of headers alone, an interface.
function(pg_library)
    cmake_parse_arguments(ARG "" "" "DEPS;SOURCES" ${ARGN})
    file(RELATIVE_PATH folder ${CMAKE_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
    pg_library_names(name ${folder})
    pg_library_names(deps ${ARG_DEPS})
    file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.c)
    list(FILTER sources EXCLUDE REGEX "/main\\.c$")
    if(sources OR ARG_SOURCES)
        add_library(${name} STATIC ${sources} ${ARG_SOURCES})
        target_link_libraries(${name} PUBLIC pg_flags ${deps})
    else()
        add_library(${name} INTERFACE)
        target_link_libraries(${name} INTERFACE pg_flags ${deps})
    endif()
endfunction()

# pg_program(NAME DEPS…): main.c of the calling folder joined to libraries, at the root of the build.
function(pg_program name)
    pg_library_names(deps ${ARGN})
    add_executable(${name} main.c)
    target_link_libraries(${name} PRIVATE ${deps})
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
endfunction()

# pg_folders(TOP…): every folder below that has a CMakeLists.txt. In no order: libraries are named, not found.
function(pg_folders)
    foreach(top ${ARGN})
        file(GLOB_RECURSE lists CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${top}/CMakeLists.txt)
        foreach(list ${lists})
            get_filename_component(folder ${list} DIRECTORY)
            add_subdirectory(${folder})
        endforeach()
    endforeach()
endfunction()
