# turbo_embed_text(<header> <namespace> <name> <file>...)
# Writes a header that defines `inline constexpr std::string_view <name>`: the text of the files one
# after the other, without their include directives and include guards, as each needs those before it.
function(turbo_embed_text header namespace name)
  set(text "")
  foreach(file ${ARGN})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${file}")
    file(READ "${file}" content)
    string(REGEX REPLACE "#(include|pragma once)[^\n]*\n" "" content "${content}")
    string(APPEND text "${content}")
  endforeach()
  file(CONFIGURE OUTPUT "${header}" @ONLY CONTENT [==[
#pragma once

#include <string_view>

namespace @namespace@ {

inline constexpr std::string_view @name@ = R"text(@text@)text";

}  // namespace @namespace@
]==])
endfunction()
