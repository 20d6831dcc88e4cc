# pg_embed(OUT.c SYMBOL file…): C source defining `const struct embedded_file SYMBOL[]`, ended by a NULL name, with
# the bytes of each file. So the shipped rule packs are in the binary and the files stay the only place they live.
function(pg_embed output symbol)
    add_custom_command(
        OUTPUT ${output}
        COMMAND ${CMAKE_COMMAND} -DOUT=${output} -DSYMBOL=${symbol} "-DFILES=${ARGN}"
                -P ${CMAKE_SOURCE_DIR}/scripts/cmake/EmbedFiles.cmake
        DEPENDS ${ARGN} ${CMAKE_SOURCE_DIR}/scripts/cmake/EmbedFiles.cmake
        VERBATIM)
endfunction()
