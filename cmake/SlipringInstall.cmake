# What `cmake --install` lays down: the library, its headers, its tools, and what finds them again.
include(CMakePackageConfigHelpers)

install(TARGETS slipring EXPORT slipringTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/slipring DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.h")
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

set(slipring_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/slipring)
install(EXPORT slipringTargets NAMESPACE slipring:: DESTINATION ${slipring_cmake_dir})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/slipringConfig.cmake.in
  ${PROJECT_BINARY_DIR}/slipringConfig.cmake INSTALL_DESTINATION ${slipring_cmake_dir})
# Before 1.0 every minor version may change the ABI.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/slipringConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/slipringConfig.cmake ${PROJECT_BINARY_DIR}/slipringConfigVersion.cmake
  DESTINATION ${slipring_cmake_dir})

# The .pc file finds its prefix from where it lies, so that an installed tree can be moved.
set(slipring_pc_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH SLIPRING_PC_PREFIX "${CMAKE_INSTALL_PREFIX}/${slipring_pc_dir}" "${CMAKE_INSTALL_PREFIX}")
configure_file(${PROJECT_SOURCE_DIR}/cmake/slipring.pc.in ${PROJECT_BINARY_DIR}/slipring.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/slipring.pc DESTINATION ${slipring_pc_dir})

foreach(tool slipring-run slipring-perf slipring-info)
  if(TARGET ${tool})
    install(TARGETS ${tool} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endforeach()
