# cmake --install build [--prefix DIR]: the programs, and the manual pages and completions that they print of themselves.
include(GNUInstallDirs)

# What a program prints, as a file: pg_install_said(PROGRAM "ARGUMENT …" FOLDER FILE).
function(pg_install_said program arguments folder file)
    install(CODE "
        set(folder \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${folder}\")
        file(MAKE_DIRECTORY \"\${folder}\")
        execute_process(COMMAND \"${CMAKE_BINARY_DIR}/${program}\" ${arguments}
            OUTPUT_FILE \"\${folder}/${file}\" COMMAND_ERROR_IS_FATAL ANY)
        message(STATUS \"Installing: \${folder}/${file}\")")
endfunction()

function(pg_install_program program completion)
    install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
    pg_install_said(${program} "${completion} bash" ${CMAKE_INSTALL_DATADIR}/bash-completion/completions ${program})
    pg_install_said(${program} "${completion} zsh" ${CMAKE_INSTALL_DATADIR}/zsh/site-functions _${program})
    pg_install_said(${program} "${completion} fish" ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d ${program}.fish)
endfunction()

pg_install_program(profgate completion)
pg_install_said(profgate manual ${CMAKE_INSTALL_MANDIR}/man1 profgate.1)
pg_install_said(profgate "manual config" ${CMAKE_INSTALL_MANDIR}/man5 profgate.yaml.5)
if(PG_BUILD_SENDER)
    pg_install_program(profsend --completion)
    pg_install_said(profsend --manual ${CMAKE_INSTALL_MANDIR}/man8 profsend.8)
endif()
