# cmake --install: components Runtime (the program, its manual pages and completion scripts, what a
# desktop shows of it, the shared library) and Development (headers, both libraries, CMake package,
# pkg-config file). Nothing in them names the build machine or the prefix, so an installed tree may be
# moved.
include(CMakePackageConfigHelpers)

set_target_properties(infer_lib PROPERTIES EXPORT_NAME static)
set_target_properties(infer_shared PROPERTIES EXPORT_NAME infer)
# What a consumer needs besides: the headers of tl::expected for infer.hpp, and with the static
# library what that was compiled against. inferConfig.cmake finds them.
foreach(target IN ITEMS infer_lib infer_shared)
  target_link_libraries(${target} INTERFACE $<INSTALL_INTERFACE:infer::expected>)
endforeach()
target_link_libraries(infer_lib INTERFACE $<INSTALL_INTERFACE:infer::utf8proc>
                                          $<INSTALL_INTERFACE:infer::pcre2>
                                          $<INSTALL_INTERFACE:infer::png>
                                          $<INSTALL_INTERFACE:infer::zlib>
                                          $<INSTALL_INTERFACE:infer::jpeg>
                                          $<INSTALL_INTERFACE:infer::webp>
                                          $<INSTALL_INTERFACE:Threads::Threads>
                                          $<INSTALL_INTERFACE:${CMAKE_DL_LIBS}>)

set(INFER_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/infer)
install(TARGETS infer_lib infer_shared EXPORT inferTargets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT Development
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT Runtime
  NAMELINK_COMPONENT Development)
install(DIRECTORY engine/include/infer DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        COMPONENT Development FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp" PATTERN "*.def")
if(TARGET infer_app)
  install(TARGETS infer_app RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT Runtime)
  # The program writes its manual pages and completion scripts itself, where it can run.
  if(NOT INFER_SANITIZE AND (NOT CMAKE_CROSSCOMPILING OR CMAKE_CROSSCOMPILING_EMULATOR))
    set(written ${CMAKE_BINARY_DIR}/written)
    add_custom_command(TARGET infer_app POST_BUILD
      COMMAND ${CMAKE_COMMAND} -E make_directory ${written}/man
      COMMAND infer_app man --folder ${written}/man
      COMMAND infer_app completion bash --output ${written}/infer
      COMMAND infer_app completion zsh --output ${written}/_infer
      COMMAND infer_app completion fish --output ${written}/infer.fish
      VERBATIM)
    install(DIRECTORY ${written}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1
            COMPONENT Runtime FILES_MATCHING PATTERN "*.1")
    foreach(pair IN ITEMS infer=bash-completion/completions _infer=zsh/site-functions
                          infer.fish=fish/vendor_completions.d)
      string(REPLACE "=" ";" pair ${pair})
      list(GET pair 0 file)
      list(GET pair 1 folder)
      install(FILES ${written}/${file} DESTINATION ${CMAKE_INSTALL_DATADIR}/${folder}
              COMPONENT Runtime)
    endforeach()
  endif()
endif()

# What a desktop shows of the window.
if(TARGET infer_app AND gui_AVAILABLE)
  set(icons ${CMAKE_INSTALL_DATADIR}/icons/hicolor)
  install(FILES desktop/infer.desktop DESTINATION ${CMAKE_INSTALL_DATADIR}/applications
          COMPONENT Runtime)
  install(FILES desktop/io.infer.infer.metainfo.xml DESTINATION ${CMAKE_INSTALL_DATADIR}/metainfo
          COMPONENT Runtime)
  install(FILES desktop/infer-gguf.xml DESTINATION ${CMAKE_INSTALL_DATADIR}/mime/packages
          COMPONENT Runtime)
  install(FILES desktop/infer.svg DESTINATION ${icons}/scalable/apps COMPONENT Runtime)
  foreach(size IN ITEMS 48 128 256)
    install(FILES desktop/infer-${size}.png DESTINATION ${icons}/${size}x${size}/apps
            RENAME infer.png COMPONENT Runtime)
  endforeach()
endif()

install(EXPORT inferTargets NAMESPACE infer:: DESTINATION ${INFER_CMAKE_DIR}
        COMPONENT Development)
configure_package_config_file(cmake/inferConfig.cmake.in ${CMAKE_BINARY_DIR}/inferConfig.cmake
                              INSTALL_DESTINATION ${INFER_CMAKE_DIR})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/inferConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/inferConfig.cmake ${CMAKE_BINARY_DIR}/inferConfigVersion.cmake
        DESTINATION ${INFER_CMAKE_DIR} COMPONENT Development)

# The prefix from the place of infer.pc itself.
file(RELATIVE_PATH INFER_PC_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/infer.pc.in ${CMAKE_BINARY_DIR}/infer.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/infer.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
        COMPONENT Development)
