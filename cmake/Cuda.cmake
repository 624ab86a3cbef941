# Decides whether the CUDA backend is built, and enables the CUDA language if it is.
#   TL_CUDA=AUTO  built when a toolkit is found (the default)
#   TL_CUDA=ON    an error without a toolkit
#   TL_CUDA=OFF   not built
# Sets TL_HAVE_CUDA. Include it from the top-level file: a language is enabled there only.

set(TL_CUDA AUTO CACHE STRING "Build the CUDA backend: AUTO, ON or OFF")
set_property(CACHE TL_CUDA PROPERTY STRINGS AUTO ON OFF)
if(NOT TL_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "[cuda] TL_CUDA is '${TL_CUDA}', wants AUTO, ON or OFF")
endif()

set(TL_HAVE_CUDA OFF)
if(NOT TL_CUDA STREQUAL "OFF")
  # The runtime and headers first: without them the compiler check would only print a longer error.
  find_package(CUDAToolkit QUIET)
  if(CUDAToolkit_FOUND)
    set(TL_HAVE_CUDA ON)
  elseif(TL_CUDA STREQUAL "ON")
    message(FATAL_ERROR
      "[cuda] TL_CUDA=ON, but no CUDA toolkit was found (nvcc in PATH, CUDAToolkit_ROOT and "
      "/usr/local/cuda were tried). Install the toolkit or name it with -DCUDAToolkit_ROOT=<folder>; "
      "TL_CUDA=OFF builds without GPUs.")
  endif()
endif()

if(TL_HAVE_CUDA)
  if(NOT CMAKE_CUDA_COMPILER)
    set(CMAKE_CUDA_COMPILER "${CUDAToolkit_NVCC_EXECUTABLE}")
  endif()
  # Real code for Ampere, Hopper and Blackwell where the compiler knows them, and PTX of the newest
  # for what comes after.
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    execute_process(COMMAND "${CMAKE_CUDA_COMPILER}" --list-gpu-code OUTPUT_VARIABLE known)
    set(CMAKE_CUDA_ARCHITECTURES "")
    set(newest "")
    foreach(architecture 80 90a 100)
      string(REPLACE "a" "" listed ${architecture})  # nvcc lists 90 and means 90a too
      if(known MATCHES "sm_${listed}[\r\n]")
        list(APPEND CMAKE_CUDA_ARCHITECTURES ${architecture}-real)
        set(newest ${listed})
      endif()
    endforeach()
    if(NOT newest)
      message(FATAL_ERROR "[cuda] ${CMAKE_CUDA_COMPILER} compiles for none of sm_80, sm_90, sm_100; it knows: ${known}")
    endif()
    list(APPEND CMAKE_CUDA_ARCHITECTURES ${newest}-virtual)
    set(CMAKE_CUDA_ARCHITECTURES "${CMAKE_CUDA_ARCHITECTURES}" CACHE STRING "CUDA architectures")
  endif()
  enable_language(CUDA)
  # CMake 3.25 does not know that nvcc compiles C++20.
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
  endif()
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
  message(STATUS "CUDA: ${CUDAToolkit_VERSION}, architectures ${CMAKE_CUDA_ARCHITECTURES}")
else()
  message(STATUS "CUDA: not built (TL_CUDA=${TL_CUDA})")
endif()
