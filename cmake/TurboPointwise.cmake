# turbo_pointwise_kernels(<library> <generator>)
# A static library of kernels compiled ahead of time. <generator> is an executable that takes the
# path of the source to write, as EmitPointwiseSource gives it (include_path: the file's name).
function(turbo_pointwise_kernels library generator)
  set(folder "${CMAKE_CURRENT_BINARY_DIR}/${library}")
  file(MAKE_DIRECTORY "${folder}")
  add_custom_command(OUTPUT "${folder}/${library}.cpp"
                     COMMAND ${generator} "${folder}/${library}.cpp"
                     DEPENDS ${generator} VERBATIM)
  add_library(${library} STATIC "${folder}/${library}.cpp")
  target_include_directories(${library} PRIVATE "${folder}")
  target_compile_options(${library} PRIVATE -ffp-contract=off)
  if(TL_SANITIZE)  # or the compiler takes many minutes over the instrumented kernels
    target_compile_options(${library} PRIVATE -O1 -g0)
  endif()
  if(TL_SANITIZE MATCHES "address")
    # Kernels read and write the caller's rows, which stay watched. What costs those minutes is the
    # watch over the registers' worth of locals that every inlined vector operation brings.
    target_compile_options(${library} PRIVATE -fno-sanitize-address-use-after-scope
                                              "SHELL:--param asan-stack=0")
  endif()
  target_link_libraries(${library} PUBLIC turbolstm_ops)
endfunction()

# turbo_pointwise_cuda_kernels(<library> <generator> <parts>)
# Likewise for CUDA. <generator> takes the paths of <parts> sources to write, as EmitCudaFile gives
# them; several compile at once.
function(turbo_pointwise_cuda_kernels library generator parts)
  set(folder "${CMAKE_CURRENT_BINARY_DIR}/${library}")
  file(MAKE_DIRECTORY "${folder}")
  set(sources "")
  foreach(part RANGE 1 ${parts})
    list(APPEND sources "${folder}/${library}_${part}.cu")
  endforeach()
  add_custom_command(OUTPUT ${sources} COMMAND ${generator} ${sources}
                     DEPENDS ${generator} VERBATIM)
  add_library(${library} STATIC ${sources})
  if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 12.8)  # a quarter of the size
    target_compile_options(${library} PRIVATE --compress-mode=size)
  endif()
  target_link_libraries(${library} PUBLIC turbolstm_ops)
endfunction()
