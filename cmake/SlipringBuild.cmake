# Compiler settings that every target of the project shares, as one interface target.
add_library(slipring_build INTERFACE)
target_include_directories(slipring_build INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
target_compile_options(slipring_build INTERFACE -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Wno-interference-size
  -Wno-missing-field-initializers)  # designated initialisers leave the rest at its default on purpose
target_compile_definitions(slipring_build INTERFACE SLIPRING_VERSION="${PROJECT_VERSION}")

if(SLIPRING_SANITIZE)
  target_compile_options(slipring_build INTERFACE -fsanitize=${SLIPRING_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(slipring_build INTERFACE -fsanitize=${SLIPRING_SANITIZE})
endif()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()

# slipring_floor(NAME SOURCES ... DEPENDS ...): one static library per floor. Tests link floors directly;
# users link libslipring.so, which is made of the same objects with everything but the API hidden.
function(slipring_floor name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
  add_library(slipring_${name} STATIC ${ARG_SOURCES})
  target_link_libraries(slipring_${name} PUBLIC ${ARG_DEPENDS} PRIVATE slipring_build)
  target_include_directories(slipring_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>)
endfunction()
