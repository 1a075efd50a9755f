# The program. Its parts are libraries of their own, so that the tests of one need no other:
#   infer_platform       app/platform: what asks the operating system
#   infer_services       app/bundle, app/chat, app/demo, app/hub
#   infer_conversations  app/conversations: SQLite
#   infer_server         app/server: HTTP, on Boost.Beast
#   infer_gui_host       app/gui/host: what stands behind the window, without drawing
#   infer_gui            the rest of app/gui: Dear ImGui, where its packages are
# The executable adds app/cli.

# infer_add_part(NAME FOLDERS... LIBRARIES...): a static library of all sources in these folders.
function(infer_add_part name)
  cmake_parse_arguments(part "" "" "FOLDERS;PUBLIC;PRIVATE;INCLUDES" ${ARGN})
  set(sources "")
  foreach(folder IN LISTS part_FOLDERS)
    file(GLOB found CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/app/${folder}/*.cpp)
    list(APPEND sources ${found})
  endforeach()
  list(FILTER sources EXCLUDE REGEX "/no_gui\\.cpp$")
  add_library(${name} STATIC EXCLUDE_FROM_ALL ${sources})
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR}/app PRIVATE ${part_INCLUDES})
  # Nothing in the program itself is worth the optimiser's time: what computes is in the library.
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-Os>)
  target_precompile_headers(${name} PRIVATE ${CMAKE_SOURCE_DIR}/cmake/precompiled_app.h)
  list(TRANSFORM part_FOLDERS PREPEND app/)
  infer_compile_together(${name} 8 ${part_FOLDERS})
  target_link_libraries(${name} PUBLIC infer_lib ${part_PUBLIC} PRIVATE infer_settings ${part_PRIVATE})
endfunction()

# Of libcurl the header alone: the library is opened at run time.
find_path(CURL_INCLUDE_DIR curl/curl.h REQUIRED)
find_path(OPENSSL_INCLUDE_DIR openssl/sha.h REQUIRED)
find_library(CRYPTO_LIBRARY NAMES libcrypto.a REQUIRED)
find_library(SSL_LIBRARY NAMES libssl.a REQUIRED)
find_path(SQLITE_INCLUDE_DIR sqlite3.h REQUIRED)
find_library(SQLITE_LIBRARY NAMES libsqlite3.a REQUIRED)
find_path(TOML_INCLUDE_DIR toml++/toml.h REQUIRED)

infer_add_part(infer_platform FOLDERS platform PRIVATE ${CMAKE_DL_LIBS})
# The built-in models are part of that object.
file(GLOB DEMO_MODELS CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/app/demo/*.gguf)
set_source_files_properties(${CMAKE_SOURCE_DIR}/app/demo/demo_model.cpp PROPERTIES
  COMPILE_DEFINITIONS INFER_DEMO_FOLDER="${CMAKE_SOURCE_DIR}/app/demo"
  OBJECT_DEPENDS "${DEMO_MODELS}")
infer_add_part(infer_services FOLDERS bundle chat demo hub
  INCLUDES ${CURL_INCLUDE_DIR} ${OPENSSL_INCLUDE_DIR} ${UTF8PROC_INCLUDE_DIR}
  PUBLIC infer_platform nlohmann_json::nlohmann_json PRIVATE ${CRYPTO_LIBRARY} ${UTF8PROC_LIBRARY})
infer_add_part(infer_conversations FOLDERS conversations
  INCLUDES ${SQLITE_INCLUDE_DIR} ${UTF8PROC_INCLUDE_DIR}
  PUBLIC infer_platform
  PRIVATE nlohmann_json::nlohmann_json ${SQLITE_LIBRARY} ${UTF8PROC_LIBRARY} Threads::Threads
          ${CMAKE_DL_LIBS} m)
find_path(BOOST_INCLUDE_DIR boost/beast/http.hpp REQUIRED)
file(GLOB PAGE CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/app/server/page/*)
set_source_files_properties(${CMAKE_SOURCE_DIR}/app/server/api/page.cpp PROPERTIES
  COMPILE_DEFINITIONS INFER_PAGE_FOLDER="${CMAKE_SOURCE_DIR}/app/server/page" OBJECT_DEPENDS "${PAGE}")
infer_add_part(infer_server FOLDERS server server/api server/generation server/http server/models server/trace
  INCLUDES ${BOOST_INCLUDE_DIR} ${OPENSSL_INCLUDE_DIR}
  PUBLIC infer_services
  PRIVATE nlohmann_json::nlohmann_json ${SSL_LIBRARY} ${CRYPTO_LIBRARY} Threads::Threads ${CMAKE_DL_LIBS})
infer_add_part(infer_gui_host FOLDERS gui/host INCLUDES ${TOML_INCLUDE_DIR}
  PUBLIC infer_services PRIVATE Threads::Threads ${CMAKE_DL_LIBS})

option(INFER_GUI "Build the window where its packages are found" ON)
find_path(IMGUI_INCLUDE_DIR imgui.h PATH_SUFFIXES imgui)
find_path(GLFW_INCLUDE_DIR GLFW/glfw3.h)  # the library is opened at run time
find_path(FREETYPE_INCLUDE_DIR ft2build.h PATH_SUFFIXES freetype2)  # so is this one
find_path(CMARK_INCLUDE_DIR cmark-gfm.h)
find_path(FONT_FOLDER DejaVuSans.ttf PATHS /usr/share/fonts/truetype/dejavu /usr/share/fonts/dejavu
          /usr/share/fonts/TTF NO_DEFAULT_PATH)
foreach(name IN ITEMS imgui stb cmark-gfm-extensions cmark-gfm)
  find_library(GUI_${name} NAMES lib${name}.a)
  list(APPEND GUI_LIBRARIES ${GUI_${name}})
endforeach()
set(gui_AVAILABLE FALSE)
if(NOT INFER_GUI)
  message(STATUS "Window: left out, INFER_GUI is off")
elseif(NOT (IMGUI_INCLUDE_DIR AND GLFW_INCLUDE_DIR AND FREETYPE_INCLUDE_DIR AND
            CMARK_INCLUDE_DIR AND FONT_FOLDER AND NOT GUI_LIBRARIES MATCHES NOTFOUND))
  message(STATUS "Window: left out, a package is missing (tools/setup.sh)")
else()
  set(gui_AVAILABLE TRUE)
  infer_add_part(infer_gui FOLDERS gui gui/panes gui/plot gui/state gui/text gui/ui
    INCLUDES ${GLFW_INCLUDE_DIR} ${FREETYPE_INCLUDE_DIR} ${CMARK_INCLUDE_DIR}
    PUBLIC infer_gui_host infer_conversations
    PRIVATE ${GUI_LIBRARIES} nlohmann_json::nlohmann_json Threads::Threads ${CMAKE_DL_LIBS})
  target_include_directories(infer_gui PUBLIC ${IMGUI_INCLUDE_DIR})
  # ImGui declares the functions of OpenGL.
  target_compile_definitions(infer_gui PRIVATE GLFW_INCLUDE_NONE)
  set(FONTS "")
  foreach(name IN ITEMS DejaVuSans DejaVuSans-Bold DejaVuSansMono)
    set(packed ${CMAKE_BINARY_DIR}/fonts/${name}.ttf.gz)
    add_custom_command(OUTPUT ${packed} DEPENDS ${FONT_FOLDER}/${name}.ttf
      COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/fonts
      COMMAND gzip -9 -n -c ${FONT_FOLDER}/${name}.ttf > ${packed})
    list(APPEND FONTS ${packed})
  endforeach()
  set_source_files_properties(${CMAKE_SOURCE_DIR}/app/gui/font_data.cpp PROPERTIES
    COMPILE_DEFINITIONS INFER_FONT_FOLDER="${CMAKE_BINARY_DIR}/fonts" OBJECT_DEPENDS "${FONTS}")
  set(ICON ${CMAKE_SOURCE_DIR}/desktop/infer-48.png)
  set_source_files_properties(${CMAKE_SOURCE_DIR}/app/gui/window.cpp PROPERTIES
    COMPILE_DEFINITIONS INFER_ICON="${ICON}" OBJECT_DEPENDS ${ICON})
  # ImGui's header of OpenGL's functions cannot follow GLFW's.
  set_source_files_properties(${CMAKE_SOURCE_DIR}/app/gui/open_gl.cpp PROPERTIES
    SKIP_UNITY_BUILD_INCLUSION ON)
endif()

if(INFER_APP)
  find_path(CLI11_INCLUDE_DIR CLI/CLI.hpp REQUIRED)
  find_path(EDITLINE_INCLUDE_DIR histedit.h REQUIRED)
  # libedit and what its archive needs.
  foreach(name IN ITEMS edit tinfo bsd md)
    find_library(EDITLINE_${name} NAMES lib${name}.a REQUIRED)
    list(APPEND EDITLINE_LIBRARIES ${EDITLINE_${name}})
  endforeach()
  file(GLOB CLI_SOURCES CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/app/cli/*.cpp)
  add_executable(infer_app ${CMAKE_SOURCE_DIR}/app/main.cpp ${CLI_SOURCES})
  set_target_properties(infer_app PROPERTIES OUTPUT_NAME infer)
  if(gui_AVAILABLE)
    target_link_libraries(infer_app PRIVATE infer_gui)
  else()
    target_sources(infer_app PRIVATE ${CMAKE_SOURCE_DIR}/app/gui/no_gui.cpp)
  endif()
  target_include_directories(infer_app PRIVATE ${CLI11_INCLUDE_DIR} ${EDITLINE_INCLUDE_DIR}
                                               ${UTF8PROC_INCLUDE_DIR})
  target_compile_options(infer_app PRIVATE $<$<CONFIG:Release>:-O1>)
  target_precompile_headers(infer_app PRIVATE <nlohmann/json.hpp> ${CMAKE_SOURCE_DIR}/app/cli/output.h)
  infer_compile_together(infer_app 4 app/cli)
  target_link_libraries(infer_app PRIVATE infer_server infer_services infer_settings ${EDITLINE_LIBRARIES})
endif()
