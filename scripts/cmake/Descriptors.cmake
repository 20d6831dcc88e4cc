# pg_descriptors(OUT.c SYMBOL file.proto…): the descriptors of our schema (google.protobuf.FileDescriptorSet, imports
# first) as an embedded file, for server reflection. The schema is flat because protobuf-c wants it so; a client knows the
# files by their published names, so they are first laid out under those: the first line of each says its own.
# protoc-c writes descriptor sets as protoc does, so that the build needs no second compiler.
function(pg_descriptors output symbol)
    set(tree ${CMAKE_CURRENT_BINARY_DIR}/published)
    set(set ${CMAKE_CURRENT_BINARY_DIR}/${symbol}.desc)
    add_custom_command(
        OUTPUT ${set}
        COMMAND ${CMAKE_COMMAND} -DOUT=${set} -DTREE=${tree} -DPROTOC=${PROTOC_C} "-DFILES=${ARGN}"
                -P ${CMAKE_SOURCE_DIR}/scripts/cmake/DescriptorSet.cmake
        DEPENDS ${ARGN} ${CMAKE_SOURCE_DIR}/scripts/cmake/DescriptorSet.cmake
        VERBATIM)
    pg_embed(${output} ${symbol} ${set})
endfunction()
