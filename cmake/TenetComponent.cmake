# Components of the package: each is an interface target, its headers, and an export set of its own, so that
# find_package(tenet) asks only for what the wanted components need.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(tenet_package_folder ${CMAKE_INSTALL_DATADIR}/cmake/tenet)  # not below lib/: nothing here depends on the machine

# tenet_component(NAME HEADERS file… LINK target…): the target tenet::NAME, its header set, and its installation.
function(tenet_component name)
  cmake_parse_arguments(PARSE_ARGV 1 component "" "" "HEADERS;LINK")
  set(target tenet_${name})
  if(name STREQUAL tenet)
    set(target tenet)
  endif()
  add_library(${target} INTERFACE)
  add_library(tenet::${name} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  target_sources(${target} INTERFACE
    FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR}/include FILES ${component_HEADERS})
  target_link_libraries(${target} INTERFACE ${component_LINK})
  install(TARGETS ${target} EXPORT tenet-${name} FILE_SET HEADERS)
  install(EXPORT tenet-${name} NAMESPACE tenet:: DESTINATION ${tenet_package_folder})
endfunction()

# Installs tenetConfig.cmake and its version file.
function(tenet_install_package)
  configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/tenetConfig.cmake.in tenetConfig.cmake
    INSTALL_DESTINATION ${tenet_package_folder})
  # Before 1.0 a minor version may change the interface.
  write_basic_package_version_file(tenetConfigVersion.cmake COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
  install(FILES ${PROJECT_BINARY_DIR}/tenetConfig.cmake ${PROJECT_BINARY_DIR}/tenetConfigVersion.cmake
    DESTINATION ${tenet_package_folder})
endfunction()
