# Writes the lists that design keeps out of the sources: what is in a folder is what exists.
#   engine/quant/<type>.h     → infer_all_codecs.h
#   engine/ops/<op>.cpp       → op_def(OpId)            each defines  const OpDef& <op>_op()
#   models/<name>.cpp         → all_architectures()     each defines  const ArchDef& <name>_arch()
#   models/towers/<name>.cpp  → all_towers()            each defines  const TowerDef& <name>_tower()
#   formats/<name>/           → all_formats()           each defines  const FormatDef& <name>_format()
#   backends/<name>/          → all_backends()          each defines  const BackendDef& <name>_backend()
#   backends/<name>/<name>_absent.cpp → all_absent()    each defines  const AbsentDef& <name>_absent()

set(INFER_GENERATED ${CMAKE_BINARY_DIR}/generated)

function(infer_write_if_changed path text)
  set(old "")
  if(EXISTS ${path})
    file(READ ${path} old)
  endif()
  if(NOT old STREQUAL text)
    file(WRITE ${path} "${text}")
  endif()
endfunction()

# Declarations and a table of references, for one kind of definition.
function(_infer_table out type suffix function)
  set(declarations "")
  set(entries "")
  foreach(name IN LISTS ARGN)
    string(APPEND declarations "const ${type}& ${name}_${suffix}();\n")
    string(APPEND entries "      &${name}_${suffix}(),\n")
  endforeach()
  if(entries STREQUAL "")
    set(body "  return {};\n")
  else()
    set(body "  static const ${type}* const table[] = {\n${entries}  };\n  return table;\n")
  endif()
  set(${out} "${declarations}\nstd::span<const ${type}* const> ${function}() {\n${body}}\n\n"
      PARENT_SCOPE)
endfunction()

function(_infer_names out)
  set(names "")
  foreach(path IN LISTS ARGN)
    get_filename_component(name ${path} NAME_WE)
    list(APPEND names ${name})
  endforeach()
  set(${out} "${names}" PARENT_SCOPE)
endfunction()

function(infer_generate_registry sources_variable)
  file(GLOB codecs CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR} engine/quant/*.h)
  list(REMOVE_ITEM codecs engine/quant/quant.h)
  set(text "// Generated from the files in engine/quant.\n#pragma once\n")
  foreach(path IN LISTS codecs)
    string(APPEND text "#include \"${path}\"\n")
  endforeach()
  infer_write_if_changed(${INFER_GENERATED}/infer_all_codecs.h "${text}")

  file(GLOB op_files CONFIGURE_DEPENDS engine/ops/*.cpp)
  list(FILTER op_files EXCLUDE REGEX "/(op)\\.cpp$")
  file(GLOB model_files CONFIGURE_DEPENDS models/*.cpp)
  file(GLOB tower_files CONFIGURE_DEPENDS models/towers/*.cpp)
  file(GLOB format_dirs CONFIGURE_DEPENDS LIST_DIRECTORIES true formats/*)
  _infer_names(ops ${op_files})
  _infer_names(models ${model_files})
  _infer_names(towers ${tower_files})
  _infer_names(formats ${format_dirs})
  _infer_table(op_table OpDef op all_ops ${ops})
  _infer_table(model_table ArchDef arch all_architectures ${models})
  _infer_table(tower_table TowerDef tower all_towers ${towers})
  _infer_table(format_table FormatDef format all_formats ${formats})
  _infer_table(backend_table BackendDef backend all_backends ${INFER_BACKENDS})
  set(absent ${INFER_BACKENDS})
  foreach(name IN LISTS INFER_BACKENDS)
    if(NOT EXISTS ${CMAKE_SOURCE_DIR}/backends/${name}/${name}_absent.cpp)
      list(REMOVE_ITEM absent ${name})
    endif()
  endforeach()
  _infer_table(absent_table AbsentDef absent all_absent ${absent})
  infer_write_if_changed(${INFER_GENERATED}/registry.cpp
"// Generated from the names of files and folders; see cmake/registry.cmake.
#include \"engine/backend/absent_device.h\"
#include \"engine/backend/device.h\"
#include \"engine/model/arch.h\"
#include \"engine/model/tower.h\"
#include \"engine/ops/op.h\"
#include \"engine/weights/weight_source.h\"

namespace infer {

${op_table}${model_table}${tower_table}${format_table}${backend_table}${absent_table}}  // namespace infer
")
  set(${sources_variable} ${${sources_variable}} ${INFER_GENERATED}/registry.cpp PARENT_SCOPE)
endfunction()
