# A folder of src/ becomes one static library; the suffix of a file says what it is:
#   *_test.cpp   GoogleTest cases, one executable a folder, labelled with the folder's name
#   *_cuda_test.cpp            likewise, an executable of their own, also labelled `cuda`
#   *_bench.cpp  Google Benchmark cases, one executable a folder
#   *_cuda_bench.cpp           likewise, an executable of their own
#   *_fuzz.cpp   one libFuzzer target a file
#   *_cuda.cpp, *_cuda.cu      only in a build with CUDA; no_cuda.cpp only in one without
#   *_ascend.cpp               likewise with no_ascend.cpp
#   anything else (.cpp) belongs to the library.

add_library(turbolstm_options INTERFACE)
target_compile_options(turbolstm_options INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wshadow;-fno-math-errno>
  $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-Wshadow>)
target_include_directories(turbolstm_options INTERFACE "${PROJECT_SOURCE_DIR}/src"
                                                       "${PROJECT_SOURCE_DIR}/include")
if(TL_SANITIZE)
  target_compile_options(turbolstm_options INTERFACE
    "$<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${TL_SANITIZE};-fno-sanitize-recover=all;-fno-omit-frame-pointer>")
  target_link_options(turbolstm_options INTERFACE -fsanitize=${TL_SANITIZE})
endif()
if(TL_BUILD_FUZZERS)
  # Coverage of the libraries is what guides the fuzzer.
  target_compile_options(turbolstm_options INTERFACE -fsanitize=fuzzer-no-link)
endif()

# turbo_folder(<name> [SUBFOLDERS <dir>...] [DEPS <library>...] [TEST_DEPS <library>...])
# The library is turbolstm_<name>. SUBFOLDERS are searched for sources too.
function(turbo_folder name)
  cmake_parse_arguments(ARG "" "" "SUBFOLDERS;DEPS;TEST_DEPS" ${ARGN})
  set(sources "")
  foreach(dir . ${ARG_SUBFOLDERS})
    file(GLOB found CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${dir}/*.cpp")
    list(APPEND sources ${found})
    if(TL_HAVE_CUDA)
      file(GLOB found CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${dir}/*_cuda.cu")
      list(APPEND sources ${found})
    endif()
  endforeach()
  foreach(backend cuda ascend)
    string(TOUPPER ${backend} upper)
    if(TL_HAVE_${upper})
      list(FILTER sources EXCLUDE REGEX "/no_${backend}\\.cpp$")
    else()
      set(twins ${sources})
      list(FILTER twins INCLUDE REGEX "/no_${backend}\\.cpp$")
      list(FILTER sources EXCLUDE REGEX "_${backend}(_test|_bench)?\\.cpp$")
      list(APPEND sources ${twins})
    endif()
  endforeach()
  set(tests ${sources})
  set(benches ${sources})
  set(fuzzers ${sources})
  set(cuda_tests ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cpp$")
  list(FILTER tests EXCLUDE REGEX "_cuda_test\\.cpp$")
  list(FILTER cuda_tests INCLUDE REGEX "_cuda_test\\.cpp$")
  set(cuda_benches ${sources})
  list(FILTER benches INCLUDE REGEX "_bench\\.cpp$")
  list(FILTER benches EXCLUDE REGEX "_cuda_bench\\.cpp$")
  list(FILTER cuda_benches INCLUDE REGEX "_cuda_bench\\.cpp$")
  list(FILTER fuzzers INCLUDE REGEX "_fuzz\\.cpp$")
  list(FILTER sources EXCLUDE REGEX "_(test|bench|fuzz)\\.cpp$")

  set(library turbolstm_${name})
  add_library(${library} STATIC ${sources})
  target_link_libraries(${library} PUBLIC turbolstm_options ${ARG_DEPS})

  if(TL_BUILD_TESTS AND tests)
    add_executable(${name}_test ${tests})
    target_link_libraries(${name}_test PRIVATE ${library} ${ARG_TEST_DEPS} GTest::gtest_main)
    gtest_discover_tests(${name}_test PROPERTIES LABELS ${name} DISCOVERY_TIMEOUT 60)
  endif()
  if(TL_BUILD_TESTS AND cuda_tests)
    add_executable(${name}_cuda_test ${cuda_tests})
    target_link_libraries(${name}_cuda_test PRIVATE ${library} ${ARG_TEST_DEPS} GTest::gtest_main)
    gtest_discover_tests(${name}_cuda_test PROPERTIES LABELS "${name};cuda" DISCOVERY_TIMEOUT 60)
  endif()
  if(TL_BUILD_BENCHMARKS AND benches)
    add_executable(${name}_bench ${benches})
    target_link_libraries(${name}_bench PRIVATE ${library} benchmark::benchmark_main)
  endif()
  if(TL_BUILD_BENCHMARKS AND cuda_benches)
    add_executable(${name}_cuda_bench ${cuda_benches})
    target_link_libraries(${name}_cuda_bench PRIVATE ${library} benchmark::benchmark_main)
  endif()
  if(TL_BUILD_FUZZERS)
    foreach(fuzzer ${fuzzers})
      get_filename_component(target ${fuzzer} NAME_WE)
      add_executable(${target} ${fuzzer})
      target_link_libraries(${target} PRIVATE ${library})
      target_compile_options(${target} PRIVATE -fsanitize=fuzzer)
      target_link_options(${target} PRIVATE -fsanitize=fuzzer)
    endforeach()
  endif()
endfunction()
