# pg_protobuf_c(TARGET file.proto…): protobuf-c code from our own schema, under ${CMAKE_BINARY_DIR}/gen, included as
# "proto/schema/….pb-c.h". protobuf-c cannot have folders in its include lines, so the schema files are flat.
find_program(PROTOC_C NAMES protoc-c REQUIRED)
function(pg_protobuf_c target)
    set(out ${CMAKE_BINARY_DIR}/gen/proto/schema)
    set(sources)
    foreach(file ${ARGN})
        get_filename_component(stem ${file} NAME_WE)
        add_custom_command(
            OUTPUT ${out}/${stem}.pb-c.c ${out}/${stem}.pb-c.h
            COMMAND ${CMAKE_COMMAND} -E make_directory ${out}
            COMMAND ${PROTOC_C} --proto_path=${CMAKE_CURRENT_SOURCE_DIR} --c_out=${out} ${file}
            DEPENDS ${file}
            WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
        list(APPEND sources ${out}/${stem}.pb-c.c)
    endforeach()
    add_library(${target} STATIC ${sources})
    target_include_directories(${target} SYSTEM PUBLIC ${out} ${CMAKE_BINARY_DIR}/gen)
    target_compile_options(${target} PRIVATE -w)
    target_link_libraries(${target} PUBLIC dep_protobufc)
endfunction()
