# Decides whether the Ascend backend is built. None exists yet, so AUTO means no and ON is an error;
# the option is here so that presets and scripts can name it.

set(TL_ASCEND AUTO CACHE STRING "Build the Ascend backend: AUTO, ON or OFF")
set_property(CACHE TL_ASCEND PROPERTY STRINGS AUTO ON OFF)
if(NOT TL_ASCEND MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "[ascend] TL_ASCEND is '${TL_ASCEND}', wants AUTO, ON or OFF")
endif()

set(TL_HAVE_ASCEND OFF)
if(TL_ASCEND STREQUAL "ON")
  message(FATAL_ERROR "[ascend] TL_ASCEND=ON, but this source tree has no Ascend backend; use AUTO or OFF")
endif()
